"""Real shop photos: 2 640 to learn, 296 to recognise, 81 products."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from conftest import lda
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
    clf = lda(priors="empirical").fit(X, y, sample_weight=np.full(len(X), 1e9))  # divides by n, as it does
    np.testing.assert_array_equal(clf.predict(queries), oracle.predict(queries))
    np.testing.assert_allclose(clf.predict_proba(queries), oracle.predict_proba(queries), atol=1e-6)


def test_products_of_one_photo_are_found_beside_products_of_many(grocery, rng):
    """Half of the products have one photo; bars of three random halves, below those that are reported."""
    X, y, figures = grocery["train_X"], grocery["train_y"], []
    for _ in range(3):
        order = rng.permutation(len(y))
        is_poor = np.isin(np.arange(81), rng.permutation(81)[:40])
        first = np.unique(y[order], return_index=True)[1]
        kept = order[np.union1d(first, np.flatnonzero(~is_poor[y[order]]))]
        right = XLDA().fit(X[kept], y[kept]).predict(grocery["val_X"]) == grocery["val_y"]
        poor = is_poor[grocery["val_y"]]
        figures.append((right.mean(), right[poor].mean(), right[~poor].mean()))
    total, of_poor, of_rich = np.mean(figures, axis=0)
    print(f"one photo against all: {total:.1%}, poor {of_poor:.1%}, rich {of_rich:.1%}")
    assert total > 0.54
    assert of_poor > 0.4


def test_a_converted_layer_answers_as_the_layer(grocery):
    """Identical winners and the same five best, on every photo; and it learns on without losing them."""
    X, y = grocery["train_X"].astype(np.float32), grocery["train_y"]
    photos = np.concatenate([X, grocery["val_X"].astype(np.float32)])
    old = y < 60
    weight, bias = (array.astype(np.float32) for array in lda(shrinkage=0.1).fit(X[old], y[old]).to_linear())
    weight, bias = 0.01 * weight + 0.3, 0.01 * bias - 2.0  # what a layer may as well be
    with pytest.warns(UserWarning, match="Converted without embeddings"):
        clf = XLDA.from_linear(weight, bias)
    logits = photos @ weight.T + bias
    np.testing.assert_array_equal(clf.predict(photos), logits.argmax(axis=1))
    np.testing.assert_array_equal(clf.predict_topk(photos)[0], np.argsort(-logits, axis=1)[:, :5])

    asked, truth = grocery["val_X"], grocery["val_y"]
    labelled = (lda().fit(X, y).predict(asked) == truth).mean()
    free = (clf.partial_fit(X[~old], y[~old]).predict(asked) == truth).mean()
    clf = XLDA.from_linear(weight, bias, embeddings=X[old]).partial_fit(X[~old], y[~old])
    calibrated = (clf.predict(asked) == truth).mean()
    print(f"labelled {labelled:.2%}, converted {calibrated:.2%}, without embeddings {free:.2%}")
    assert calibrated > labelled - 0.04
    assert free > labelled - 0.2
