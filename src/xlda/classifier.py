"""XLDA, the estimator: the one place that knows labels, moments and head."""

from __future__ import annotations

import copy
import os
import threading
import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError

from xlda._internal.arrays import Array, Rows
from xlda._internal.interrupts import interrupt_afterwards
from xlda._internal.progress import Progress
from xlda.audit import Audit, audited
from xlda.head.covariance import Shrinkage, Target, check_shrinkage
from xlda.head.head import Head, Priors, new_head
from xlda.head.layer_rows import LayerRows
from xlda.head.model_samples import sampled_queries
from xlda.inputs import check_half, check_magnitude, checked_embeddings, checked_weights
from xlda.labels import Label, Labels, label_list
from xlda.layers.conversion import (
    PUBLISHED,
    STRENGTH,
    TOO_FEW,
    WITH_POWER,
    WITHOUT_EMBEDDINGS,
    assumed_moments,
    checked_covariance,
    labelled_by_layer,
)
from xlda.layers.layer import Layer, checked_layer
from xlda.model_file import StoredModel, read_model, write_model
from xlda.moments import ForgetError, Moments
from xlda.moments.published_rule import PublishedMoments
from xlda.moments.sample_buffer import SampleBuffer
from xlda.predictor import Predicting, Snapshot
from xlda.search import Dense, Search, check_search, chosen_search, restored, saved_by
from xlda.sources import Batch, SourceError, open_source

SETTLED = 10  # samples a feature, from which on each changes the covariance less and less
MOST_SHARE = 0.25  # of all samples, that may be learned without renewing it
BESIDE_A_LAYER = 0.1  # the least share where a layer's rows are fitted anew each time, which costs more

_LEARNED = (
    "n_features_in_",
    "feature_names_in_",
    "source_position_",
    "backbone_",
    "_lock",
    "_labels",
    "_absorbed",
    "_buffer",
    "_layer_rows",
    "_started_with",
    "_version",
    "_served",
    "_plan",
    "_touched",
    "_n_touched",
    "_weight_since_renewal",
    "_weight_at_renewal",
    "_others_at_renewal",
)


class XLDA(Predicting):
    """Linear discriminant analysis that learns a stream of samples, new classes included, exactly.

    Any order, batching or split of the same samples gives the same classifier, to rounding.

    Parameters
    ----------
    shrinkage
        How far the covariance is drawn towards a multiple of the identity: a number in [0, 1], "oas", or
        "ledoit-wolf". The fewer the samples per class, the more it matters; 0.2 to 0.5 suits embeddings.
    shrinkage_target
        "trace" draws towards the mean variance, so that the scale of the embeddings does not matter;
        "identity" towards a variance of 1, as published.
    covariance
        "plastic" learns for ever; "fixed" is frozen at the end of the first call that learns (`fit`, or the
        first `partial_fit`), and only means go on.
    rule
        "exact" is the pooled within-class covariance; "slda" the published update, sample by sample, which
        depends on the order and is here for comparison.
    priors
        "equal", or "empirical": a class seen more often is more likely.
    power
        Exponent of a signed power taken of the embeddings before anything else; 0.5 helps non-negative ones.
    renew
        The covariance is inverted anew once the samples learned since pass this share of all; the means used
        are always current. 0 renews at every change. With more than 10 samples for each feature every one
        changes the covariance less, and the share is larger by as much more as there are, up to 1/4. Beside
        the rows of a layer (`from_linear`) it is at least 0.1, unless it is 0.
    search
        How `predict` and `predict_topk` find the best classes: "dense" looks at all of them; "fisher" at few,
        and agrees with that in at least 99.9 % of cases; "lsh" is the paper's way; "faiss" needs that
        library; "auto" is "dense" for few classes and "fisher" for many. Or one of `xlda.search` with
        settings of its own.
    precision
        "half" keeps means and weights as float16, in half the memory; they are rounded at every change, so a
        class of thousands of samples moves no more, and the order matters in the last digits.

    Attributes
    ----------
    classes_
        Labels, in the order of the columns of scores: as they came, those of one call sorted. A new class
        takes the place of one that was removed.
    class_count_, means_
        Total weight and mean of each class; a class without samples has the mean NaN.
    covariance_
        Unbiased pooled within-class covariance, without shrinkage; with rule="slda", that rule's.
    shrinkage_
        The shrinkage in use.
    n_features_in_, n_samples_seen_
        Width of the embeddings; samples learned less those forgotten.
    source_position_
        After `fit_source`: the file and row up to which it has learned.
    backbone_
        What made the embeddings, as a dict that JSON can hold, or None: to be set by whoever knows. It is
        saved, and `merge` refuses a classifier with another one.

    Examples
    --------
    >>> clf = XLDA().partial_fit([[0.0, 0.1], [0.2, 0.0], [3.0, 3.1]], ["apple", "apple", "pear"])
    >>> clf.partial_fit([[9.0, 0.0]], ["kiwi"]).predict([[8.0, 1.0], [0.0, 0.0]])
    array(['kiwi', 'apple'], dtype='<U5')
    """

    backbone_: dict[str, Any] | None
    _absorbed: Moments
    _layer_rows: LayerRows | None
    _served: _Served | None
    _plan: dict[str, Any] | None
    batch_keys_: list[str]

    def __init__(
        self,
        *,
        shrinkage: Shrinkage = 0.3,
        shrinkage_target: Target = "trace",
        covariance: Literal["plastic", "fixed"] = "plastic",
        rule: Literal["exact", "slda"] = "exact",
        priors: Priors = "equal",
        power: float | None = None,
        renew: float = 0.01,
        search: str | Search = "auto",
        precision: Literal["full", "half"] = "full",
    ) -> None:
        self.shrinkage = shrinkage
        self.shrinkage_target = shrinkage_target
        self.covariance = covariance
        self.rule = rule
        self.priors = priors
        self.power = power
        self.renew = renew
        self.search = search
        self.precision = precision

    # -- learning

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Forget everything and learn (X, y). Where that fails, nothing is forgotten."""
        learner = self._blank()._learn(X, y, None, sample_weight, min_samples=1)
        if not len(learner._labels):
            raise ValueError("fit got nothing to learn: every sample_weight is zero.")
        learner._end_of_base()._current_head()
        return self._become(learner)

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn more: X (n_samples, n_features), y (n_samples,) with known labels, new ones, or both.

        `classes` makes labels known ahead of their samples; it is never needed, and until it has a sample a
        class never wins. A weight of 2 counts as the sample given twice.
        """
        return self._learn_more(X, y, classes, sample_weight)._end_of_base()

    def fit_source(
        self,
        source: Any,
        batch_size: int = 4096,
        progress: bool = True,
        resume: tuple[str, int] | None = None,
    ) -> Self:
        """Learn all samples of a source in one pass, in memory that does not depend on its size.

        `source` is what `xlda.open_source` gives or takes: arrays, files, folders. What was learned before
        stays, as with `partial_fit`. On a terminal, `progress` shows how far it is.

        Ctrl-C and bad files leave a classifier that has learned whole batches: all before the file and row
        in `source_position_`. Given as `resume`, that is where learning goes on.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size is at least 1; got {batch_size!r}.")
        source = open_source(source)
        with Progress(lambda: source.n_samples(resume), progress) as bar:
            for batch in source.batches(batch_size, resume):
                with interrupt_afterwards():
                    self._learn_batch(batch)
                bar.advance(len(batch.embeddings))
        return self._end_of_base()

    def forget(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Undo having learned (X, y): the classifier is as if it had never seen them.

        A class all of whose samples are forgotten stays known and never wins. With covariance="fixed" only
        counts and means forget. Costs as much as learning; `docs/math.md` says what rounding leaves.
        """
        self._require_start("forget")
        embeddings, labels, weights = self._samples(X, y, sample_weight)
        with self._lock, interrupt_afterwards():
            rows = self._labels.rows(labels)
            try:
                self._moments.forget(embeddings, rows, weights)
            except ForgetError as error:
                name = self._labels.names[error.row]
                raise ValueError(
                    f"Cannot forget {error.taken:g} of class {name!r}: it has learned {error.have:g}."
                ) from None
            return self._changed(rows, _total(rows, weights))

    def remove_class(self, label: Label) -> Self:
        """Let a class go. What its samples taught about the covariance common to all classes stays."""
        self._require_start("remove_class")
        with self._lock, interrupt_afterwards():
            row = self._labels.remove(_one(label))
            self._moments.drop(row)
            if self._layer_rows is not None and self._layer_rows.has(row):
                self._layer_rows = self._layer_rows.without(row) or None
                self._served = None
            return self._changed(np.array([row]))

    def rename_class(self, old: Label, new: Label) -> Self:
        """Give a class another label."""
        self._require_start("rename_class")
        with self._lock, interrupt_afterwards():
            return self._changed(np.array([self._labels.rename(_one(old), _one(new, "new"))]))

    def merge_classes(self, into: Label, other: Label) -> Self:
        """Make `other` a part of `into`, as if its samples had been labelled so."""
        self._require_start("merge_classes")
        with self._lock, interrupt_afterwards():
            kept, gone = self._labels.rows([_one(into, "into"), _one(other, "other")]).tolist()
            if kept == gone:
                raise ValueError(f"merge_classes needs two classes; got {into!r} twice.")
            self._check_not_of_layer(kept, gone)
            count = float(self._moments.counts_of(gone))
            self._moments.join(kept, gone)
            self._labels.remove(_one(other))
            return self._changed(np.array([kept, gone]), count)

    def merge(self, other: XLDA) -> Self:
        """Learn all that another classifier has learned, as from its samples. `other` stays as it is.

        With covariance="fixed" the covariance here stays.
        """
        if not isinstance(other, XLDA):
            raise TypeError(f"merge needs another XLDA; got {type(other).__name__}.")
        if not other.__sklearn_is_fitted__():
            return self
        if not self.__sklearn_is_fitted__():
            self._check_params()
            self._check_mergeable(other)
            return self._become(copy.deepcopy(other))
        self._require_start("merge")
        self._check_mergeable(other)
        if other._layer_rows is not None:
            raise ValueError(
                "merge got a classifier converted from a layer: nothing can be learned from its rows. "
                "Merge this one into that one instead."
            )
        one, two = (self, other) if id(self) < id(other) else (other, self)  # so that none waits for ever
        with one._lock, two._lock, interrupt_afterwards():
            theirs = other._labels.live_rows
            labels = other._labels.names[theirs].tolist()
            self._labels.check_kind(labels)
            self._moments.reserve(self._labels.n_rows_with(labels))
            rows = np.zeros(other._moments.n_classes, np.intp)
            rows[theirs] = self._labels.add(labels)
            self._moments.grow(self._labels.n_rows)
            self._moments.merge(other._moments, rows)
            self.backbone_ = self.backbone_ or other.backbone_
            return self._changed(rows[theirs], other._moments.weight_learned)

    # -- from a layer and back

    @classmethod
    def from_linear(
        cls,
        weight: ArrayLike,
        bias: ArrayLike | None = None,
        *,
        labels: ArrayLike | None = None,
        covariance: Literal["auto", "identity", "weights"] | ArrayLike = "auto",
        embeddings: Any = None,
        embedding_labels: ArrayLike | None = None,
        strength: float = STRENGTH,
        **params: Any,
    ) -> Self:
        """A classifier that takes over from a fully connected layer and goes on learning.

        The rows of the layer are kept beside what is learned from samples, on a scale fitted to it, and count
        as up to `strength` samples each: as real ones of a class come, its row fades.

        Give it embeddings if there are any: a few of each class, without labels, of what the layer is used
        on. It learns them with the labels that the layer gives them. Without embeddings it predicts exactly
        as the layer does until it learns something, and less well than with them from then on; a warning says
        so. `benchmarks/conversion.py` has figures.

        Parameters
        ----------
        weight, bias
            (n_classes, n_features) and (n_classes,) of the layer: logits are X @ weight.T + bias.
        labels
            Label of each row; 0, 1, ... where not given.
        covariance
            "auto" is as said above. "identity" and "weights" are the paper's: rows are taken for class means,
            the covariance is I or that of the rows, and the bias is ignored; such a classifier forgets as
            soon as it learns, and is here for comparison. An array (n_features, n_features) is taken for the
            covariance within classes, with this classifier's shrinkage: so comes back what `to_linear` gave,
            where the shrinkage is a number.
        embeddings
            (n_samples, n_features), or anything that `xlda.open_source` takes, with labels=None. With less
            than two a class they do more harm than good, and are left out, with a warning.
        embedding_labels
            (n_samples,), where they are known after all.
        strength
            How many samples a row of the layer is worth beside real ones of its class, at most: it is no more
            than its odds of being right about them.
        params
            Of the classifier, but `covariance`. With `power`, which the layer's rows are not made for, it
            only labels the embeddings.
        """
        layer = checked_layer(weight, bias, labels)
        how = checked_covariance(covariance, layer, embeddings, embedding_labels, params.get("power"))
        if not (isinstance(strength, Real) and 0 < strength < np.inf):
            raise ValueError(f"strength is a positive number; got {strength!r}.")
        if isinstance(how, str) and how in PUBLISHED:
            params = {"shrinkage": 1e-4, "shrinkage_target": "identity", **params}
        clf = cls(**params)
        clf._check_params()
        if clf.rule != "exact":
            raise ValueError(f"from_linear needs rule='exact'; got {clf.rule!r}.")
        clf.n_features_in_ = layer.weight.shape[1]
        clf._start()
        clf._labels = Labels(layer.labels)
        if isinstance(how, str) and how == "auto":
            clf._take_over(layer, strength, embeddings, embedding_labels)
        else:
            clf._absorbed = assumed_moments(
                layer, how, strength, clf.shrinkage, clf.shrinkage_target, half=clf._absorbed.half
            )
        return clf

    def _take_over(self, layer: Layer, strength: float, embeddings: Any, embedding_labels: Any) -> None:
        """Keep the rows of a layer, and learn embeddings with the labels that it gives them."""
        self._absorbed.widen(layer.weight.dtype)
        self._absorbed.grow(len(layer.labels))
        if self.precision == "half":
            check_half(layer.weight)
        if self.power is None:
            worth = np.full(len(layer.labels), float(strength))
            self._layer_rows = LayerRows(layer.weight, layer.bias, worth)
        if embeddings is None:
            warnings.warn(WITHOUT_EMBEDDINGS, stacklevel=3)
            return
        known = None
        if embedding_labels is not None:
            known = self._labels.rows(label_list(embedding_labels, "embedding_labels"))
        taught = copy.deepcopy(self._absorbed)
        for raw, rows in labelled_by_layer(layer, self, embeddings, known):
            taught.update(self._samples(raw, rows, None)[0], rows)
        if known is None and self._layer_rows and not self._layer_rows.covered_by(taught.counts):
            warnings.warn(TOO_FEW, stacklevel=3)
            return
        self._absorbed = taught
        n_without = len(layer.labels) - self._absorbed.n_seen
        if self.power is not None and n_without:
            warnings.warn(WITH_POWER.format(n_without), stacklevel=3)

    # -- predicting

    def to_linear(self) -> tuple[Array, Array]:
        """Weights (n_classes, n_features) and bias (n_classes,) of the equal fully connected layer, float64.

        `decision_function` is X @ weights.T + bias, before the difference taken for two classes. With `power`
        set, X stands for the embeddings after that power. The covariance is renewed first.
        """
        self._let_renew()
        head = self._current_head()
        weights, bias = head.linear()
        return weights[head.live_rows], bias[head.live_rows]

    def snapshot(self) -> Snapshot:
        """This classifier as it is now, to predict with while it goes on learning; costs nothing.

        `predict` of the classifier itself sees all that was learned before it is called, and so waits for a
        thread that is learning. A snapshot never waits, and any number of threads may use it.
        """
        return Snapshot(self._current_head(), self.power, getattr(self, "feature_names_in_", None))

    def audit(self, X: ArrayLike | None = None, n: int = 1000) -> Audit:
        """How far the search agrees with exact LDA, how much faster it is, and what memory all takes.

        On the queries X (n_samples, n_features), or on `n` of them drawn from the model. `print` it.
        """
        if n < 1:
            raise ValueError(f"n is at least 1; got {n!r}.")
        head = self._current_head()
        if X is None and self._layer_rows is not None:
            raise ValueError(
                "audit needs X: rows of an imported layer do not say what its queries look like."
            )
        if X is not None:
            embeddings = checked_embeddings(self, X, self.power, min_samples=1)
        else:
            with self._lock:
                moments = self._moments
                queries, _ = sampled_queries(moments, head.centre, n, np.random.default_rng(0))
                embeddings = queries + head.centre
        return audited(head, embeddings, X is None, self.memory())

    def memory(self) -> dict[str, int]:
        """Bytes that each part takes."""
        nbytes = {**self._absorbed.nbytes, **self._current_head().nbytes}
        if self._layer_rows is not None:
            nbytes["imported layer"] = self._layer_rows.nbytes
        return nbytes

    # -- what was learned

    @property
    def classes_(self) -> Array:
        """Known labels, in the order of the columns of scores."""
        self._require_start("classes_")
        return self._labels.to_array()

    @property
    def class_count_(self) -> Array:
        """Total weight of each class."""
        self._require_start("class_count_")
        return self._moments.counts_of(self._labels.live_rows)

    @property
    def means_(self) -> Array:
        """Mean of each class; NaN for a class without samples."""
        self._require_start("means_")
        return self._moments.means[self._labels.live_rows]

    @property
    def covariance_(self) -> Array:
        """Unbiased pooled within-class covariance, without shrinkage."""
        self._require_start("covariance_")
        with self._lock:
            return self._moments.covariance()

    @property
    def shrinkage_(self) -> float:
        """The shrinkage in use."""
        return self._current_head().shrinkage

    @property
    def n_samples_seen_(self) -> int:
        """Samples learned less those forgotten."""
        self._require_start("n_samples_seen_")
        return self._moments.n_samples

    # -- on disk

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the classifier to one file, whole or not at all: O(C d + d^2).

        `xlda.load` gives it back, and it goes on learning as if it had never been away. What the search was
        tuned to is kept: one that has predicted before it was saved is ready sooner after it is loaded.
        """
        self._require_start("save")
        with self._lock:
            self._let_renew()
            model = StoredModel(
                self.get_params(deep=False),
                self._labels.names.tolist(),
                self._moments,
                self._layer_rows,
                self._last_plan(),
                self.backbone_,
                list(getattr(self, "feature_names_in_", [])),
                getattr(self, "batch_keys_", []),
            )
            write_model(path, model)

    # -- how it works

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_absorbed")

    def __getstate__(self) -> dict[str, Any]:
        with self.__dict__.get("_lock", nullcontext()):
            return {name: value for name, value in super().__getstate__().items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if self.__sklearn_is_fitted__():
            self._lock = threading.RLock()

    def _require_start(self, what: str) -> None:
        """Refuse what needs something learned; as an AttributeError too, so that hasattr works."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"{what}: this XLDA has learned no class yet. Call fit or partial_fit first."
            )
        if self._started_with != self._learning_params():
            raise ValueError(
                f"rule, covariance, power or precision changed after learning began: {self._started_with} "
                f"became {self._learning_params()}. Call fit to start anew."
            )

    def _learning_params(self) -> tuple[Any, ...]:
        return self.rule, self.covariance, self.power, self.precision

    def _scoring_params(self) -> tuple[Any, ...]:
        return self.shrinkage, self.shrinkage_target, self.priors, self.search

    def _check_params(self) -> None:
        check_shrinkage(self.shrinkage, self.shrinkage_target)
        _check_choice("covariance", self.covariance, ("plastic", "fixed"))
        _check_choice("rule", self.rule, ("exact", "slda"))
        _check_choice("priors", self.priors, ("equal", "empirical"))
        _check_choice("precision", self.precision, ("full", "half"))
        check_search(self.search)
        if self.power is not None and not (isinstance(self.power, Real) and 0 < self.power < np.inf):
            raise ValueError(f"power is None or a positive number; got {self.power!r}.")
        if not (isinstance(self.renew, Real) and 0 <= self.renew < np.inf):
            raise ValueError(f"renew is a number of at least 0; got {self.renew!r}.")

    def _check_not_of_layer(self, *rows: int) -> None:
        """Refuse rows that are an imported layer's."""
        for row in rows:
            if self._layer_rows is not None and self._layer_rows.has(row):
                raise ValueError(
                    f"Class {self._labels.names[row]!r} comes from a layer, whose rows cannot be merged."
                )

    def _check_mergeable(self, other: XLDA) -> None:
        mine, theirs = self._learning_params(), other._started_with
        if mine != theirs:
            raise ValueError(
                "merge needs the same rule, covariance, power and precision; "
                f"here {mine}, in the other {theirs}."
            )
        if not self.__sklearn_is_fitted__():
            return
        if other.n_features_in_ != self.n_features_in_:
            raise ValueError(
                f"merge got a classifier of {other.n_features_in_} features; this one has "
                f"{self.n_features_in_}. Only classifiers over the same backbone can be merged."
            )
        if self.backbone_ and other.backbone_ and self.backbone_ != other.backbone_:
            raise ValueError(
                f"merge got a classifier over the backbone {other.backbone_}; this one's is {self.backbone_}."
            )
        names, their_names = (getattr(clf, "feature_names_in_", None) for clf in (self, other))
        if names is not None and their_names is not None and names.tolist() != their_names.tolist():
            raise ValueError("merge got a classifier whose features have other names or another order.")
        if self.rule == "slda":
            raise ValueError("rule='slda' depends on the order, so it cannot be merged. Use rule='exact'.")

    def _blank(self) -> Self:
        """A classifier with these parameters that has learned nothing."""
        return type(self)(**self.get_params(deep=False))

    def _become(self, learner: XLDA) -> Self:
        """Take over what `learner` has learned, and nothing of its parameters."""
        for name in _LEARNED:
            self.__dict__.pop(name, None)
        self.__dict__.update({name: value for name, value in vars(learner).items() if name in _LEARNED})
        return self

    def _start(self) -> None:
        kind = PublishedMoments if self.rule == "slda" else Moments
        self._absorbed = kind(self.n_features_in_, half=self.precision == "half")
        self.backbone_ = None
        self._layer_rows = None  # rows of a layer that nobody has samples of
        self._buffer = SampleBuffer()  # learned, but not absorbed yet: `_moments` does that first
        self._labels = Labels()
        self._lock = threading.RLock()  # learning and bringing the head up to date take turns
        self._started_with = self._learning_params()
        self._version = 0  # of what was learned
        self._served = None
        self._plan = None  # what the search was tuned to, while there is no head
        self._n_touched = 0
        self._touched: list[Rows] = []  # rows whose mean or label the head does not have yet
        self._weight_since_renewal = self._weight_at_renewal = 0.0
        self._others_at_renewal = 0  # classes with samples, beside a layer's

    def _learn(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None, sample_weight: Any, min_samples: int = 0
    ) -> Self:
        started = self.__sklearn_is_fitted__()
        self._require_start("partial_fit") if started else self._check_params()
        embeddings, labels, weights = self._samples(X, y, sample_weight, min_samples)
        if not started:
            self._start()
        ahead = [] if classes is None else label_list(classes, "classes")
        self._labels.check_kind(ahead, labels)
        if weights is not None and self.rule == "slda":
            raise ValueError("rule='slda' has no sample weights. Use rule='exact'.")
        with self._lock, interrupt_afterwards() if len(labels) > 1 or ahead else nullcontext():
            rows = None if ahead else self._labels.rows_if_known(labels)
            if rows is None:
                rows = self._welcome(ahead, labels)
            if weights is not None or not self._buffer.add(embeddings, rows):
                moments = self._moments
                if weights is not None or not self._buffer.add(embeddings, rows):
                    self._changed(rows, _total(rows, weights))
                    moments.update(embeddings, rows, weights)
            self._version += 1
        return self

    @property
    def _moments(self) -> Moments:
        """All that was learned."""
        if self._buffer:
            with self._lock, interrupt_afterwards():
                embeddings, rows = self._buffer.take()
                self._changed(rows.copy(), len(rows))
                self._absorbed.update(embeddings, rows)
        return self._absorbed

    def _welcome(self, ahead: list[Label], labels: list[Label]) -> Rows:
        """Rows of `labels`, making room for those that are new and for those named ahead."""
        self._moments.reserve(self._labels.n_rows_with(ahead, labels))  # memory first: it may not be had
        self._changed(self._labels.add(ahead))
        rows = self._labels.add(labels)
        self._moments.grow(self._labels.n_rows)
        return rows

    def _learn_more(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None, sample_weight: Any) -> Self:
        if self.__sklearn_is_fitted__():
            return self._learn(X, y, classes, sample_weight)
        learner = self._blank()._learn(X, y, classes, sample_weight)
        return self._become(learner) if len(learner._labels) else self

    def _learn_batch(self, batch: Batch) -> None:
        try:
            self._learn_more(batch.embeddings, batch.labels, None, None)
        except ValueError as error:
            raise SourceError(batch.start, error) from error
        self.source_position_ = batch.end

    def _end_of_base(self) -> Self:
        """With a fixed covariance, keep it as it is once there is one."""
        may_learn = self.__sklearn_is_fitted__() and not self._absorbed.frozen
        if self.covariance == "fixed" and may_learn and self._moments.n_samples:
            self._absorbed.freeze()
        return self

    def _samples(
        self, X: ArrayLike, y: ArrayLike, sample_weight: Any, min_samples: int = 0
    ) -> tuple[Array, list[Label], Array | None]:
        """Checked embeddings, labels and weights, without the samples whose weight is 0."""
        embeddings = checked_embeddings(self, X, self.power, min_samples)
        if self.precision == "half":
            check_half(embeddings)
        labels = label_list(y)
        if len(labels) != len(embeddings):
            raise ValueError(
                "Found input variables with inconsistent numbers of samples: "
                f"X has {len(embeddings)}, y has {len(labels)}."
            )
        weights = checked_weights(sample_weight, len(embeddings))
        if weights is None:
            return embeddings, labels, None
        check_magnitude(embeddings, weights.max(initial=0.0))
        if (weights > 0).all():
            return embeddings, labels, weights
        kept = np.flatnonzero(weights)
        return embeddings[kept], [labels[i] for i in kept], weights[kept]

    def _changed(self, rows: Rows, weight: float = 0.0) -> Self:
        self._weight_since_renewal += weight
        self._version += 1
        if self._served is not None:
            self._touched.append(rows)
            self._n_touched += len(rows)
            if self._n_touched > 2 * self._labels.n_rows + 10_000:
                self._touched = [self._touched_rows()]
                self._n_touched = len(self._touched[0])
        return self

    def _touched_rows(self) -> Rows:
        return np.unique(np.concatenate(self._touched))

    def _current_head(self) -> Head:
        """The head of all that was learned before this call."""
        self._require_start("XLDA")
        self._check_params()
        served, params = self._served, self._scoring_params()
        if served is None or served.version != self._version or served.params != params:
            served = self._serve(params)
        return served.head

    def _serve(self, params: tuple[Any, ...]) -> _Served:
        """The one place where the head is brought up to date, or made anew."""
        with self._lock:
            moments, last, version = self._moments, self._served, self._version
            if last is None or last.params != params or self._overdue() or self._beside_others():
                if not moments.n_seen and not self._layer_rows:
                    raise _nothing_seen()
                head = new_head(
                    moments,
                    self._labels,
                    shrinkage=self.shrinkage,
                    target=self.shrinkage_target,
                    priors=self.priors,
                    search=self._chosen_search(),
                    previous=None if last is None else last.head,
                    layer_rows=self._layer_rows,
                )
                self._weight_since_renewal = 0.0
                self._weight_at_renewal = moments.total
                self._others_at_renewal = self._n_others()
            elif self._touched:
                head = last.head.updated(moments, self._labels, self._touched_rows(), self._layer_rows)
                if not head.n_seen:
                    raise _nothing_seen()
            else:
                head = last.head
            self._touched, self._n_touched = [], 0
            self._served = _Served(version, params, head)
            return self._served

    def _chosen_search(self) -> Search:
        """The search that the parameter stands for. One that is tuned needs classes to draw queries from."""
        layer_rows = self._layer_rows
        if layer_rows is None or 2 * layer_rows.n_unseen(self._moments.counts) <= len(self._labels):
            search = chosen_search(self.search, self._labels.n_rows, self.n_features_in_, self._absorbed.half)
            return restored(search, self._plan)
        if self.search not in ("auto", "dense") and not isinstance(self.search, Dense):
            raise ValueError(
                f"search={self.search!r} needs samples of most classes, which a layer converted without "
                "embeddings has not got. Use search='auto', or convert it with embeddings."
            )
        return Dense()

    def _overdue(self) -> bool:
        """Whether enough was learned for the covariance to be inverted anew."""
        learned = self._weight_since_renewal
        if learned <= self._most_unrenewed(self._weight_at_renewal - learned):
            return False  # and no need to add up all counts, which would take a while
        return learned > self._most_unrenewed(self._moments.total) and not self._moments.frozen

    def _beside_others(self) -> bool:
        """Whether a layer's rows are to be fitted anew: to its first samples, or to other classes."""
        if self._layer_rows is None:
            return False
        others, last = self._n_others(), self._others_at_renewal
        return not self._weight_at_renewal or not last <= others <= (1 + BESIDE_A_LAYER) * last

    def _n_others(self) -> int:
        """Classes that have samples and are not a layer's."""
        layer_rows = self._layer_rows
        return 0 if layer_rows is None else layer_rows.n_others(self._moments.counts)

    def _most_unrenewed(self, total: float) -> float:
        """Weight that may be learned before the covariance is inverted anew."""
        renew = self.renew if self._layer_rows is None or not self.renew else max(self.renew, BESIDE_A_LAYER)
        share = renew * max(1.0, total / (SETTLED * self.n_features_in_))
        return float(min(share, max(renew, MOST_SHARE)) * total)

    def _let_renew(self) -> None:
        """Have the next head use the covariance as it is now, whatever `renew` says."""
        if self._buffer or self._weight_since_renewal:
            self._plan, self._served = self._last_plan(), None

    def _last_plan(self) -> dict[str, Any] | None:
        """What the search was last tuned to: only it knows what that means."""
        saved = saved_by(None if self._served is None else self._served.head.index)
        return self._plan if saved is None else saved

    @classmethod
    def _loaded(cls, path: str | os.PathLike[str]) -> Self:
        model = read_model(path, cls().get_params(deep=False), lambda params: cls(**params)._check_params())
        clf = cls(**model.params)
        clf.n_features_in_ = model.moments.n_features
        clf._start()
        clf._labels = Labels(model.labels)
        clf._absorbed = model.moments
        clf._layer_rows = model.layer_rows
        clf._plan = model.search
        clf.backbone_ = model.backbone
        clf.batch_keys_ = model.batch_keys
        if model.feature_names:
            clf.feature_names_in_ = np.array(model.feature_names, dtype=object)
        return clf


@dataclass(frozen=True, eq=False)
class _Served:
    """A head, and what it is the head of: read at once, so that no thread sees half of a change."""

    version: int
    params: tuple[Any, ...]
    head: Head


def _nothing_seen() -> NotFittedError:
    return NotFittedError("No class of this XLDA has samples. Call fit or partial_fit first.")


def load(path: str | os.PathLike[str]) -> XLDA:
    """Read a classifier that `XLDA.save` wrote.

    A file that is damaged, made up or foreign is a `DamagedFileError`, one that a newer xlda wrote a
    `NewerFileError`; both are ValueErrors, and leave the file as it is.
    """
    return XLDA._loaded(path)


def _one(label: Any, name: str = "label") -> Label:
    return label_list([label], name)[0]


def _total(rows: Rows, weights: Array | None) -> float:
    return float(len(rows) if weights is None else weights.sum())


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} is one of {choices}; got {value!r}.")
