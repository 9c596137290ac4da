"""Predicting from a head: what `XLDA` and its snapshots have in common."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike

from xlda._internal.arrays import Array
from xlda.calibration.calibration import FEWEST, Calibration
from xlda.calibration.evidence import novelty
from xlda.calibration.figures import TEMPERATURE, shares
from xlda.calibration.folds import BEST, LIKES, Like
from xlda.head.head import Head
from xlda.inputs import checked_embeddings
from xlda.labels import Label
from xlda.predictor.answers import Asked, Judged, rows_among, with_unknown


def _check_k(k: int) -> None:
    if isinstance(k, bool) or not isinstance(k, Integral) or k < 1:
        raise ValueError(f"k is a whole number of at least 1; got {k!r}.")


class Predictor:
    """Methods that predict; who has them says which head they use, and which power it is for."""

    power_: float | None
    like: Like

    def _current_head(self) -> Head:
        raise NotImplementedError

    def _current_calibration(self) -> Calibration | None:
        """How sure answers are, where that is known."""
        raise NotImplementedError

    def predict(
        self,
        X: ArrayLike,
        *,
        unknown: float | None = None,
        unknown_label: Label | None = None,
        among: ArrayLike | None = None,
        like: Like | None = None,
    ) -> Array:
        """Label of the best class for each sample, shape (n_samples,). Works in blocks, as `predict_topk`.

        With `unknown=0.05`, samples are rejected that are like no known class, so many that at most 5 % of
        those of known classes are: they get `unknown_label`, or None in an array of objects. `among` are the
        labels that can win, of all that are known. `like` says what is asked for: see `XLDA`.
        """
        asked = self._asked(X, 1 if unknown is None else 2, among, beside_unknown=unknown is not None)
        labels = asked.head.table.of(asked.rows[:, 0])
        if unknown is None:
            return labels
        return with_unknown(labels, self._rejected(asked, unknown, like), unknown_label, asked.known)

    def predict_topk(
        self,
        X: ArrayLike,
        k: int = 5,
        *,
        proba: bool = False,
        unknown: float | None = None,
        unknown_label: Label | None = None,
        among: ArrayLike | None = None,
        like: Like | None = None,
    ) -> tuple[Array, Array]:
        """Labels and logits of the `k` best classes, each (n_samples, k), best first.

        Fewer columns where fewer classes have samples. Works in blocks, so memory does not grow with
        n_samples times the number of classes. With `proba`, probabilities instead of logits, given that the
        class is a known one. `unknown`, `unknown_label`, `among` and `like` are as in `predict`: all labels
        of a sample that is rejected are `unknown_label`.
        """
        _check_k(k)
        wanted = max(int(k), BEST if proba else 1, 1 if unknown is None else 2)
        asked = self._asked(X, wanted, among, beside_unknown=unknown is not None)
        head, k = asked.head, min(int(k), asked.rows.shape[1])
        if proba:
            values = self._probabilities(asked, like)[:, :k]
        else:
            values = asked.scores[:, :k] + head.common_term(asked.embeddings)[:, None]
        labels = head.table.of(asked.rows[:, :k])
        if unknown is not None:
            labels = with_unknown(labels, self._rejected(asked, unknown, like), unknown_label, asked.known)
        return labels, values

    def decision_function(self, X: ArrayLike) -> Array:
        """Logit of each class, shape (n_samples, n_classes): its log posterior up to a term common to all.

        As scikit-learn has it, with two classes the logit of the second less that of the first, (n_samples,).
        A class without samples has -inf. Every class is scored, whatever the search; with `LSH`, as
        published, only the active ones are.
        """
        head, embeddings, scores = self._scored(X)
        logits: Array = scores + head.common_term(embeddings)[:, None]
        logits[np.isnan(scores)] = 0.0
        if scores.shape[1] == 2:
            return scores[:, 1] - scores[:, 0] if np.isfinite(scores).all() else logits[:, 1] - logits[:, 0]
        return logits

    def predict_log_proba(self, X: ArrayLike, *, like: Like | None = None) -> Array:
        """Logarithm of `predict_proba`."""
        if self._current_calibration() is None:
            return self._uncalibrated(X)
        with np.errstate(divide="ignore"):
            logs: Array = np.log(self.predict_proba(X, like=like))
        return logs

    def predict_proba(self, X: ArrayLike, *, like: Like | None = None) -> Array:
        """Probability of each class, given that it is a known one, shape (n_samples, n_classes).

        They are calibrated on the samples kept for checking (`calibrate`, which is done now if it never was),
        and shared by the 20 best classes. Where there is nothing to measure it on, logits are divided by 12,
        a usual temperature. With model="lda" they are the posterior probabilities of that model.
        """
        calibration = self._current_calibration()
        if calibration is None:
            return np.exp(self._uncalibrated(X))
        asked = self._asked(X, BEST)
        probabilities = np.zeros((len(asked.rows), asked.head.n_rows))
        np.put_along_axis(probabilities, asked.rows, self._probabilities(asked, like), axis=1)
        table = asked.head.table
        return probabilities if table.is_sorted else probabilities[:, table.sorted_rows]

    def judge(
        self,
        X: ArrayLike,
        k: int = 5,
        *,
        unknown: float | None = None,
        among: ArrayLike | None = None,
        like: Like | None = None,
    ) -> Judged:
        """All that can be said of samples at once: the `k` best classes of each, and how sure that is.

        Where nobody can tell whether a sample is of a known class, `p_known` is NaN; with `unknown`, as in
        `predict`, that is an error instead. `among` are the labels that can win, as in `predict`: what is
        said is said beside these alone.
        """
        _check_k(k)
        asked = self._asked(X, max(int(k), BEST), among, beside_unknown=True)
        head, calibration = asked.head, self._current_calibration()
        p_known, is_unknown = np.full(len(asked.rows), np.nan), np.zeros(len(asked.rows), bool)
        likeness = novelty(asked.beside_unknown) if head.knows_the_unknown else p_known
        if calibration is not None and head.knows_the_unknown:
            p_known = calibration.of(self._like(like)).p_known(asked.beside_unknown, 0.5)
        if unknown is not None:
            is_unknown = self._rejected(asked, unknown, like)
        scores = asked.scores[:, :k] + head.common_term(asked.embeddings)[:, None]
        probabilities = self._probabilities(asked, like)[:, :k]
        labels = head.table.of(asked.rows[:, :k])
        return Judged(labels, scores, probabilities, likeness, p_known, is_unknown)

    def p_known(self, X: ArrayLike, *, unknown_prior: float = 0.5, like: Like | None = None) -> Array:
        """Probability that a sample is of a known class, (n_samples,), where so many are of unknown ones."""
        if not 0 < unknown_prior < 1:
            raise ValueError(f"unknown_prior is a share between 0 and 1; got {unknown_prior!r}.")
        asked = self._asked(X, 2, beside_unknown=True)
        calibrated = self._to_reject(asked.head).of(self._like(like))
        return calibrated.p_known(asked.beside_unknown, unknown_prior)

    def score_samples(self, X: ArrayLike) -> Array:
        """How much each sample is like the known classes, (n_samples,): higher is more normal.

        The logarithm of how much likelier it is of the best class than of one without samples, and a quarter
        of the lead of the best on the second.
        """
        asked = self._asked(X, 2, beside_unknown=True)
        self._require_unknown(asked.head)
        return novelty(asked.beside_unknown)

    def lifted(self, X: ArrayLike) -> Array:
        """What is learned of samples: embeddings after the power, or their `lift` random features.

        Of shape (n_samples, n_features), or (n_samples, lift): what `to_linear` gives a layer of.
        """
        lift = self._current_head().space.lift
        embeddings = checked_embeddings(self, X, self.power_)
        return embeddings if lift is None else lift.features(embeddings)

    def _uncalibrated(self, X: ArrayLike) -> Array:
        """Logarithms of probabilities, by the logits alone."""
        from scipy.special import log_softmax  # which takes long to import

        head, embeddings, scores = self._scored(X)
        inactive = np.isnan(scores)
        if inactive.any():
            scores = np.where(inactive, -head.common_term(embeddings)[:, None], scores)
        logs: Array = log_softmax(scores / (TEMPERATURE if head.knows_the_unknown else 1.0), axis=1)
        return logs

    def _asked(
        self, X: ArrayLike, k: int, among: ArrayLike | None = None, beside_unknown: bool = False
    ) -> Asked:
        """The best classes of each sample."""
        head = self._current_head()
        known = head.table
        embeddings = checked_embeddings(self, X, self.power_)
        if among is not None:
            head = head.among(rows_among(head, among))
            if not head.n_seen:
                raise ValueError("among needs a label of a class that has samples.")
        k = min(k, head.n_seen)
        if beside_unknown:
            return Asked(head, known, embeddings, *head.top_and_unknown(embeddings, k))
        return Asked(head, known, embeddings, *head.top(embeddings, k), None)

    def _like(self, like: Like | None) -> Like:
        like = self.like if like is None else like
        if like not in LIKES:
            raise ValueError(f"like is one of {LIKES}; got {like!r}.")
        return like

    def _probabilities(self, asked: Asked, like: Like | None) -> Array:
        """Of the best classes (n, k); those that are not among the `BEST` best have 0."""
        calibration, scores = self._current_calibration(), asked.scores[:, :BEST]
        if calibration is None:
            found = shares(scores, TEMPERATURE if asked.head.knows_the_unknown else 1.0)
        else:
            found = calibration.of(self._like(like)).probabilities(scores)
        n_more = asked.scores.shape[1] - scores.shape[1]
        return found if not n_more else np.pad(found, ((0, 0), (0, n_more)))

    def _rejected(self, asked: Asked, unknown: float, like: Like | None) -> Array:
        """Which samples are of no known class."""
        if isinstance(unknown, bool) or not isinstance(unknown, Real) or not 0 < unknown < 1:
            raise ValueError(f"unknown is the share of the known to reject, in (0, 1); got {unknown!r}.")
        calibrated = self._to_reject(asked.head).of(self._like(like))
        return calibrated.is_unknown(
            asked.beside_unknown, lambda: asked.head.counts_of(asked.rows[:, 0]), float(unknown)
        )

    @property
    def tells_unknown(self) -> bool:
        """Whether it can tell what is unknown: whether `unknown=` may be used."""
        calibration = self._current_calibration()
        return self._current_head().knows_the_unknown and calibration is not None and calibration.can_tell

    def _require_unknown(self, head: Head) -> None:
        if not head.knows_the_unknown:
            raise ValueError(
                "What is unknown can be told with model='bayes' alone, of two classes or more, one of which "
                "has more than one sample."
            )

    def _to_reject(self, head: Head) -> Calibration:
        self._require_unknown(head)
        calibration = self._current_calibration()
        if calibration is None or not calibration.can_tell:
            raise ValueError(
                f"To tell the unknown, {FEWEST} samples or more are needed that were kept for checking, of "
                "classes with several. There are fewer, or check_samples is 0, or the model was saved before "
                "samples were kept. Learn more, or confirm some answers."
            )
        return calibration

    def _scored(self, X: ArrayLike) -> tuple[Head, Array, Array]:
        """Head, checked embeddings, and the score of each known class, shape (n_samples, n_classes)."""
        head = self._current_head()
        embeddings = checked_embeddings(self, X, self.power_)
        scores = head.scores(embeddings)
        return head, embeddings, scores if head.table.is_sorted else scores[:, head.table.sorted_rows]
