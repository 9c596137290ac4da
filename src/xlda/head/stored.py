"""A Bayesian head in a file, so that opening one is reading and nothing is inverted.

Where it is missing, it is made of the moments beside it. Version 1 is a head of all that is known, which
follows from these; rows that are not among the others are computed when it is read. Version 2 is one that was
in use: it is of its last renewal, and what has changed since is in it as it was scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np

from xlda._internal.arrays import Array
from xlda._internal.section import Section, Tensors
from xlda._internal.triangles import n_packed, packed, unpacked
from xlda.head.bayes_space import MOST_DIRECTIONS, BayesSpace
from xlda.head.changed_rows import ChangedRows, NewRows
from xlda.head.class_spread import ClassSpread, LeftOut
from xlda.head.count_table import CountTable
from xlda.head.head import Head
from xlda.head.second_look import SecondLook
from xlda.head.upper_triangle import UpperTriangle
from xlda.labels import LabelTable
from xlda.moments import Moments
from xlda.search.class_rows import Columns
from xlda.search.dense import Dense, DenseIndex
from xlda.search.protocol import Index, MadeOf, MakingAgain, OrderedClasses, Search, columns_of
from xlda.search.short_weights import ShortWeights
from xlda.search.tuning import Planned

NAME, VERSION = "head", 2
RENEWED, IN_USE = 1, 2  # versions
FLOATS = (np.float32, np.float64)
KINDS = (np.float16, *FLOATS)
OF_INDEX = "index_"
NUMBERS = ("size", "share", "worth", "outside", "shrinkage", "total")


def is_kept_in_files(head: Head) -> bool:
    """Whether it is of a kind that can be in a file."""
    return isinstance(head.space, BayesSpace) and head.space.layer is None


def head_to_section(head: Head, total: float, weight: float = 0.0) -> Section | None:
    """A head; `total` is the weight of the samples when it was renewed, `weight` that learned since.

    None of most kinds.
    """
    space, columns = head.space, columns_of(head.index)
    if not isinstance(space, BayesSpace) or space.layer is not None or columns is None:
        return None
    tensors = _space_to_tensors(space, columns)
    for number, part in enumerate(columns):
        tensors |= _part_to_tensors(f"part_{number}", part)
    if isinstance(head.index, MadeOf):
        tensors |= {OF_INDEX + name: tensor for name, tensor in head.index.tensors().items()}
    spread = space.spread
    left_out = None if spread.left_out is None else list(spread.left_out)
    numbers = {name: getattr(spread, name) for name in NUMBERS[:4]}
    info = {**numbers, "shrinkage": head.shrinkage, "total": total, "left_out": left_out}
    info["n_parts"] = len(columns)
    if not weight and len(columns[0]) == head.n_rows:
        tensors["changed"] = head.changed.newest[0].astype(np.int64)
        return Section(NAME, RENEWED, tensors, info, may_be_ignored=True)
    tensors |= _changed_to_tensors(head, space)
    info |= {"weight": weight, "crowded": space.crowded, "dense": isinstance(head.index, DenseIndex)}
    return Section(NAME, IN_USE, tensors, info, may_be_ignored=True)


def _space_to_tensors(space: BayesSpace, columns: list[Columns]) -> Tensors:
    spread, squares, whitening = space.spread, columns[0].squares, space.whitening
    return {
        "centre": space.centre,
        "whitening": packed(whitening.matrix()) if isinstance(whitening, UpperTriangle) else whitening,
        "basis": space.made_basis(),
        "rotation": space.rotation[:, : space.n_coordinates].T,
        "probe": space.probe.T,
        "psi": spread.psi,
        "measured": spread.measured,
        "class_centre": spread.centre,
        "counts": space.table.counts,
        "groups": np.zeros(len(columns[0]), np.int32) if squares is None else squares.groups.astype(np.int32),
    }


def _changed_to_tensors(head: Head, space: BayesSpace) -> Tensors:
    """Rows that changed since the others were computed, and what of the others can win."""
    rows, entries = head.changed.newest
    new = head.changed.taken(entries)
    return {
        "live": head.index.rows.live.astype(np.uint8),
        "directions": space.directions.T,
        "changed": rows.astype(np.int64),
        "changed_weights": new.weights[:, : space.width],
        "changed_bias": np.where(np.isinf(new.bias), 0.0, new.bias).astype(new.bias.dtype),
        "changed_live": np.isfinite(new.bias).astype(np.uint8),
        "changed_groups": head.changed.groups[entries].astype(np.int32),
        "changed_apart": head.changed.apart[entries].astype(np.uint8),
    }


def unrenewed_weight(section: Section) -> float:
    """Of samples learned since the head was renewed."""
    if section.version == RENEWED:
        return 0.0
    weight = section.number("weight")
    if weight < 0:
        raise ValueError("its head has learned less than nothing")
    return weight


def head_from_section(
    section: Section, moments: Moments, table: LabelTable, search: Search, with_priors: bool
) -> Head:
    """The head of these moments as it was saved beside them."""
    if section.version == RENEWED:
        live = moments.counts > 0
    else:
        live = section.tensor("live", (np.uint8,), (None,)) > 0
        if len(live) > moments.n_classes:
            raise ValueError("its head has rows that are not there")
        search = Dense() if section.info.get("dense") is True else search
    space, groups = _space(section, moments, len(live))
    dtype = space.centre.dtype
    columns = _columns(section, space, groups, live)
    index = _searched(section, search, _classes(space, columns, moments, live, with_priors), live)
    head = Head(
        table=table,
        space=space,
        shrinkage=section.number("shrinkage"),
        log_total=float(np.log(moments.total or 1.0)) if with_priors else None,
        index=index,
        changed=ChangedRows.none_of(space.n_coordinates + MOST_DIRECTIONS, dtype),
        n_seen=moments.n_seen,
        second_look=SecondLook.where_kept(space, moments),
    )
    changed = section.tensor("changed", (np.int64,), (None,))
    if len(changed) and not 0 <= changed.min() <= changed.max() < len(table.names):
        raise ValueError("its head has rows that are not there")
    if section.version == RENEWED:
        return head.updated(moments, table, changed) if len(changed) else head
    if len(np.union1d(changed, np.arange(len(live)))) < len(table.names):
        raise ValueError("its head does not have all rows")
    return replace(head, changed=head.changed.extended(changed, _changed(section, space, len(changed))))


def _classes(
    space: BayesSpace, columns: list[Columns], moments: Moments, live: Array, with_priors: bool
) -> OrderedClasses:
    """Classes to be searched, whose rows are there if they are wanted as they were."""
    edges = [0, *accumulate(part.width for part in columns)]
    if edges[-1] != space.n_coordinates:
        raise ValueError("its head has rows of another width")
    classes = space.classes(moments, moments.n_classes, with_priors)

    def parts(wanted: Sequence[int]) -> list[Columns]:
        if list(wanted) == edges:
            return columns
        made_anew = [part.taken(slice(len(live))) for part in classes.parts(wanted)]
        made_anew[0].offsets[~live] = -np.inf
        return made_anew

    return replace(classes, parts=parts, live=live)


def _searched(section: Section, search: Search, classes: OrderedClasses, live: Array) -> Index:
    """The index as it was: its plan is not made anew, however many classes there are by now."""
    if section.version == RENEWED or not isinstance(search, Planned) or search.plan is None:
        return _index(section, search, classes)
    plan = search.plan
    as_before = replace(search, plan=replace(plan, n_classes=max(int(live.sum()), 1)))
    index: Any = _index(section, as_before, classes)
    plan = plan if index.plan.prefixes == plan.prefixes else index.plan
    found: Index = replace(index, search=search, plan=plan)
    return found


def _changed(section: Section, space: BayesSpace, n: int) -> NewRows:
    """Rows that changed since the others were computed, as they were scored."""
    dtype = space.centre.dtype
    groups = section.tensor("changed_groups", (np.int32,), (n,))
    if n and not 0 <= groups.min() <= groups.max() < len(space.table):
        raise ValueError("its head has counts that cannot be")
    bias = section.tensor("changed_bias", (dtype,), (n,)).copy()
    bias[section.tensor("changed_live", (np.uint8,), (n,)) == 0] = -np.inf
    return NewRows(
        section.tensor("changed_weights", (dtype,), (n, space.width)),
        bias,
        np.zeros(n, dtype),
        groups.astype(np.intp),
        section.tensor("changed_apart", (np.uint8,), (n,)) > 0,
    )


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


def _space(section: Section, moments: Moments, n_rows: int) -> tuple[BayesSpace, Array]:
    d, centre = moments.n_features, section.tensor("centre", FLOATS, (moments.n_features,))
    dtype = centre.dtype
    psi = section.tensor("psi", (np.float64,), (None,))
    n = len(psi)
    counts = section.tensor("counts", (np.float64,), (None,))
    groups = section.tensor("groups", (np.int32,), (n_rows,))
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
    whitening: Array | UpperTriangle
    basis: Array | None
    if moments.lift is None:
        whitening = section.tensor("whitening", (dtype,), (d, d))
        basis = section.tensor("basis", (dtype,), (d, n))
    else:
        half = section.tensor("whitening", (dtype,), (n_packed(d),))
        matrix = unpacked(half, d, symmetric=False)
        if not np.diag(matrix).all():
            raise ValueError("its head has a whitening that cannot be")
        whitening, basis = UpperTriangle.of(matrix), None
    directions = np.empty((d, 0), dtype)
    rotation = section.tensor("rotation", (dtype,), (n, d)).T
    if section.version == IN_USE:
        directions = section.tensor("directions", (dtype,), (None, d)).T
        if directions.shape[1] > MOST_DIRECTIONS:
            raise ValueError("its head has more directions than there can be")
        rotation = np.asfortranarray(np.column_stack([rotation, whitening @ directions]))
    space = BayesSpace(
        centre,
        whitening,
        basis,
        directions,
        rotation,
        section.tensor("probe", (dtype,), (None, d)).T,
        CountTable.in_order(psi, counts, dtype),
        spread,
        crowded=section.info.get("crowded") is True,
        lift=moments.lift,
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


def _columns(section: Section, space: BayesSpace, groups: Array, live: Array) -> list[Columns]:
    n_rows, dtype = len(live), space.centre.dtype
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
        offsets = section.tensor(f"{name}_offsets", (dtype,), (n_rows,)).copy()
        if not number:
            offsets[~live] = -np.inf
        stop = start + int(weights.shape[1])
        columns.append(Columns(weights, offsets, None if squares is None else squares.columns(start, stop)))
        start = stop
    if not columns:
        raise ValueError("its head has no rows")
    return columns
