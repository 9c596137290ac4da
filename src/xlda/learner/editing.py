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
from xlda.moments.blocks import block_of


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
        `restore_class` take both.
        """
        with self._locked("class_moments") as model:
            return block_of(model.moments, int(model.labels.rows([one_label(label)])[0]))

    def split_class(self, label: Label, new: Label, count: float, mean: ArrayLike) -> Self:
        """Make so many samples of class `label`, which have this mean, a class of their own: `new`.

        With what `class_moments` said of `other` before `merge_classes(label, other)`, that is undone; to the
        covariance it is as if it had never been. If these are all its samples, `label` stays known without
        any. Samples of both that were kept for checking are let go.
        """
        with self._locked("split_class") as model:
            if self.rule != "exact":
                raise ValueError("split_class needs rule='exact': the published rule cannot be undone.")
            model.split(one_label(label), one_label(new, "new"), *self._block(model, count, mean))
        return self

    def restore_class(self, label: Label, count: float, mean: ArrayLike) -> Self:
        """Have a class again, with so many samples of this mean, which is not known or has no samples.

        With what `class_moments` said before `remove_class`, that is undone: what the samples taught about
        the common covariance has stayed. None of them are kept for checking any more.
        """
        with self._locked("restore_class") as model:
            model.restore(one_label(label), *self._block(model, count, mean))
        return self

    def _block(self, model: Model, count: float, mean: ArrayLike) -> tuple[float, Array]:
        dtype = np.dtype(np.float16) if self.precision == "half" else model.moments.dtype
        return checked_block(count, mean, model.moments.n_features, dtype)
