"""What a classifier has learned, as attributes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xlda._internal.arrays import Array
from xlda._internal.not_fitted import not_fitted
from xlda.head.head import Head
from xlda.model import Model
from xlda.parameters import check_parameters, check_unchanged, learning_parameters


class Learned:
    """Attributes that are read from the model, each as of one moment, while other threads may learn."""

    _model: Model

    def _current_head(self) -> Head:
        raise NotImplementedError

    @property
    def classes_(self) -> Array:
        """Known labels, sorted: the order of the columns of scores."""
        with self._locked("classes_") as model:
            return model.labels.table().sorted()

    @property
    def class_count_(self) -> Array:
        """Total weight of each class."""
        with self._locked("class_count_") as model:
            return model.moments.counts_of(model.labels.table().sorted_rows)

    @property
    def means_(self) -> Array:
        """Mean of each class; NaN for a class without samples."""
        with self._locked("means_") as model:
            return model.moments.means[model.labels.table().sorted_rows]

    @property
    def covariance_(self) -> Array:
        """Unbiased pooled within-class covariance, without shrinkage."""
        with self._locked("covariance_") as model:
            return model.moments.covariance()

    @property
    def shrinkage_(self) -> float:
        """The shrinkage in use."""
        return self._current_head().shrinkage

    @property
    def n_samples_seen_(self) -> int:
        """Samples learned less those forgotten."""
        with self._locked("n_samples_seen_") as model:
            return model.moments.n_samples

    # -- how it works

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def _require_start(self, what: str) -> None:
        """Refuse what needs something learned; as an AttributeError too, so that hasattr works.

        Rows for a second look that is None by now are dropped.
        """
        if not self.__sklearn_is_fitted__():
            raise not_fitted(f"{what}: this XLDA has learned no class yet. Call fit or partial_fit first.")
        began, now = self._model.started_with, learning_parameters(self)
        if began == now:
            return
        is_dropped = now.second_look is None
        check_unchanged(began._replace(second_look=None) if is_dropped else began, now)
        if is_dropped:
            check_parameters(self)  # first: rows cannot be had again
            self._model.drop_sketches()

    @contextmanager
    def _locked(self, what: str) -> Iterator[Model]:
        """What was learned, which no other thread changes in the block."""
        self._require_start(what)
        with self._model.lock:
            yield self._model
