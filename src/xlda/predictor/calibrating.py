"""How sure answers are: measured, and moved by what people say of them."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from xlda._internal.arrays import Array
from xlda._internal.progress import Progress
from xlda.calibration.assessment import Assessment
from xlda.calibration.calibration import FEWEST, GROWN, Calibration
from xlda.calibration.confirmed import confirmed_evidence
from xlda.calibration.figures import TEMPERATURE, shares
from xlda.calibration.folds import BEST
from xlda.calibration.parameter_trial import ParameterTrial, not_tried
from xlda.head.head import Head
from xlda.head.without import FewClasses, head_without
from xlda.inputs import checked_embeddings
from xlda.labels import Label
from xlda.lifting import Lift
from xlda.model import Model
from xlda.moments import Moments
from xlda.moments.trial import undone_afterwards
from xlda.moments.view import MomentsView
from xlda.parameters import check_features, check_rows
from xlda.predictor.predictor import Predictor
from xlda.upkeep import Scoring

log = logging.getLogger("xlda")
_under_way: weakref.WeakSet[Model] = weakref.WeakSet()  # that are being calibrated in the background
_beginning = threading.Lock()


class Calibrating(Predictor):
    """A predictor that has learned what it predicts, and can measure itself; see `XLDA`."""

    _model: Model

    def _require_start(self, what: str) -> None:
        raise NotImplementedError

    def _locked(self, what: str) -> AbstractContextManager[Model]:
        raise NotImplementedError

    def _scoring(self) -> Scoring:
        raise NotImplementedError

    def calibrate(self, progress: bool = True, background: bool = False) -> Self:
        """Measure how sure answers are, on the samples kept for checking.

        Some of them are taken out of what was learned, all that is derived from that is derived again, and
        they are asked for: as if they had never been learned. Then others are. Nothing is changed by it but
        what `predict_proba`, `p_known` and `unknown=` say, and it is saved with the classifier. Takes some
        seconds; other threads may learn and predict meanwhile. On a terminal, `progress` shows how far it is.
        With `background`, a thread of its own does it, and answers are judged as before until it is done;
        where one is at it already, that is enough.
        """
        if background:
            self._begin_calibrating()
            return self
        scoring = self._scoring()
        if scoring.model != "bayes":
            raise ValueError("calibrate needs model='bayes': the probabilities of plain LDA are its own.")
        with self._locked("calibrate") as model:
            if model.moments.n_seen < 2:
                raise ValueError("calibrate needs two classes or more.")
            view = MomentsView(model.moments, with_covariance=True)
            table, layer_rows = model.labels.table(), model.layer_rows
        moments = view.copied()  # which takes a while, and nobody need wait for it
        del view

        def head_of(some: Moments) -> Head:
            return scoring.dense_head(some, table, layer_rows)

        with Progress(lambda: 3 * len(moments.kept), progress) as bar:
            measured = Calibration.measured(moments, head_of, bar.advance)
        with self._locked("calibrate") as model:
            model.take_calibration(measured, table)
        return self

    def calibrate_if_due(self, progress: bool = True, background: bool = False) -> bool:
        """Calibrate where it is possible and was never done, or a fifth was learned since; whether it was."""
        due = self._scoring().model == "bayes" and self._has_enough_more("calibrate_if_due")
        if due:
            self.calibrate(progress, background)
        return due

    def _begin_calibrating(self) -> None:
        """In a thread of its own; what goes wrong there is logged."""
        self._require_start("calibrate")
        model = self._model
        with _beginning:
            if model in _under_way:
                return
            _under_way.add(model)

        def work() -> None:
            try:
                self.calibrate(progress=False)
            except Exception:
                log.exception("calibrating in the background failed; answers are judged as before")
            finally:
                _under_way.discard(model)

        threading.Thread(target=work, name="xlda-calibrate", daemon=True).start()

    def _has_enough_more(self, what: str) -> bool:
        """Whether enough samples are kept, and a fifth more was learned since they were last asked for."""
        with self._locked(what) as model:
            moments, last = model.moments, model.calibration
            enough = moments.n_seen > 1 and len(moments.kept) >= FEWEST
            return enough and (last is None or moments.weight_learned > GROWN * last.learned)

    def assess(self, try_lift: int | None = None, try_second_look: int | None = None) -> Assessment:
        """How good the classifier is, which classes are confused, and which need more samples. `print` it.

        Measured on the samples kept for checking, which calibrates if that was never done; with fewer than
        ten samples a class, those taken out are missed, and it is at least as good as that. Where no samples
        were kept, it is estimated from distances between class means and from counts.

        With `try_lift=4096`, it also says what `lift=4096` would bring, and with `try_second_look=16` what
        `second_look=16` would, each beside neither, with `shrinkage="auto"` and equal priors. Both ways are
        tried on the kept samples alone, each asked for as if not learned: those are all samples of some
        classes, so with many more classes it may bring more. That makes three heads of each kind, and takes
        as much memory as such a classifier. With fewer than 200 kept samples, ten classes, or three samples a
        class on average nothing is tried, and it says so.
        """
        check_features(try_lift, "try_lift")
        check_rows(try_second_look, "try_second_look")
        calibration, head = self._current_calibration(), self._current_head()
        if not head.knows_the_unknown:
            raise ValueError(
                "assess needs model='bayes' and two classes or more, one of which has more than one sample."
            )
        with self._locked("assess") as model:
            rows = np.flatnonzero(model.moments.counts[: head.n_rows])
            counts, learned = model.moments.counts_of(rows), model.moments.weight_learned
            is_to_try = try_lift is not None or try_second_look is not None
            kept = model.moments.kept.samples() if is_to_try else None
        found = Assessment.of(head, calibration, rows, counts, learned)
        tried: dict[str, Any] = {}
        if kept is not None and try_second_look is not None:
            tried["second_look"] = ParameterTrial.of_second_look(kept, int(try_second_look))
        if kept is not None and try_lift is not None:
            tried["lift"] = ParameterTrial.of_lift(kept, Lift(head.n_inputs, int(try_lift)))
        missing = tuple(not_tried(name) for name, trial in tried.items() if trial is None)
        return replace(found, not_tried=missing, **tried)

    def _labels_without(
        self,
        X: ArrayLike,
        y: Sequence[Label],
        folds: Array,
        is_over: Callable[[], bool] = lambda: False,
    ) -> list[Label | None]:
        """What samples (n, d) that were learned as `y` would be taken for, had they never been learned.

        Those with the same number in `folds` (n,) are taken out together, and all that is derived from what
        was learned is derived again: some seconds a fold. None for those whose class then has no samples,
        and for answers that are not sure. Nothing is changed; it ends early where `is_over` says so.
        """
        scoring, embeddings = self._scoring(), checked_embeddings(self, X, self.power_)
        with self._locked("XLDA") as model:
            view = MomentsView(model.moments, with_covariance=True)
            table, layer_rows = model.labels.table(), model.layer_rows
        moments = view.copied()
        del view
        found: list[Label | None] = [None] * len(embeddings)
        rows = np.array([table.row_of.get(label, -1) for label in y], np.intp)
        for number in np.unique(folds):
            if is_over():
                break
            out = np.flatnonzero((folds == number) & (rows >= 0))
            with undone_afterwards(moments, rows[out]):
                moments.forget(embeddings[out].astype(moments.dtype), rows[out], np.ones(len(out)))
                asked = out[moments.counts_of(rows[out]) > 0]
                if len(asked) and moments.n_seen > 1:
                    head = scoring.dense_head(moments, table, layer_rows)
                    for place, label in zip(asked, _sure_labels(head, embeddings[asked]), strict=True):
                        found[place] = label
        return found

    def _labels_about_without(
        self,
        X: ArrayLike,
        y: Sequence[Label],
        folds: Array,
        is_over: Callable[[], bool] = lambda: False,
    ) -> list[Label | None]:
        """As `_labels_without`, but what all classes have in common stays as it is: milliseconds a fold.

        That takes no copy of the model, and is for one of many classes, where some samples more or less
        hardly count. None for all where a layer was converted.
        """
        head, embeddings = self._current_head(), checked_embeddings(self, X, self.power_)
        found: list[Label | None] = [None] * len(embeddings)
        if head.layer_rows is not None or getattr(head.space, "layer", None) is not None:
            return found
        rows = np.array([head.table.row_of.get(label, -1) for label in y], np.intp)
        with self._locked("XLDA") as model:
            classes = FewClasses.of(model.moments, np.unique(rows[rows >= 0]), head.centre)
        centred = embeddings.astype(np.float64) - head.centre
        for number in np.unique(folds):
            if is_over():
                break
            out = np.flatnonzero((folds == number) & (rows >= 0))
            rest = classes.without(centred[out], rows[out])
            asked = out[rest.counts_of(rows[out]) > 0]
            if len(asked):
                thinner = head_without(head, rest, np.unique(rows[out]))
                for place, label in zip(asked, _sure_labels(thinner, embeddings[asked]), strict=True):
                    found[place] = label
        return found

    def confirm(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Tell which answers were right: y (n_samples,) are the true labels, None for none of the known.

        Probabilities and what is rejected follow, since the world drifts; nothing is learned from it.
        """
        self._require_start("confirm")
        embeddings = checked_embeddings(self, X, self.power_)
        truth = list(np.asarray(y, dtype=object).ravel())
        if len(truth) != len(embeddings):
            raise ValueError(f"y has {len(truth)} entries; X has {len(embeddings)} samples.")
        head, calibration = self._current_head(), self._measured_calibration()
        if not head.knows_the_unknown:
            raise ValueError("confirm needs model='bayes', and two classes or more.")
        known, unknown = confirmed_evidence(head, embeddings, truth)
        with self._locked("confirm") as model:
            model.calibration = (model.calibration or calibration).with_confirmed(known, unknown)
        return self

    def _unconfirm(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Take back what `confirm` was told of each of these, as far as it is still known.

        It is found again as that with the same truth whose scores are nearest to those of now.
        """
        truth = list(np.asarray(y, dtype=object).ravel())
        known, unknown = confirmed_evidence(
            self._current_head(), checked_embeddings(self, X, self.power_), truth
        )
        with self._locked("confirm") as model:
            if model.calibration is not None:
                model.calibration = model.calibration.without_confirmed(known, unknown)
        return self

    def _current_calibration(self) -> Calibration | None:
        self._require_start("XLDA")
        if self._scoring().model == "bayes":
            self._measured_calibration()
        return self._last_calibration()

    def _last_calibration(self) -> Calibration | None:
        """What was measured last, if it can tell how sure answers are and is for such answers."""
        last = self._model.calibration
        return last if last is not None and last.can_tell and self._scoring().model == "bayes" else None

    def _measured_calibration(self) -> Calibration:
        """The last, or one that is measured now: if there was none, or too little to measure it on."""
        last = self._model.calibration
        if (last is None or not last.can_tell or not len(last.same)) and self._has_enough_more("XLDA"):
            self.calibrate(progress=False)
        return self._model.calibration or Calibration.none()


def _sure_labels(head: Head, embeddings: Array) -> list[Label | None]:
    """The best class of each sample (n, d), where it is likelier than all others together."""
    best, scores = head.top(embeddings, min(BEST, head.n_seen))
    sure = shares(scores, TEMPERATURE if head.knows_the_unknown else 1.0)[:, 0] >= 0.5
    names: list[Label] = head.table.of(best[:, 0]).tolist()
    return [name if is_sure else None for name, is_sure in zip(names, sure.tolist(), strict=True)]
