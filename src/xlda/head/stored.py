"""A Bayesian head in a file, so that opening one is reading and nothing is inverted.

All of it follows from the moments beside it. Where it is missing, or of a newer version, it is made of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from xlda._internal.arrays import Array
from xlda._internal.section import Section, Tensors
from xlda.head.bayes_space import MOST_DIRECTIONS, BayesSpace
from xlda.head.changed_rows import ChangedRows
from xlda.head.class_spread import ClassSpread, LeftOut
from xlda.head.count_table import CountTable
from xlda.head.head import Head
from xlda.labels import LabelTable
from xlda.moments import Moments
from xlda.search.class_rows import Columns
from xlda.search.protocol import Index, MadeOf, MakingAgain, OrderedClasses, Search, columns_of
from xlda.search.short_weights import ShortWeights

NAME, VERSION = "head", 1
FLOATS = (np.float32, np.float64)
KINDS = (np.float16, *FLOATS)
OF_INDEX = "index_"
NUMBERS = ("size", "share", "worth", "outside", "shrinkage", "total")


def head_to_section(head: Head, total: float) -> Section | None:
    """A head that was made of all that is known; `total` is the weight of the samples. None of most kinds."""
    space = head.space
    if not isinstance(space, BayesSpace) or space.layer is not None:
        return None
    columns = columns_of(head.index)
    if columns is None:
        return None
    spread, n = space.spread, space.n_coordinates
    squares = columns[0].squares
    tensors: Tensors = {
        "centre": space.centre,
        "whitening": space.whitening,
        "basis": space.basis,
        "rotation": space.rotation[:, :n].T,
        "probe": space.probe.T,
        "psi": spread.psi,
        "measured": spread.measured,
        "class_centre": spread.centre,
        "counts": space.table.counts,
        "groups": np.zeros(len(columns[0]), np.int32) if squares is None else squares.groups.astype(np.int32),
        "changed": head.changed.newest[0].astype(np.int64),
    }
    for number, part in enumerate(columns):
        tensors |= _part_to_tensors(f"part_{number}", part)
    if isinstance(head.index, MadeOf):
        tensors |= {OF_INDEX + name: tensor for name, tensor in head.index.tensors().items()}
    left_out = None if spread.left_out is None else list(spread.left_out)
    numbers = {name: getattr(spread, name) for name in NUMBERS[:4]}
    info = {**numbers, "shrinkage": head.shrinkage, "total": total, "left_out": left_out}
    return Section(NAME, VERSION, tensors, {**info, "n_parts": len(columns)}, may_be_ignored=True)


def head_from_section(
    section: Section, moments: Moments, table: LabelTable, search: Search, with_priors: bool
) -> Head:
    """The head of these moments as it was saved beside them."""
    space, groups = _space(section, moments)
    columns = _columns(section, space, groups, moments)
    edges = [0, *accumulate(part.width for part in columns)]
    if edges[-1] != space.n_coordinates:
        raise ValueError("its head has rows of another width")
    classes = space.classes(moments, moments.n_classes, with_priors)
    made_anew = classes.parts

    def parts(wanted: Sequence[int]) -> list[Columns]:
        return columns if list(wanted) == edges else made_anew(wanted)

    head = Head(
        table=table,
        space=space,
        shrinkage=section.number("shrinkage"),
        log_total=float(np.log(moments.total or 1.0)) if with_priors else None,
        index=_index(section, search, replace(classes, parts=parts)),
        changed=ChangedRows.none_of(space.n_coordinates + MOST_DIRECTIONS, moments.dtype),
        n_seen=moments.n_seen,
    )
    changed = section.tensor("changed", (np.int64,), (None,))
    if len(changed) and not 0 <= changed.min() <= changed.max() < len(table.names):
        raise ValueError("its head has rows that are not there")
    return head.updated(moments, table, changed) if len(changed) else head


def _index(section: Section, search: Search, classes: OrderedClasses) -> Index:
    """Of the arrays that there are of it, if it is the same search that had them."""
    tensors = {
        name.removeprefix(OF_INDEX): section.tensor(name, (*FLOATS, np.uint8), tensor.shape)
        for name, tensor in section.tensors.items()
        if name.startswith(OF_INDEX)
    }
    if tensors and isinstance(search, MakingAgain):
        return search.index_again(classes, tensors)
    return search.index(classes)


def _space(section: Section, moments: Moments) -> tuple[BayesSpace, Array]:
    d, dtype = moments.n_features, moments.dtype
    psi = section.tensor("psi", (np.float64,), (None,))
    n = len(psi)
    counts = section.tensor("counts", (np.float64,), (None,))
    groups = section.tensor("groups", (np.int32,), (moments.n_classes,))
    if not len(counts) or not counts.min() > 0 or (len(groups) and not groups.min() >= 0):
        raise ValueError("its head has counts that cannot be")
    if len(groups) and groups.max() >= len(counts):
        raise ValueError("its head has counts that cannot be")
    left_out = section.info.get("left_out")
    if left_out is not None and not _are_numbers(left_out, 2):
        raise ValueError("its head says of directions what cannot be")
    spread = ClassSpread(
        section.tensor("class_centre", (np.float64,), (d,)),
        np.empty((d, 0)),
        psi,
        section.number("size"),
        section.number("share"),
        section.tensor("measured", (np.float64,), (n,)),
        section.number("worth"),
        None if left_out is None else LeftOut(*map(float, left_out)),
        section.number("outside"),
    )
    space = BayesSpace(
        section.tensor("centre", (dtype,), (d,)),
        section.tensor("whitening", (dtype,), (d, d)),
        section.tensor("basis", (dtype,), (d, n)),
        np.empty((d, 0), dtype),
        section.tensor("rotation", (dtype,), (n, d)).T,
        section.tensor("probe", (dtype,), (None, d)).T,
        CountTable.in_order(psi, counts, dtype),
        spread,
    )
    return space, groups


def _are_numbers(values: object, n: int) -> bool:
    return isinstance(values, list) and len(values) == n and all(type(value) is float for value in values)


def _part_to_tensors(name: str, part: Columns) -> Tensors:
    if isinstance(part.weights, ShortWeights):
        weights = {f"{name}_numbers": part.weights.numbers, f"{name}_scale": part.weights.scale}
    else:
        weights = {f"{name}_weights": part.weights}
    never = np.isinf(part.offsets)  # which a tensor has not got: it has numbers
    return {**weights, f"{name}_offsets": np.where(never, 0.0, part.offsets).astype(part.offsets.dtype)}


def _columns(section: Section, space: BayesSpace, groups: Array, moments: Moments) -> list[Columns]:
    n_rows, live = moments.n_classes, moments.counts > 0
    squares = space.squares(groups.astype(np.intp))
    columns, start = [], 0
    for number in range(section.whole_number("n_parts")):
        name = f"part_{number}"
        weights: Array | ShortWeights
        if f"{name}_numbers" in section.tensors:
            numbers = section.tensor(f"{name}_numbers", (np.int16, np.int8), (n_rows, None))
            scale = section.tensor(f"{name}_scale", (np.float32,), numbers.shape[1:])
            weights = ShortWeights(numbers, scale)
        else:
            weights = section.tensor(f"{name}_weights", KINDS, (n_rows, None))
        offsets = section.tensor(f"{name}_offsets", (moments.dtype,), (n_rows,)).copy()
        if not number:
            offsets[~live] = -np.inf
        stop = start + int(weights.shape[1])
        columns.append(Columns(weights, offsets, None if squares is None else squares.columns(start, stop)))
        start = stop
    if not columns:
        raise ValueError("its head has no rows")
    return columns
