"""From a fully connected layer to a classifier and back, before and after it has learned more."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

import oracle
import xlda
from conftest import blobs
from xlda import XLDA
from xlda.head.model_samples import ModelSampler

WITHOUT = "Converted without embeddings"
OLD, NEW = range(8), range(8, 12)


@pytest.fixture
def stream(rng):
    """Samples of twelve classes, to learn and to ask for; a layer was trained on the first eight."""
    X, y = blobs(rng, n_samples=2400, n_classes=12, n_features=32)
    X += 3.0  # as class means of real embeddings, these have a large part in common
    return X[:1200], y[:1200], X[1200:], y[1200:]


@pytest.fixture
def layer(stream):
    X, y, _, _ = stream
    old = np.isin(y, OLD)
    fc = LogisticRegression(C=10.0, max_iter=5000).fit(X[old], y[old])
    return fc.coef_, fc.intercept_


def converted(layer, **how):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", f"{WITHOUT}|Embeddings of too few")
        return XLDA.from_linear(*layer, **how)


def logits_of(layer, X):
    return X @ layer[0].T + layer[1]


# -- without embeddings, before anything is learned


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("priors", ["equal", "empirical"])
def test_it_is_the_layer_until_it_learns(layer, stream, rng, dtype, priors):
    layer = tuple(array.astype(dtype) for array in layer)
    clf = converted(layer, priors=priors)
    for X in (stream[2], 100 * rng.normal(size=(2000, 32)), np.zeros((1, 32))):
        X = X.astype(dtype)
        logits = logits_of(layer, X)
        np.testing.assert_array_equal(clf.predict(X), logits.argmax(axis=1))
        np.testing.assert_array_equal(clf.predict_topk(X)[0], np.argsort(-logits, axis=1)[:, :5])
        atol = 1e-6 * max(np.abs(logits).max(), 100.0)  # products of large numbers may cancel
        np.testing.assert_allclose(clf.decision_function(X), logits, rtol=1e-5, atol=atol)
        np.testing.assert_allclose(clf.predict_proba(X), softmax(logits, axis=1), rtol=1e-3, atol=1e-6)


def test_the_layer_comes_back(layer):
    weight, bias = converted(layer).to_linear()
    np.testing.assert_array_equal(weight, layer[0])
    np.testing.assert_array_equal(bias, layer[1])


def test_it_says_what_it_is_good_for(layer):
    with pytest.warns(UserWarning, match=WITHOUT):
        XLDA.from_linear(*layer)


def test_labels_of_its_own(layer, stream):
    names = [f"product {number}" for number in reversed(OLD)]
    clf = converted(layer, labels=names)
    assert clf.classes_.tolist() == sorted(names)
    assert clf.predict(stream[2])[0] == names[logits_of(layer, stream[2])[0].argmax()]


def test_a_layer_without_bias(layer, stream):
    clf = converted(layer[:1])
    np.testing.assert_array_equal(clf.predict(stream[2]), (stream[2] @ layer[0].T).argmax(axis=1))


# -- without embeddings, once it has learned


def test_a_layer_means_the_same_whatever_its_shift_and_scale(layer, stream, rng):
    X, y, asked, _ = stream
    new = np.isin(y, NEW)
    shifted = 0.01 * (layer[0] + rng.normal(size=32)), 0.01 * (layer[1] + 7.0)
    one, other = (converted(some).partial_fit(X[new], y[new]) for some in (layer, shifted))
    np.testing.assert_array_equal(one.predict(asked), other.predict(asked))
    np.testing.assert_allclose(one.decision_function(asked), other.decision_function(asked), atol=1e-6)


def test_the_layer_goes_on_deciding_among_its_classes(layer, stream):
    X, y, asked, _ = stream
    new = np.isin(y, NEW)
    clf = converted(layer).partial_fit(X[new], y[new])
    among_old = clf.decision_function(asked)[:, :8].argmax(axis=1)
    np.testing.assert_array_equal(among_old, logits_of(layer, asked).argmax(axis=1))


def test_neither_old_nor_new_classes_are_lost(layer, stream):
    X, y, asked, truth = stream
    new, old_asked = np.isin(y, NEW), np.isin(truth, OLD)
    clf = converted(layer).partial_fit(X[new], y[new])
    right = clf.predict(asked) == truth
    before = (logits_of(layer, asked).argmax(axis=1) == truth)[old_asked].mean()
    labelled = (XLDA().fit(X, y).predict(asked) == truth)[~old_asked].mean()
    assert right[old_asked].mean() > before - 0.35
    assert right[~old_asked].mean() > labelled - 0.35
    published = converted(layer, assume="identity").partial_fit(X[new], y[new])
    assert right.mean() > (published.predict(asked) == truth).mean() + 0.1


def test_a_tenth_of_the_new_samples_may_be_taken_for_old_ones(layer, rng):
    """Of queries drawn from the new classes as the model sees them; here that is how they are drawn."""
    means = 3 * rng.normal(size=(40, 32))
    y = np.repeat(np.arange(100, 140), 200)
    X = means[y - 100] + rng.normal(size=(len(y), 32))
    clf = converted(layer).partial_fit(X, y)
    asked = means[y - 100] + rng.normal(size=(len(y), 32))
    own = np.take_along_axis(clf.decision_function(asked)[:, 8:], (y - 100)[:, None], axis=1)[:, 0]
    beaten = clf.decision_function(asked)[:, :8].max(axis=1) > own
    assert 0.05 < beaten.mean() < 0.2


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize(
    ("some", "news"), [(NEW, NEW), ((*NEW, *OLD[:6]), NEW), ((8, *OLD), (8,)), (OLD, ())]
)
def test_scale_and_offset_of_plain_lda_by_hand(layer, stream, some, news, few):
    """The formulas of docs/math.md in plain float64, on the queries that the model draws."""
    X, y, asked, _ = stream
    if few and not news:
        pytest.skip("one sample a class and no others: no covariance")
    if few:  # of the layer's classes
        kept = np.isin(y, NEW) | np.isin(np.arange(len(y)), [np.flatnonzero(y == label)[0] for label in OLD])
        X, y = X[kept], y[kept]
    X, y = X[np.isin(y, some)], y[np.isin(y, some)]
    clf = converted(layer, model="lda", shrinkage=0.3, renew=0, search="dense").partial_fit(X, y)
    head = clf._current_head()
    counts, means, sigma = oracle.pooled(X, y)
    olds, news = sorted(set(some) & set(OLD)), list(news)
    known = not news or sum(min(counts.get(label, 0), 2) for label in olds) >= 10
    m = X.mean(axis=0) if known else X.mean(axis=0) * len(means) / (len(means) + 1)
    rows = {label: row for row, label in enumerate(clf.classes_)}
    rng = np.random.default_rng(0)
    drawing = ModelSampler(clf._model.moments, head.centre, rng)

    def lda(points, labels):
        return oracle.scores(points - m, [means[label] - m for label in labels], sigma, 0.3)

    def fc(points):
        logits = logits_of(layer, points)
        return logits - logits.mean(axis=1, keepdims=True)

    def drawn(labels):
        queries, own = drawing.queries(512, rng, np.array([rows[label] for label in labels]))
        return queries + head.centre, clf.classes_[own]

    def share(worth):
        return np.array([worth / (worth + counts.get(label, 0)) for label in OLD])

    def mixed(points, worth, alpha, omega, common):
        logits = share(worth) * (alpha * fc(points) + omega + common(points))
        for label in olds:
            logits[:, label] += (1 - share(worth)[label]) * lda(points, [label])[:, 0]
        return logits

    if known:
        queries, own = drawn(olds)
        n_of = np.array([counts[label] for label in olds])

        def common(points):
            return lda(points, olds) @ n_of[:, None] / n_of.sum()

        def without_means(logits):
            return logits - logits.mean(axis=0) - logits.mean(axis=1, keepdims=True) + logits.mean()

        x, t = without_means(fc(queries)[:, olds]), without_means(lda(queries, olds))
        alpha = (x * t).sum() / (x * x).sum() * (1 if news else 2)
        right = lda(queries, olds)[own[:, None] == olds]
        omega = np.median(right - alpha * fc(queries)[np.arange(512), own] - common(queries)[:, 0])
        n_right = (fc(queries).argmax(axis=1) == own).sum()
        worth = min(10, (n_right + 0.5) / (512 - n_right + 0.5))
        if news:
            leads = [
                mixed(points, worth, alpha, omega, common).max(axis=1) - lda(points, news).max(axis=1)
                for points in (queries, drawn(news)[0])
            ]
            ends = np.sort(np.concatenate([-leads[0], -leads[1]]))
            shifts = (ends[1:] + ends[:-1]) / 2  # as many lost by the one as by the other
            lost = np.searchsorted(np.sort(-leads[0]), shifts, side="left")
            taken = np.searchsorted(np.sort(-leads[1]), shifts, side="left")
            uneven = np.abs((512 - lost) - taken)
            omega += 0.7 * shifts[uneven == uneven.min()].mean()
    else:
        queries, own = drawn(news)
        scores, wrong = lda(queries, news), own[:, None] != news
        alpha = 0.7 * (scores[wrong] if wrong.any() else scores).std() / fc(queries).std()
        omega = np.quantile(scores[~wrong] - alpha * fc(queries).max(axis=1), 0.1)
        worth, common = 10, lambda points: 0.0
    want = mixed(asked, worth, alpha, omega, common)
    want = np.concatenate([want, *([lda(asked, news)] if news else [])], axis=1)
    found = clf.decision_function(asked)
    np.testing.assert_allclose(found - found[:, -1:], want - want[:, -1:], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("priors", ["equal", "empirical"])
@pytest.mark.parametrize(("news", "scale"), [(NEW, 1.0), ((), 1.0), (NEW, -1.0)])
def test_a_layer_beside_samples_by_hand(layer, stream, news, scale, priors):
    """The formulas of docs/math.md in plain float64, in the coordinates of the head."""
    X, y, asked, _ = stream
    layer = scale * layer[0], scale * layer[1]  # turned round, it is wrong of everything
    kept = (np.isin(y, OLD) | np.isin(y, news)) & ((y != 2) | (np.arange(len(y)) < 60)) & (y != 3)
    X, y = X[kept], y[kept]
    clf = converted(layer, renew=0, search="dense", priors=priors).partial_fit(X, y)
    space = clf._current_head().space
    counts, means, _ = oracle.pooled(X, y)
    psi, shrunk = space.table.psi, np.linalg.inv(space.whitening @ space.whitening.T)
    z = (asked - space.centre) @ space.rotation
    labels = [label for label in (*OLD, *news) if label in means]
    n = np.array([counts[label] for label in labels])
    k = np.array([means[label] - space.centre for label in labels]) @ space.rotation
    known = n[:, None] * psi
    mu, v = k * known / (known + 1), 1 + psi / (known + 1)
    w, b = mu / v, -0.5 * (mu**2 / v).sum(axis=1) + (np.log(n) if priors == "empirical" else 0.0)

    into = shrunk @ space.rotation
    rows = (layer[0] - layer[0].mean(axis=0)) @ into
    biases = layer[1] + layer[0] @ space.centre
    biases = biases - biases.mean()
    np.testing.assert_allclose(  # no direction of the layer is missing
        z @ rows.T + biases, logits_of(layer, asked) - logits_of(layer, asked).mean(axis=1, keepdims=True)
    )
    seen = [label for label in OLD if label in means]
    n_seen = len(seen)
    about = mu[:n_seen] - mu[:n_seen].mean(axis=0)
    q = about.T @ about / n_seen + np.diag(v[:n_seen].mean(axis=0))
    f, g = rows[seen] - rows[seen].mean(axis=0), w[:n_seen] - w[:n_seen].mean(axis=0)
    alpha = max(np.trace(f @ q @ g.T) / np.trace(f @ q @ f.T), 0.0)
    explained = alpha * np.trace(f @ q @ g.T) / np.trace(g @ q @ g.T)
    agreement = min(explained / (1 - explained), 1.0)
    share_of = n[:n_seen] / n[:n_seen].sum()
    common, common_bias = share_of @ w[:n_seen], share_of @ b[:n_seen]
    own = (w * mu).sum(axis=1)[:n_seen] + b[:n_seen]
    of_layer = ((alpha * rows[seen] + common) * mu[:n_seen]).sum(axis=1) + alpha * biases[seen] + common_bias
    omega = agreement * max(np.median(own - of_layer), 0.0)
    worth = max(10.0 * agreement**8 * (1 if news else 2), 1e-9)
    assert (agreement > 0.5) == (scale > 0)

    want = np.full((len(asked), 8 + len(news)), -np.inf)
    for column, label in enumerate((*OLD, *news)):
        count = counts.get(label, 0.0)
        share = worth / (worth + count) if label in OLD else 0.0
        logit = np.zeros(len(asked))
        if label in OLD:
            logit += share * (
                z @ (alpha * rows[label] + common) + alpha * biases[label] + common_bias + omega
            )
            count += worth
        if label in means:
            logit += (1 - share) * (z @ w[labels.index(label)] + b[labels.index(label)])
        spread = 1 + psi / (count * psi + 1)
        want[:, column] = logit - 0.5 * (z**2 / spread).sum(axis=1) - 0.5 * np.log(spread).sum()
    found = clf.decision_function(asked)
    np.testing.assert_allclose(found - found[:, :1], want - want[:, :1], rtol=1e-6, atol=1e-6)


def test_a_new_class_from_one_sample_beside_a_layer_with_embeddings(stream, layer):
    """It may lie where neither the others nor the rows of the layer do, or where only these do."""
    X, y, _, _ = stream
    clf = converted(layer, embeddings=X[np.isin(y, OLD)], renew=10.0)
    space = clf._current_head().space
    back = np.linalg.inv(space.whitening)
    outside = np.linalg.svd(space.basis)[0][:, space.n_coordinates :] @ np.ones(32 - space.n_coordinates)
    for label, way in ((50, outside), (51, space.basis[:, -1])):
        x = (space.centre + 20 * way @ back)[None]
        clf.partial_fit(x, [label])
        assert clf.predict(x) == [label]


def test_one_new_class_does_not_undo_classes_that_have_embeddings(layer, stream):
    """Some of the layer's classes have embeddings, others none, and one sample of a new class comes."""
    X, y, asked, truth = stream
    clf = converted(layer, embeddings=X[y < 6])
    old = np.isin(truth, OLD)
    before = (clf.predict(asked) == truth)[old].mean()
    for _ in range(2):
        clf.partial_fit(X[y == 9][:1], [9])
        assert (clf.predict(asked) == truth)[old].mean() > before - 0.1


def test_asking_in_between_changes_nothing(layer, stream):
    X, y, asked, _ = stream
    one, other = (converted(layer, embeddings=X[y < 6]) for _ in range(2))
    one.predict(asked)
    for label in (9, 10):
        for clf in (one, other):
            clf.partial_fit(X[y == label], y[y == label])
        one.predict(asked)
    np.testing.assert_allclose(one.decision_function(asked), other.decision_function(asked))


def test_the_scale_of_the_embeddings_does_not_matter(layer, stream):
    X, y, asked, _ = stream
    for n in (1, 5):
        small = converted((layer[0] * 1e3, layer[1])).partial_fit(X[y == 9][:n] * 1e-3, y[y == 9][:n])
        plain = converted(layer).partial_fit(X[y == 9][:n], y[y == 9][:n])
        np.testing.assert_array_equal(small.predict(asked * 1e-3), plain.predict(asked))


@pytest.mark.parametrize("offset", [10.0, 1000.0])
def test_an_offset_common_to_all_embeddings(layer, stream, offset):
    X, y, asked, truth = stream
    moved = layer[0], layer[1] - offset * layer[0].sum(axis=1)
    new, old = np.isin(y, NEW), np.isin(truth, OLD)
    plain = converted(layer, embeddings=X[~new]).partial_fit(X[new], y[new])
    clf = converted(moved, embeddings=X[~new] + offset).partial_fit(X[new] + offset, y[new])
    assert (clf.predict(asked + offset) == plain.predict(asked)).mean() > 0.995
    without = converted(moved).partial_fit(X[new] + offset, y[new])  # is not what it is without the offset
    assert (without.predict(asked + offset) == truth)[old].mean() > 0.3


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_first_few_samples_of_one_new_class(layer, stream, n):
    X, y, asked, truth = stream
    clf = converted(layer).partial_fit(X[y == 9][:n], y[y == 9][:n])
    predicted = clf.predict(asked[np.isin(truth, OLD)])
    assert np.isfinite(clf.decision_function(asked)).all()
    assert (predicted == truth[np.isin(truth, OLD)]).mean() > 0.5
    assert clf.predict(X[y == 9][:n]).tolist().count(9) >= 1


@pytest.mark.parametrize("search", ["dense", "fisher"])
def test_learning_one_class_leaves_the_others_as_they_are(layer, stream, search):
    """Between renewals, also when rows that changed are brought in among the others."""
    X, y, asked, _ = stream
    clf = converted(layer, embeddings=X[np.isin(y, OLD)], renew=10.0, search=search)
    clf.partial_fit(X[np.isin(y, NEW)][:9], y[np.isin(y, NEW)][:9])
    before = clf.decision_function(asked)
    for number in range(40):
        clf.partial_fit(X[y == 0][number : number + 1], [0]).predict(asked[:1])
    after = clf.decision_function(asked)
    np.testing.assert_allclose(after[:, 1:], before[:, 1:], atol=1e-8)
    assert np.abs(after[:, 0] - before[:, 0]).max() > 0.1


def test_the_order_of_learning_does_not_matter(layer, stream, rng):
    X, y, asked, _ = stream
    at_once = converted(layer, renew=0).partial_fit(X, y)
    order = rng.permutation(len(X))
    bit_by_bit = converted(layer, renew=0)
    for some in np.array_split(order, 13):
        bit_by_bit.partial_fit(X[some], y[some]).predict(asked[:1])
    np.testing.assert_allclose(
        bit_by_bit.decision_function(asked), at_once.decision_function(asked), rtol=1e-6, atol=1e-6
    )


def test_between_renewals_new_samples_count_at_once(layer, stream):
    X, y, asked, _ = stream
    new = np.isin(y, NEW)
    clf = converted(layer, renew=10.0)
    clf.predict(asked)  # by the layer alone
    clf.partial_fit(X[new], y[new])
    at_once = converted(layer).partial_fit(X[new], y[new])
    np.testing.assert_allclose(clf.decision_function(asked), at_once.decision_function(asked))
    old = clf.decision_function(asked)[:, 0]
    clf.partial_fit(X[y == 0][:3], y[y == 0][:3])
    assert np.abs(clf.decision_function(asked)[:, 0] - old).max() > 1e-3
    clf.partial_fit(X[:1] + 50.0, [77])
    assert clf.predict(X[:1] + 50.0) == [77]


@pytest.mark.parametrize("model", ["bayes", "lda"])
def test_the_imported_part_fades(layer, stream, model):
    """With n samples and strength s, a logit is s parts the layer's and n parts that of the samples."""
    X, y, asked, _ = stream
    old = np.isin(y, OLD)
    plain = XLDA(model=model).fit(X[old], y[old])
    distances = []
    for strength in (2.0, 0.5, 1e-9):
        clf = converted(layer, strength=strength, renew=0, model=model).partial_fit(X[old], y[old])
        logits = clf.decision_function(asked) - plain.decision_function(asked)
        distances.append(np.abs(logits - logits[:, :1]).max())
    assert distances[0] > distances[1] > distances[2]
    # In the directions of the layer's rows, classes with unequal counts expect samples to vary unequally.
    assert distances[2] < (1e-6 if model == "lda" else 0.1)


@pytest.mark.parametrize("model", ["bayes", "lda"])
def test_a_layer_of_noise_does_little_harm(layer, stream, model):
    """To classes that have samples, however strong it is said to be."""
    X, y, asked, truth = stream
    X, y = X[y < 8], y[y < 8]
    noise = np.random.default_rng(3).normal(size=layer[0].shape)
    clf = XLDA.from_linear(noise, strength=1e9, embeddings=X, embedding_labels=y, model=model)
    old = truth < 8
    labelled = XLDA(model=model).fit(X, y).predict(asked[old]) == truth[old]
    assert (clf.predict(asked[old]) == truth[old]).mean() > labelled.mean() - 0.02


def test_forgetting_gives_the_layer_back(layer, stream):
    X, y, asked, _ = stream
    clf = converted(layer).partial_fit(X, y)
    clf.predict(asked)
    clf.forget(X, y)
    logits = clf.decision_function(asked)
    np.testing.assert_allclose(logits[:, :8], logits_of(layer, asked), rtol=1e-6, atol=1e-6)
    assert (logits[:, 8:] == -np.inf).all()


def test_a_removed_class_is_gone_and_its_row_is_used_again(layer, stream):
    X, y, asked, _ = stream
    clf = converted(layer)
    assert 3 in clf.predict(asked)
    clf.remove_class(3)
    assert 3 not in clf.predict(asked)
    clf.partial_fit(X[y == 9], y[y == 9])
    assert clf.classes_.tolist() == [0, 1, 2, 4, 5, 6, 7, 9]
    assert clf._model.labels.table().names.tolist() == [0, 1, 2, 9, 4, 5, 6, 7]
    alone = XLDA().fit(X[y == 9], y[y == 9])
    np.testing.assert_allclose(clf.means_[-1], alone.means_[0])
    clf.predict(asked)
    clf.rename_class(9, 33).remove_class(4)
    anew = pickle.loads(pickle.dumps(clf))
    anew._model.upkeep.served = None
    np.testing.assert_allclose(clf.decision_function(asked), anew.decision_function(asked))
    assert not {9, 4} & set(clf.predict(asked))
    for label in (0, 1, 2, 5, 6, 7):
        clf.remove_class(label)
    assert set(clf.predict(asked)) == {33}


def test_what_it_knows_of_classes_without_samples(layer, stream):
    X, y, _, _ = stream
    clf = converted(layer).partial_fit(X[y == 1][:1], [1])
    assert clf.class_count_.sum() == 1
    assert clf.n_samples_seen_ == 1
    assert np.isnan(clf.means_).any(axis=1).sum() == 7


def test_merging(layer, stream):
    X, y, asked, _ = stream
    new = np.isin(y, NEW)
    learned_elsewhere = XLDA().fit(X[new], y[new])
    one = converted(layer).merge(learned_elsewhere)
    other = converted(layer).partial_fit(X[new], y[new])
    np.testing.assert_allclose(one.decision_function(asked), other.decision_function(asked), atol=1e-6)
    with pytest.raises(ValueError, match="Merge this one into that one"):
        learned_elsewhere.merge(converted(layer))
    for into, other_class in ((9, 0), (0, 9)):
        with pytest.raises(ValueError, match="comes from a layer, whose rows cannot be merged"):
            one.merge_classes(into, other_class)
    one.merge_classes(9, 10)
    into_nothing = XLDA().merge(one)
    np.testing.assert_allclose(into_nothing.decision_function(asked), one.decision_function(asked))


def test_on_disk_and_back(layer, stream, tmp_path):
    X, y, asked, _ = stream
    clf = converted(layer, strength=3.0)
    for samples in (slice(0, 0), slice(0, 200)):
        clf.partial_fit(X[samples], y[samples])
        clf.save(tmp_path / "a.xlda")
        for again in (xlda.load(tmp_path / "a.xlda"), pickle.loads(pickle.dumps(clf))):
            np.testing.assert_allclose(again.decision_function(asked), clf.decision_function(asked))
            again.partial_fit(X[200:], y[200:])
            np.testing.assert_allclose(
                again.decision_function(asked),
                pickle.loads(pickle.dumps(clf)).partial_fit(X[200:], y[200:]).decision_function(asked),
                atol=1e-6,
            )


def test_search_and_audit_without_means(layer, stream):
    clf = converted(layer, search="fisher")
    with pytest.raises(ValueError, match="or convert it with embeddings"):
        clf.predict(stream[2])
    clf.set_params(search="auto")
    with pytest.raises(ValueError, match="audit needs X"):
        clf.audit()
    audit = clf.audit(stream[2])
    assert audit.agreement == 1.0
    assert audit.nbytes["imported layer"] >= layer[0].nbytes


def test_many_classes_are_searched_densely(rng):
    weight = rng.normal(size=(3000, 1500)).astype(np.float32)
    clf = converted((weight, None))
    X = rng.normal(size=(20, 1500)).astype(np.float32)
    np.testing.assert_array_equal(clf.predict(X), (X @ weight.T).argmax(axis=1))


# -- with embeddings


def test_embeddings_are_labelled_by_the_layer(layer, stream):
    X, y, _, _ = stream
    X = X[np.isin(y, OLD)]
    clf = converted(layer, embeddings=X)
    guessed = logits_of(layer, X).argmax(axis=1)
    counts, means, covariance = oracle.pooled(X, guessed)
    np.testing.assert_allclose(clf.covariance_, covariance, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(clf.class_count_, [counts[label] for label in OLD])
    np.testing.assert_allclose(clf.means_, [means[label] for label in OLD])
    assert clf.n_samples_seen_ == len(X)


def test_it_is_the_layer_having_learned_them(layer, stream):
    X, _, asked, _ = stream
    guessed = logits_of(layer, X).argmax(axis=1)
    one, other = converted(layer, embeddings=X), converted(layer).partial_fit(X, guessed)
    np.testing.assert_allclose(one.decision_function(asked), other.decision_function(asked), atol=1e-6)


def test_labels_of_embeddings_are_believed(layer, stream):
    X, y, _, _ = stream
    old = np.isin(y, OLD)
    clf = converted(layer, embeddings=X[old], embedding_labels=y[old])
    np.testing.assert_allclose(clf.covariance_, oracle.pooled(X[old], y[old])[2], rtol=1e-8, atol=1e-10)


def test_it_learns_on_as_any_other(layer, stream):
    X, y, asked, truth = stream
    new, old_asked = np.isin(y, NEW), np.isin(truth, OLD)
    clf = converted(layer, embeddings=X[~new], shrinkage=0.05)
    before = (clf.predict(asked[old_asked]) == truth[old_asked]).mean()
    assert before > (logits_of(layer, asked).argmax(axis=1) == truth)[old_asked].mean() - 0.02
    clf.partial_fit(X[new], y[new])
    labelled = XLDA(shrinkage=0.05).fit(X, y)
    assert (clf.predict(asked) == truth).mean() > (labelled.predict(asked) == truth).mean() - 0.05
    clf.forget(X[new], y[new])
    assert (clf.predict(asked[old_asked]) == truth[old_asked]).mean() == before


def test_a_class_without_embeddings_has_the_layers_word(layer, stream):
    X, y, asked, truth = stream
    guessed = logits_of(layer, X).argmax(axis=1)
    clf = converted(layer, embeddings=X[np.isin(y, OLD) & (guessed != 2)])
    assert clf.class_count_[2] == 0.0
    assert (clf.predict(asked[truth == 2]) == 2).mean() > 0.5


def test_too_few_embeddings_are_left_out(layer, stream):
    X, _, asked, _ = stream
    with pytest.warns(UserWarning, match="do more harm than good"):
        clf = XLDA.from_linear(*layer, embeddings=X[:9])
    np.testing.assert_array_equal(clf.predict(asked), logits_of(layer, asked).argmax(axis=1))
    assert clf.n_samples_seen_ == 0
    some = np.flatnonzero(logits_of(layer, X).argmax(axis=1) < 3)
    with pytest.warns(UserWarning, match="do more harm than good"):  # however many, of three classes in eight
        assert XLDA.from_linear(*layer, embeddings=X[some]).n_samples_seen_ == 0
    known = XLDA.from_linear(*layer, embeddings=X[some], embedding_labels=np.zeros(len(some), int))
    assert known.n_samples_seen_ == len(some)  # with labels they are samples as any others


@pytest.mark.parametrize("search", ["fisher", "lsh", "dense"])
def test_searching_among_imported_classes(rng, search):
    n, d = 400, 24
    centres = 3 * rng.normal(size=(n, d))
    X = np.repeat(centres, 4, axis=0) + rng.normal(size=(4 * n, d))
    fc = XLDA(shrinkage=0.1).fit(X, np.repeat(np.arange(n), 4)).to_linear()
    clf = converted(fc, embeddings=X[::2], search=search)
    asked = np.repeat(centres, 2, axis=0) + rng.normal(size=(2 * n, d))
    want = clf.decision_function(asked).argmax(axis=1)
    assert (clf.predict(asked) == want).mean() > (0.999 if search != "lsh" else 0.8)
    clf.partial_fit(X[:50] + 9.0, np.arange(50))  # imported rows that are late
    want = clf.decision_function(asked).argmax(axis=1)
    assert (clf.predict(asked) == want).mean() > (0.99 if search != "lsh" else 0.8)


def test_with_power_the_layer_only_labels(layer, stream):
    X, _y, asked, _truth = stream
    X, asked = np.abs(X), np.abs(asked)
    guessed = logits_of(layer, X).argmax(axis=1)
    clf = converted(layer, embeddings=X, power=0.5)
    plain = XLDA(power=0.5).fit(X, guessed)
    np.testing.assert_array_equal(clf.predict(asked), plain.predict(asked))
    with pytest.warns(UserWarning, match="1 of its classes have none"):
        clf = XLDA.from_linear(*layer, embeddings=X[guessed != 2], power=0.5)
    assert 2 not in clf.predict(asked)


def test_half_precision(layer, stream):
    X, y, asked, truth = stream
    clf = converted(layer, embeddings=X, precision="half").partial_fit(X, y)
    assert (clf.predict(asked) == truth).mean() > 0.5


def test_embeddings_from_files(layer, stream, tmp_path):
    X = stream[0].astype(np.float32)
    np.save(tmp_path / "a.npy", X)
    np.savez(tmp_path / "b.npz", embedding=X)
    save_safetensors(tmp_path / "c.safetensors", X)
    want = converted(layer, embeddings=X)
    found = [
        tmp_path / "a.npy",
        tmp_path / "b.npz",
        str(tmp_path / "c.safetensors"),
        xlda.open_source(X, labels=None),
    ]
    if parquet(tmp_path / "d.parquet", X):
        found.append(tmp_path / "d.parquet")
    np.savez(tmp_path / "with labels.npz", embedding=X, label=stream[1])
    for where in [*found, tmp_path / "with labels.npz"]:
        clf = converted(layer, embeddings=where)
        np.testing.assert_allclose(clf.means_, want.means_, rtol=1e-5)


def save_safetensors(path, X):
    from safetensors.numpy import save_file

    save_file({"embedding": X}, path)


def parquet(path, X):
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        return False
    pyarrow.parquet.write_table(pyarrow.table({"embedding": list(X)}), path)
    return True


# -- with a covariance, and the paper's ways


@pytest.mark.parametrize("shrinkage", [0.3, 0.0, "oas"])
def test_what_to_linear_gave_comes_back(stream, shrinkage):
    X, y, asked, _ = stream
    clf = XLDA(model="lda", shrinkage=shrinkage).fit(X, y)
    weight, bias = clf.to_linear()
    n, how = len(X) / 12, {"model": "lda", "shrinkage": shrinkage}
    back = converted((weight, bias), assume=clf.covariance_, strength=n, **how)
    if shrinkage != "oas":  # that depends on the number of samples too
        np.testing.assert_allclose(back.means_, clf.means_, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(back.decision_function(asked), clf.decision_function(asked), atol=1e-6)
    np.testing.assert_allclose(back.covariance_, clf.covariance_)
    assert (back.predict(asked) == clf.predict(asked)).mean() > 0.99


@pytest.mark.parametrize("assume", ["identity", "weights"])
def test_the_papers_ways(layer, stream, assume):
    _, _, asked, _ = stream
    clf = converted(layer, assume=assume)
    sigma = np.eye(32) if assume == "identity" else np.cov(layer[0].T)
    want = oracle.scores(asked, layer[0], sigma, 1e-4, "identity")
    np.testing.assert_allclose(clf.decision_function(asked), want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(clf.means_, layer[0])
    assert clf.n_samples_seen_ == 0


@pytest.mark.parametrize("assume", ["identity", np.eye(32)])
def test_the_old_spelling_still_works_with_a_warning(assume, layer, stream):
    with pytest.warns(DeprecationWarning, match="assume"):
        old = XLDA.from_linear(*layer, covariance=assume)
    new = XLDA.from_linear(*layer, assume=assume)
    assert old.covariance == "plastic"
    np.testing.assert_array_equal(old.decision_function(stream[2]), new.decision_function(stream[2]))


def test_a_converted_classifier_may_have_a_fixed_covariance(layer, stream):
    X, y, _, _ = stream
    clf = converted(layer, embeddings=X, covariance="fixed")
    before = clf.covariance_
    np.testing.assert_array_equal(before, converted(layer, embeddings=X).covariance_)
    clf.partial_fit(X[y == 9], y[y == 9])
    np.testing.assert_array_equal(clf.covariance_, before)
    without = converted(layer, covariance="fixed").partial_fit(X[:50], y[:50])
    np.testing.assert_allclose(without.covariance_, XLDA().fit(X[:50], y[:50]).covariance_)
    assumed = converted(layer, assume="identity", covariance="fixed").partial_fit(X, y)
    np.testing.assert_allclose(assumed.covariance_, np.eye(X.shape[1]))


def test_the_papers_ways_learn_on(layer, stream):
    """New samples join the assumed covariance by the exact rule; `strength` samples a class stand for it."""
    X, y, _, _ = stream
    new = np.isin(y, NEW)
    clf = converted(layer, assume="identity", strength=2.0).partial_fit(X[new], y[new])
    _, _, learned = oracle.pooled(X[new], y[new])
    dof = new.sum() - 4
    np.testing.assert_allclose(clf.covariance_, (16 * np.eye(32) + dof * learned) / (16 + dof))


# -- bad input


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"weight": np.ones(3)}, r"weight has shape \(3,\); expected \(n_classes, n_features\)"),
        ({"weight": np.ones((0, 3))}, "weight has shape"),
        ({"weight": [["a", "b"]]}, "weight is not an array of real numbers"),
        ({"weight": [[1.0, 2.0], [3.0]]}, "weight is not an array of real numbers"),
        ({"weight": np.ones((2, 2)) * 1j}, "weight is not an array of real numbers"),
        ({"weight": [[1.0, np.nan]]}, "weight contains NaN"),
        ({"bias": np.ones(3)}, r"bias has shape \(3,\); weight has 2 rows, so expected \(2,\)"),
        ({"bias": [0.0, np.inf]}, "bias contains NaN or infinity"),
        ({"labels": ["a"]}, "labels has 1 entries; weight has 2 rows"),
        ({"labels": ["a", "a"]}, "labels has 'a' 2 times; every class needs a label of its own"),
        ({"labels": ["a", 1]}, "mixes"),
        ({"covariance": "fixd"}, "covariance is one of"),
        ({"assume": "oas"}, "assume is one of"),
        ({"assume": np.eye(2)}, r"assume has shape \(2, 2\); the layer's weight asks for \(3, 3\)"),
        ({"assume": np.triu(np.ones((3, 3)))}, "assume is not a covariance: it is not symmetric"),
        ({"assume": np.full((3, 3), np.nan)}, "assume contains NaN"),
        ({"assume": -np.eye(3)}, "assume is not a covariance"),
        ({"assume": np.zeros((3, 3))}, "assume is not a covariance"),
        ({"assume": "identity", "embeddings": np.ones((4, 3))}, "With embeddings, assume is 'auto'"),
        ({"embeddings": np.ones((4, 2))}, "X has 2 features"),
        ({"embeddings": np.ones((0, 3))}, "embeddings has no samples"),
        ({"embeddings": np.full((4, 3), np.nan)}, "NaN"),
        ({"embeddings": np.ones((4, 3)), "embedding_labels": [0, 1]}, "embedding_labels has 2 entries"),
        ({"embeddings": np.ones((4, 3)), "embedding_labels": [0, 1, 7, 0]}, "Unknown class 7"),
        ({"embedding_labels": [0]}, "embedding_labels came without embeddings"),
        ({"strength": 0}, "strength is a positive number"),
        ({"strength": "much"}, "strength is a positive number"),
        ({"power": 0.5}, "power needs embeddings"),
        ({"rule": "slda"}, "rule='exact'"),
        ({"shrinkage": 7}, "shrinkage is in"),
    ],
)
def test_bad_input(how, message):
    how = {"weight": np.eye(2, 3), **how}
    with pytest.raises(ValueError, match=message):
        XLDA.from_linear(**how)


def test_embeddings_that_do_not_vary(layer):
    clf = converted(layer, embeddings=np.ones((5, 32)))
    assert np.isfinite(clf.decision_function(np.ones((2, 32)))).all()
