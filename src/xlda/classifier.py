"""XLDA, the estimator."""

from __future__ import annotations

import os

from xlda import model_file
from xlda.learner.learner import Learner
from xlda.predictor.estimator import Estimator
from xlda.predictor.estimator_snapshot import EstimatorSnapshot


class XLDA(Estimator, Learner):
    """Discriminant analysis that learns a stream of samples, new classes included, exactly.

    Any order, batching or split of the same samples gives the same classifier, to rounding.

    Parameters
    ----------
    model
        "bayes" knows a class mean as far as its samples tell, so that a class with one sample stands beside
        classes with many; "lda" takes every class mean for the truth: linear discriminant analysis.
        rule="slda", and the rows of a layer (`from_linear`), imply "lda".
    shrinkage
        How far the covariance is drawn towards a multiple of the identity: a number in [0, 1], "oas",
        "ledoit-wolf", or "auto", a prior worth two samples a feature.
    shrinkage_target
        "trace" draws towards the mean variance, so that the scale of the embeddings does not matter;
        "identity" towards a variance of 1, as published.
    covariance
        "plastic" learns for ever; "fixed" is frozen at the end of the first call that learns (`fit`, or the
        first `partial_fit`), as is how class means differ, and only means go on.
    rule
        "exact" is the pooled within-class covariance; "slda" the published update, sample by sample, which
        depends on the order and is here for comparison.
    priors
        "equal", or "empirical": a class seen more often is more likely.
    power
        Exponent of a signed power taken of the embeddings before anything else, or None. "auto" is 0.5 where
        the first embeddings learned are never negative, which helps those, and None otherwise.
    renew
        The covariance is inverted anew once the samples learned since pass this share of all; the means used
        are always current. 0 renews at every change. With more than 10 samples for each feature every one
        changes the covariance less, and the share is larger by as much more as there are, up to 1/4. Beside
        the rows of a layer (`from_linear`) it is at least 0.1, unless it is 0.
    search
        How `predict` and `predict_topk` find the best classes: "dense" looks at all of them; "fisher" at few,
        and agrees with that in at least 99.9 % of cases; so does "fast scan", sooner, which needs FAISS;
        "lsh" is the paper's way; "faiss" needs that library too; "auto" is "dense" for few classes, and for
        many "fast scan", or "fisher" where FAISS is missing. Or one of `xlda.search` with its own settings.
    precision
        "half" keeps means and weights as float16, in half the memory; they are rounded at every change, so a
        class of thousands of samples moves no more, and the order matters in the last digits; with a second
        look it may also matter which of two classes that are as near is among those compared once more.
    check_samples
        How many samples are kept to check the classifier with, never to learn from: all of some classes,
        chosen by their labels, as float16. They say how sure an answer is, and what is unknown. 0 keeps none.
    like
        What is asked for, when probabilities are calibrated and the unknown is told: "visit" are samples of
        another day or place, as far as groups of samples, or clusters inside each class, tell of those;
        "same" are samples like those learned, and answers are surer.
    lift
        How many random features of each embedding, after the power, are learned in its place, such as 4096;
        or None. Classes that are not linearly separable by embeddings may be by these. Learning costs
        O(lift^2) a sample; `docs/lift.md` has the memory. Nothing of them depends on data, so that nothing
        else changes: any order, batching or split gives the same. `assess` says what they would bring, before
        all is learned anew with them: they cannot be added later.
    lift_seed
        Which random features: with the same seed they are the same on every machine.
    lift_centre
        Numbers (n_features,) that are taken off embeddings, after the power, before they are lifted, as the
        mean of some from elsewhere; it is saved. None takes nothing off.
    second_look
        How many rows are kept of each class, such as 16, to tell how its own samples vary; or None. The
        classes nearest to a query are compared once more, by the rows of the eight nearest and their own:
        better among many classes that are much alike, and then better than a lift at less cost. A row takes
        as much memory as one or two class means, and a query about a millisecond more with 16 rows, and two
        with 32. The rows are sums of samples, so any order, batching or split gives the same, and
        samples can be forgotten. It needs model="bayes", rule="exact" and lift=None, and cannot be added once
        something was learned. Where it is set to None later, whatever is called next drops the rows, for
        good.
    background
        Whether the covariance is inverted anew in a thread of its own, so that no call waits for it. The head
        that is there serves on meanwhile; means and new classes are current all the same. When the new one
        takes over depends on the machine, so the same calls need not give the same bits. It is not saved.

    Attributes
    ----------
    classes_
        Labels, sorted, as scikit-learn has it: the order of the columns of scores, and of the rows of counts,
        means and layers. A new class moves those behind it.
    class_count_, means_
        Total weight and mean of each class; a class without samples has the mean NaN.
    covariance_
        Unbiased pooled within-class covariance, without shrinkage; with rule="slda", that rule's.
    shrinkage_
        The shrinkage in use.
    power_
        The power in use.
    n_features_in_, n_samples_seen_
        Width of the embeddings; samples learned less those forgotten. Those of a removed class still count
        here, as they do in the covariance; `class_count_` is without them.
    source_position_
        After `fit_source`: the file and row up to which it has learned.
    backbone_
        What made the embeddings, a `xlda.identity.BackboneIdentity`, or None: to be set by whoever knows. It
        is saved, and `merge` refuses a classifier with another one.
    batch_keys_
        Keys of the last batches that were learned by key: `Recognizer` and the command keep them.
    class_ids_
        Ids of classes by label, texts of 1 to 64 characters, none twice: empty, and to be set by whoever has
        such. The id of a class goes with it when it is renamed, and goes when it is removed or becomes a part
        of another. They are saved.
    log_position_
        A small dict that JSON can hold, or None: what a log of what was learned had reached, to be set by
        whoever keeps one. It is saved.

    Examples
    --------
    >>> clf = XLDA().partial_fit([[0.0, 0.1], [0.2, 0.0], [3.0, 3.1]], ["apple", "apple", "pear"])
    >>> clf.partial_fit([[9.0, 0.0]], ["kiwi"]).predict([[8.0, 1.0], [0.0, 0.0]])
    array(['kiwi', 'apple'], dtype='<U5')
    """

    _kind_of_snapshot = EstimatorSnapshot


def load(path: str | os.PathLike[str]) -> XLDA:
    """Read a classifier that `XLDA.save` wrote.

    A file that is damaged or foreign is a `DamagedFileError`, one of a newer format a `NewerFileError`, both
    of `xlda.errors` and both ValueErrors.
    """
    clf: XLDA = model_file.read(path, XLDA)
    return clf
