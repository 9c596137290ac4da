"""Real shop photos: 2 640 to learn, 296 to recognise, 81 products."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from xlda import XLDA


def one_pass(clf, X, y, order, batch_size):
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        clf.partial_fit(X[chosen], y[chosen])
    return clf


@pytest.mark.parametrize("power", [None, 0.5])
def test_class_after_class_is_as_good_as_any_order(power, grocery, rng, capsys):
    X, y = grocery["train_X"], grocery["train_y"]
    in_classes, at_random = np.argsort(y, kind="stable"), rng.permutation(len(y))
    one = one_pass(XLDA(power=power), X, y, in_classes, 16)
    other = one_pass(XLDA(power=power), X, y, at_random, 100)
    accuracy = one.score(grocery["val_X"], grocery["val_y"])
    with capsys.disabled():
        print(f"\ngrocery, 81 products, class after class, power={power}: {accuracy:.4f}")
    assert accuracy == other.score(grocery["val_X"], grocery["val_y"])
    np.testing.assert_array_equal(one.predict(grocery["val_X"]), other.predict(grocery["val_X"]))
    assert accuracy > 0.7


def test_same_predictions_as_scikit_learns_lda(grocery):
    X, y = grocery["train_X"].astype(np.float64), grocery["train_y"]
    queries = grocery["val_X"].astype(np.float64)
    oracle = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.3).fit(X, y)
    clf = XLDA(priors="empirical").fit(X, y, sample_weight=np.full(len(X), 1e9))  # divides by n, as it does
    np.testing.assert_array_equal(clf.predict(queries), oracle.predict(queries))
    np.testing.assert_allclose(clf.predict_proba(queries), oracle.predict_proba(queries), atol=1e-6)


def test_a_converted_layer_answers_as_the_layer(grocery):
    """Identical winners and the same five best, on every photo; and it learns on without losing them."""
    X, y = grocery["train_X"].astype(np.float32), grocery["train_y"]
    photos = np.concatenate([X, grocery["val_X"].astype(np.float32)])
    old = y < 60
    weight, bias = (array.astype(np.float32) for array in XLDA(shrinkage=0.1).fit(X[old], y[old]).to_linear())
    weight, bias = 0.01 * weight + 0.3, 0.01 * bias - 2.0  # what a layer may as well be
    with pytest.warns(UserWarning, match="Converted without embeddings"):
        clf = XLDA.from_linear(weight, bias)
    logits = photos @ weight.T + bias
    np.testing.assert_array_equal(clf.predict(photos), logits.argmax(axis=1))
    np.testing.assert_array_equal(clf.predict_topk(photos)[0], np.argsort(-logits, axis=1)[:, :5])

    asked, truth = grocery["val_X"], grocery["val_y"]
    labelled = (XLDA().fit(X, y).predict(asked) == truth).mean()
    free = (clf.partial_fit(X[~old], y[~old]).predict(asked) == truth).mean()
    clf = XLDA.from_linear(weight, bias, embeddings=X[old]).partial_fit(X[~old], y[~old])
    calibrated = (clf.predict(asked) == truth).mean()
    print(f"labelled {labelled:.2%}, converted {calibrated:.2%}, without embeddings {free:.2%}")
    assert calibrated > labelled - 0.04
    assert free > labelled - 0.2
