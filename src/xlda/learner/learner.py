"""What XLDA does: its public methods, and the checks of what is given to them."""

from __future__ import annotations

import copy
import inspect
import os
import warnings
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from xlda import model_file
from xlda._internal.arrays import Array
from xlda._internal.interrupts import interrupt_afterwards
from xlda._internal.locks import fork_safe_lock
from xlda._internal.progress import Progress
from xlda._internal.safetensors_file import InMemory
from xlda.audit import Audit, audited, drawn_for_audit
from xlda.calibration.folds import Like
from xlda.head.covariance import Shrinkage, Target
from xlda.head.head import Head, ModelKind, Priors
from xlda.head.linear import linear_layer, not_linear
from xlda.identity import BackboneIdentity
from xlda.inputs import checked_embeddings, checked_groups, checked_samples
from xlda.labels import Labels, label_list
from xlda.layers.conversion import STRENGTH, Assumption, checked_assumption, take_over, with_defaults
from xlda.layers.layer import Layer, checked_layer
from xlda.learner.editing import Editing
from xlda.model import Model
from xlda.model_file import SaveView
from xlda.moments import Moments
from xlda.moments.published_rule import PublishedMoments
from xlda.parameters import check_mergeable, check_parameters, learning_parameters, lift_for
from xlda.predictor.calibrating import Calibrating
from xlda.predictor.snapshot import Snapshot
from xlda.search import Search
from xlda.sources import Batch, SourceError, open_source
from xlda.upkeep import Scoring

_becoming = fork_safe_lock()  # held while a classifier takes over what was learned first, and no longer


class Learner(Editing, Calibrating):
    """All that `XLDA` does, and no more: it is made without scikit-learn, which takes a second to import.

    Parameters and attributes are those of `XLDA`.
    """

    backbone_: BackboneIdentity | None
    batch_keys_: list[str]
    n_features_in_: int
    power_: float | None
    _kind_of_snapshot: ClassVar[type[Snapshot]] = Snapshot

    def __init__(
        self,
        *,
        model: ModelKind = "bayes",
        shrinkage: Shrinkage = "auto",
        shrinkage_target: Target = "trace",
        covariance: Literal["plastic", "fixed"] = "plastic",
        rule: Literal["exact", "slda"] = "exact",
        priors: Priors = "equal",
        power: float | Literal["auto"] | None = "auto",
        renew: float = 0.01,
        search: str | Search = "auto",
        precision: Literal["full", "half"] = "full",
        check_samples: int = 2048,
        like: Like = "visit",
        background: bool = False,
        lift: int | None = None,
        lift_seed: int = 0,
        lift_centre: ArrayLike | None = None,
        second_look: int | None = None,
    ) -> None:
        self.model = model
        self.shrinkage = shrinkage
        self.shrinkage_target = shrinkage_target
        self.covariance = covariance
        self.rule = rule
        self.priors = priors
        self.power = power
        self.renew = renew
        self.search = search
        self.precision = precision
        self.check_samples = check_samples
        self.like = like
        self.background = background
        self.lift = lift
        self.lift_seed = lift_seed
        self.lift_centre = lift_centre
        self.second_look = second_look

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; none of them has parameters of its own, so `deep` changes nothing."""
        return {name: getattr(self, name) for name in PARAMETERS}

    # -- learning

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Forget everything and learn (X, y). Where that fails, nothing is forgotten."""
        learner = self._blank()._learn(X, y, None, sample_weight, min_samples=1)
        if not len(learner._model.labels):
            raise ValueError("fit got nothing to learn: every sample_weight is zero.")
        learner._end_of_base()._current_head()
        return self._become(learner)

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Learn more: X (n_samples, n_features), y (n_samples,) with known labels, new ones, or both.

        `classes` makes labels known ahead of their samples; it is never needed, and until it has a sample a
        class never wins. A weight of 2 counts as the sample given twice; in rows of a second look, though,
        equal samples have equal signs: given k times one counts as k * k there, and with the weight w as w.
        `groups` (n_samples,) says which
        samples were taken together (a visit, a burst of a camera, a shelf): samples of one group are alike,
        and `calibrate` must know that. The same name is the same group in every call.
        """
        return self._learn_more(X, y, classes, sample_weight, groups)._end_of_base()

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

        X are the embeddings that were learned, to rounding. With a second look they must be the same as
        float16 too, since a hash of that says in which row they are: where a photo is embedded again, by
        another machine or in another batch, some may differ, and then other rows are changed.
        """
        self._require_start("forget")
        self._model.forget(*checked_samples(self, X, y, sample_weight))
        return self

    def merge(self, other: Learner) -> Self:
        """Learn all that another classifier has learned, as from its samples. `other` stays as it is.

        With covariance="fixed" the covariance here stays, and so do `class_ids_` and `log_position_`.
        """
        if not isinstance(other, Learner):
            raise TypeError(f"merge needs another XLDA; got {type(other).__name__}.")
        if not other.__sklearn_is_fitted__():
            return self
        other._require_start("merge")
        if not self.__sklearn_is_fitted__():
            check_parameters(self)
            check_mergeable(self, other)
            self._become(copy.deepcopy(other))
            self.class_ids_, self.log_position_ = {}, None
            self._model.started_with = learning_parameters(self)
            return self
        self._require_start("merge")
        check_mergeable(self, other)
        self._model.merge(other._model)
        if not hasattr(self, "power_") and hasattr(other, "power_"):
            self.power_ = other.power_
            self._model.started_with = learning_parameters(self)
        self.backbone_ = self.backbone_ or other.backbone_
        self.batch_keys_ = list(dict.fromkeys([*self.batch_keys_, *other.batch_keys_]))
        return self

    # -- from a layer and back

    @classmethod
    def from_linear(
        cls,
        weight: ArrayLike,
        bias: ArrayLike | None = None,
        *,
        labels: ArrayLike | None = None,
        assume: Assumption | ArrayLike = "auto",
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
        assume
            "auto" is as said above. "identity" and "weights" are the paper's: rows are taken for class means,
            the covariance is I or that of the rows, and the bias is ignored; such a classifier forgets as
            soon as it learns, and is here for comparison. An array (n_features, n_features) is taken for the
            covariance within classes, with this classifier's shrinkage, and rows for those of model="lda": so
            comes back what `to_linear` of such a one gave, where the shrinkage is a number.
        embeddings
            (n_samples, n_features), or anything that `xlda.open_source` takes, with labels=None. With less
            than two a class they do more harm than good, and are left out, with a warning.
        embedding_labels
            (n_samples,), where they are known after all.
        strength
            How many samples a row of the layer is worth beside real ones of its class, at most: it is no more
            than its odds of being right about them.
        params
            Of the classifier. With `power`, which the layer's rows are not made for, the layer only labels
            the embeddings. With covariance="fixed", that of the embeddings given here is kept for ever.
        """
        layer = checked_layer(weight, bias, labels)
        assume, params = with_defaults(assume, params)
        assumed = checked_assumption(assume, strength, layer, embeddings, embedding_labels, params)
        clf = cls(**params)
        check_parameters(clf)
        if clf.rule != "exact":
            raise ValueError(f"from_linear needs rule='exact'; got {clf.rule!r}.")
        if clf.lift is not None:
            raise ValueError(f"from_linear needs lift=None: a layer's rows are not lifted; got {clf.lift!r}.")
        if clf.second_look is not None:
            raise ValueError("from_linear needs second_look=None: nobody has seen samples of a layer's rows.")
        clf.n_features_in_ = layer.weight.shape[1]
        clf.power_ = None if clf.power == "auto" else clf.power
        clf._start(Labels(layer.labels))
        clf._model.started_with = learning_parameters(clf)
        take_over(clf, clf._model, layer, assumed, strength, embeddings, embedding_labels)
        return clf._end_of_base()

    def to_linear(self, X: ArrayLike | None = None) -> tuple[Array, Array]:
        """Weights (n_classes, n_features) and bias (n_classes,) of the equal fully connected layer, float64.

        Rows are in the order of `classes_`. `decision_function` is X @ weights.T + bias, before the
        difference taken for two classes. With a power (`power_`) or a lift, X stands for what `lifted` gives,
        and there is a column of weights for each of its features. The covariance is renewed first. Where
        model="bayes" and classes have different numbers of samples, no layer is equal: it is the one that
        comes nearest on the queries X (n_samples, n_features), some hundred of which suffice, or else on
        drawn ones, and a warning says how often it differs.
        """
        return self._linear(X)[:2]

    def to_layer(self, X: ArrayLike | None = None) -> Layer:
        """The same with its labels, as `xlda.extras` writes it; without classes that have no samples."""
        weights, bias, labels = self._linear(X)
        active = np.flatnonzero(np.isfinite(bias))
        return Layer(weights[active], bias[active], labels[active].tolist())

    # -- predicting

    def snapshot(self) -> Snapshot:
        """This classifier as it is now, to predict with while it goes on learning; costs nothing.

        `predict` of the classifier itself sees all that was learned before it is called, and so waits for a
        thread that is learning. A snapshot never waits, and any number of threads may use it.
        """
        names = getattr(self, "feature_names_in_", None)
        return self._kind_of_snapshot(
            self._current_head(), self.power_, names, self._last_calibration(), self.like
        )

    def audit(self, X: ArrayLike | None = None, n: int = 1000) -> Audit:
        """How far the search agrees with exact LDA, how much faster it is, and what memory all takes.

        On the queries X (n_samples, n_features), or on `n` of them drawn from the model. `print` it.
        """
        head = self._current_head()
        if X is not None:
            embeddings = checked_embeddings(self, X, self.power_, min_samples=1)
        else:
            with self._locked("audit") as model:
                embeddings, head = drawn_for_audit(model, head, n), head.of_features()
        return audited(head, embeddings, X is None, self.memory())

    def memory(self) -> dict[str, int]:
        """Bytes that each part takes."""
        head = self._current_head()
        return {**self._model.nbytes, **head.nbytes}

    def renew_if_due(self) -> None:
        """Begin a renewal where one is due, though nobody asks: for those who learn with `background=True`.

        It is made beside the learning; only the very first head is made here.
        """
        with self._locked("renew_if_due") as model:
            if not model.upkeep.begin_if_due(model, self._scoring(), self.renew) and model.moments.n_seen:
                self._current_head()

    # -- on disk

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the classifier to one file, whole or not at all: O(C d + d^2).

        `xlda.load` gives it back, and it goes on learning as if it had never been away. All that predicting
        needs is in the file, the covariance inverted as it is now, so that what is loaded answers at once.
        With a lift that may be too large to be in the file; it is made for the first answer then.
        """
        self.view_to_save().write(path)

    def view_to_save(self, renew: bool = True) -> SaveView:
        """What `save` would write if it were called now; its `write(path)` does so, at any time later.

        That may be in another thread, while learning and predicting go on: nobody waits for it. With
        `renew=False` nobody waits for this call either, since nothing is inverted: the head that is served is
        written as it is, with what changed since. What is loaded answers as this classifier did, at once, and
        is renewed when this one would have been. Where there is no head yet, it is written without one.
        """
        with self._locked("save") as model:
            if renew:
                model.upkeep.renew_next()
                if model.moments.n_seen > 1 and self._scoring().model == "bayes" and model.layer_rows is None:
                    self._current_head()
            return SaveView.of(self, model)

    def to_bytes(self) -> bytes:
        """All that was learned, as a file has it, for whatever sends it elsewhere: O(C d + d^2).

        Nothing is inverted, and there is no head in it: whoever predicts first makes one. What
        `view_to_save().to_bytes()` gives has one, as `save` does, and is about twice as long. Unlike pickle,
        `from_bytes` runs no code that came with the bytes.

        >>> clf = Learner().partial_fit([[0.0, 0.1], [0.2, 0.0], [3.0, 3.1]], ["apple", "apple", "pear"])
        >>> Learner.from_bytes(clf.to_bytes()).class_count_
        array([2., 1.])
        """
        return replace(self.view_to_save(renew=False), head=None).to_bytes()

    @classmethod
    def from_bytes(cls, data: InMemory) -> Self:
        """The classifier that `to_bytes` was called of; `data` are bytes, or an array of uint8.

        What is damaged or foreign is a `DamagedFileError`, what a newer xlda wrote a `NewerFileError`.
        """
        clf: Self = model_file.from_bytes(data, cls)
        return clf

    # -- how it works

    def _blank(self) -> Self:
        """A classifier with these parameters that has learned nothing."""
        return type(self)(**self.get_params(deep=False))

    def _become(self, learner: Learner) -> Self:
        """Take over what `learner` has learned, and nothing of its parameters."""
        with interrupt_afterwards():
            for name in filter(_is_learned, list(vars(self))):
                delattr(self, name)
            for name in filter(_is_learned, vars(learner)):
                setattr(self, name, getattr(learner, name))
        return self

    def _start(self, labels: Labels | None = None) -> None:
        kind = PublishedMoments if self.rule == "slda" else Moments
        kept = self.check_samples if self.rule == "exact" else 0
        lift = lift_for(self, self.n_features_in_)
        width = self.n_features_in_ if lift is None else lift.width
        half = self.precision == "half"
        moments = kind(width, half, check_samples=kept, lift=lift, sketch_rows=self.second_look)
        self._model = Model(moments, labels)
        self.backbone_, self.batch_keys_ = None, []
        self.class_ids_, self.log_position_ = {}, None

    def _learn(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None,
        sample_weight: Any,
        min_samples: int = 0,
        groups: ArrayLike | None = None,
    ) -> Self:
        started = self.__sklearn_is_fitted__()
        self._require_start("partial_fit") if started else check_parameters(self)
        embeddings, labels, weights = checked_samples(self, X, y, sample_weight, min_samples)
        if not started:
            self._start()
        self._model.started_with = learning_parameters(self)  # with the power, if it was chosen just now
        if weights is not None and self.rule == "slda":
            raise ValueError("rule='slda' has no sample weights. Use rule='exact'.")
        ahead = () if classes is None else label_list(classes, "classes")
        self._model.learn(embeddings, labels, weights, ahead, checked_groups(groups, y, sample_weight))
        return self

    def _learn_more(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None,
        sample_weight: Any,
        groups: ArrayLike | None = None,
    ) -> Self:
        if self.__sklearn_is_fitted__():
            return self._learn(X, y, classes, sample_weight, groups=groups)
        learner = self._blank()._learn(X, y, classes, sample_weight, groups=groups)
        if not len(learner._model.labels):
            return self
        with _becoming:
            if not self.__sklearn_is_fitted__():
                return self._become(learner)
        return self._learn(X, y, classes, sample_weight, groups=groups)  # another thread was the first

    def _learn_batch(self, batch: Batch) -> None:
        try:
            self._learn_more(batch.embeddings, batch.labels, None, None)
        except ValueError as error:
            raise SourceError(batch.start, error) from error
        self.source_position_ = batch.end

    def _end_of_base(self) -> Self:
        """With a fixed covariance, keep it as it is once there is one."""
        if self.covariance == "fixed" and self.__sklearn_is_fitted__() and not self._model.frozen:
            self._model.freeze(self._scoring())
        return self

    def _linear(self, X: ArrayLike | None) -> tuple[Array, Array, Array]:
        """Weights, bias and labels of one moment, in the order of the labels."""
        if self.second_look is not None:
            raise ValueError(
                "to_linear needs second_look=None: no layer compares the best classes twice. "
                "set_params(second_look=None) drops the rows."
            )
        head = self._renewed_head("to_linear")
        queries = None if X is None else checked_embeddings(self, X, self.power_, min_samples=1)
        layer, rows = linear_layer(head, queries), head.table.sorted_rows
        if layer.differs:
            warnings.warn(not_linear(layer, X is not None), stacklevel=3)
        return layer.weights[rows], layer.bias[rows], head.table.sorted()

    def _renewed_head(self, what: str) -> Head:
        """The head of all that was learned, with the covariance as it is now."""
        with self._locked(what) as model:
            model.upkeep.renew_next()
            return self._current_head()

    def _current_head(self) -> Head:
        """The head of all that was learned before this call."""
        self._require_start("XLDA")
        check_parameters(self)
        return self._model.head(self._scoring(), self.renew, self.background)

    def __sklearn_tags__(self) -> Any:  # what scikit-learn asks of whatever it checks data for
        from xlda.predictor.estimator import Estimator

        return Estimator().__sklearn_tags__()

    def _scoring(self) -> Scoring:
        model: ModelKind = "lda" if self.rule == "slda" else self.model
        return Scoring(model, self.shrinkage, self.shrinkage_target, self.priors, self.search)


def _is_learned(name: str) -> bool:
    """Whether an attribute is of what was learned: by scikit-learn's rule its name ends with a line."""
    return name == "_model" or name.endswith("_")


PARAMETERS = tuple(inspect.signature(Learner).parameters)
