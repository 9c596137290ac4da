"""Whole classes: removed, renamed, joined, and each of that undone."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from xlda._internal.arrays import Array
from xlda.inputs import checked_block
from xlda.labels import Label, one_label
from xlda.learner.learned import Learned
from xlda.model import Model
from xlda.moments.blocks import block_of, rows_of
from xlda.moments.sketches import SketchRows


class Editing(Learned):
    """Methods that change which classes there are. The id of a class goes with it; see `XLDA.class_ids_`."""

    class_ids_: dict[Label, str]
    log_position_: dict[str, Any] | None
    n_features_in_: int
    rule: Literal["exact", "slda"]
    precision: Literal["full", "half"]

    def remove_class(self, label: Label) -> Self:
        """Let a class go. What its samples taught about the covariance common to all classes stays."""
        with self._locked("remove_class") as model:
            name = one_label(label)
            model.remove(name)
            self.class_ids_.pop(name, None)
        return self

    def rename_class(self, old: Label, new: Label) -> Self:
        """Give a class another label."""
        with self._locked("rename_class") as model:
            before, after = one_label(old), one_label(new, "new")
            model.rename(before, after)
            if before in self.class_ids_:
                self.class_ids_[after] = self.class_ids_.pop(before)
        return self

    def merge_classes(self, into: Label, other: Label) -> Self:
        """Make `other` a part of `into`, as if its samples had been labelled so."""
        with self._locked("merge_classes") as model:
            gone = one_label(other, "other")
            model.join(one_label(into, "into"), gone)
            self.class_ids_.pop(gone, None)
        return self

    def class_moments(self, label: Label) -> tuple[float, Array]:
        """Count and mean (n_features,) of a class: all that has to be kept to undo its end.

        The mean is float64, of the embeddings as they are learned, that is after the power (`power_`), and of
        their features where there is a lift; NaN for a class without samples. `split_class` and
        `restore_class` take both, and with a second look what `class_rows` gives.
        """
        with self._locked("class_moments") as model:
            return block_of(model.moments, int(model.labels.rows([one_label(label)])[0]))

    def class_rows(self, label: Label) -> SketchRows | None:
        """The rows of a class for a second look, which `split_class` and `restore_class` take; or None.

        They are sums over its samples: 8 bytes for each number of `second_look` embeddings.
        """
        with self._locked("class_rows") as model:
            return rows_of(model.moments, int(model.labels.rows([one_label(label)])[0]))

    def split_class(
        self, label: Label, new: Label, count: float, mean: ArrayLike, rows: SketchRows | None = None
    ) -> Self:
        """Make so many samples of class `label`, which have this mean, a class of their own: `new`.

        With what `class_moments` said of `other` before `merge_classes(label, other)`, that is undone; to the
        covariance it is as if it had never been. If these are all its samples, `label` stays known without
        any. Samples of both that were kept for checking are let go. With a second look, `rows` are what
        `class_rows` said of `other`; without them nobody knows which samples are in the rows of either class,
        and both are compared by those of others until their last sample is forgotten.
        """
        with self._locked("split_class") as model:
            if self.rule != "exact":
                raise ValueError("split_class needs rule='exact': the published rule cannot be undone.")
            block = self._block(model, count, mean)
            model.split(one_label(label), one_label(new, "new"), *block, checked_rows(model, rows))
        return self

    def restore_class(
        self, label: Label, count: float, mean: ArrayLike, rows: SketchRows | None = None
    ) -> Self:
        """Have a class again, with so many samples of this mean, which is not known or has no samples.

        With what `class_moments` said before `remove_class`, that is undone: what the samples taught about
        the common covariance has stayed. None of them are kept for checking any more. With a second look,
        `rows` are what `class_rows` said before; without them the class is compared by those of others.
        """
        with self._locked("restore_class") as model:
            block = self._block(model, count, mean)
            model.restore(one_label(label), *block, checked_rows(model, rows))
        return self

    def _block(self, model: Model, count: float, mean: ArrayLike) -> tuple[float, Array]:
        dtype = np.dtype(np.float16) if self.precision == "half" else model.moments.dtype
        return checked_block(count, mean, model.moments.n_features, dtype)


def checked_rows(model: Model, rows: Any) -> SketchRows | None:
    """Rows for a second look, if they can be some of this model; None where it has no use for them."""
    if rows is None:
        return None
    if not isinstance(rows, SketchRows):
        raise TypeError(f"rows are what `class_rows` gave, or None; got {type(rows).__name__}.")
    sketches = model.moments.sketches
    if sketches is None:
        return None
    shape, found = (sketches.n_rows, model.moments.n_features), rows.sums.shape
    if found != shape or rows.signs.shape != shape[:1]:
        raise ValueError(f"rows are {shape[0]} of {shape[1]} features here; got arrays of other shapes.")
    if not all(np.isfinite(part).all() for part in rows):
        raise ValueError("rows are finite numbers; got NaN or infinity.")
    if rows.weight < 0:
        raise ValueError(f"rows have a weight of at least 0; got {rows.weight!r}.")
    return rows
