from __future__ import annotations

import pickle

import numpy as np
import pytest

import oracle
from conftest import blobs
from xlda.moments import ForgetError, Moments, scatter
from xlda.moments import batch_update as absorb
from xlda.moments import moments as module
from xlda.moments.comparison import same_rows
from xlda.moments.published_rule import PublishedMoments


def expected(X, rows):
    counts, means, covariance = oracle.pooled(X, rows.tolist())
    return list(counts.values()), list(means.values()), covariance * (len(X) - len(counts))


FORMS = {
    "fortran": np.asfortranarray,
    "read-only": lambda X: _frozen(X.copy()),
    "every other row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "reversed twice": lambda X: X[::-1].copy()[::-1],
    "columns of a wider array": lambda X: np.pad(X, ((0, 0), (1, 2)))[:, 1:-2],
    "list": lambda X: X.tolist(),
}


def _frozen(X):
    X.flags.writeable = False
    return X


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_every_form_of_input_is_correct_and_never_modified(form, dtype, rng):
    X, rows = blobs(rng, dtype=dtype)
    given = FORMS[form](X)
    learned = Moments(X.shape[1])
    learned.update(given, rows)
    np.testing.assert_array_equal(np.asarray(given), X)
    counts, means, scatter = expected(X, rows)
    np.testing.assert_array_equal(learned.counts, counts)
    np.testing.assert_allclose(learned.means, means, atol=1e-5)
    np.testing.assert_allclose(learned.scatter, scatter, rtol=0, atol=1e-5 * np.abs(scatter).max())


def test_precision_follows_the_widest_input(rng):
    X, rows = blobs(rng)
    learned = Moments(X.shape[1])
    learned.update(X[:100].astype(np.float16), rows[:100])
    assert learned.dtype == np.float32
    learned.update(X[100:], rows[100:])
    assert learned.dtype == np.float64
    learned.update(X[:5].astype(np.float32), rows[:5])
    assert learned.dtype == np.float64
    X = np.concatenate([X[:100].astype(np.float16).astype(float), X[100:], X[:5].astype(np.float32)])
    _, means, scatter = expected(X, np.concatenate([rows, rows[:5]]))
    np.testing.assert_allclose(learned.means, means, atol=1e-6)
    np.testing.assert_allclose(learned.scatter, scatter, rtol=0, atol=1e-6 * np.abs(scatter).max())


@pytest.mark.parametrize("handful", [0, 1, 50])
def test_small_batches_learned_one_by_one_are_the_same(handful, rng, monkeypatch):
    monkeypatch.setattr(module, "ONE_BY_ONE", handful)
    X, rows = blobs(rng)
    weights = rng.uniform(0.5, 2, len(X))
    learned = Moments(X.shape[1])
    for start in range(0, len(X), 20):
        learned.update(X[start : start + 20], rows[start : start + 20], weights[start : start + 20])
    counts, means, covariance = oracle.pooled(X, rows.tolist(), weights)
    np.testing.assert_allclose(learned.counts, list(counts.values()))
    np.testing.assert_allclose(learned.means, list(means.values()))
    np.testing.assert_allclose(learned.covariance(), covariance)


@pytest.mark.parametrize("pending_rows", [1, 3, 130, 8192])
def test_when_rows_are_folded_in_changes_nothing(pending_rows, rng, monkeypatch):
    monkeypatch.setattr(absorb, "BLOCK", min(pending_rows, 128))
    monkeypatch.setattr(module, "PIECE", min(pending_rows, 1024))
    monkeypatch.setattr(scatter, "MOST_WAITING", pending_rows)
    monkeypatch.setattr(scatter, "LEAST_WAITING", pending_rows)
    X, rows = blobs(rng)
    learned = Moments(X.shape[1])
    for start in range(0, len(X), 50):
        learned.update(X[start : start + 50], rows[start : start + 50])
    np.testing.assert_allclose(learned.scatter, expected(X, rows)[2], rtol=1e-10, atol=1e-10)


def test_memory_to_work_in_is_given_back_where_the_covariance_takes_more(rng):
    for d, is_given_back in ((64, False), (2048, True)):
        X, rows = rng.normal(size=(60, d)).astype(np.float32), np.arange(60) % 3
        moments = Moments(d)
        moments.update(X[:40], rows[:40])
        moments.update(X[40:41], rows[40:41])
        held = moments.nbytes["rows waiting"]
        assert held > 1e6
        moments.covariance()
        after = moments.nbytes["rows waiting"]
        assert after == 0 if is_given_back else after >= held
        moments.update(X[41:], rows[41:])  # for which it is had again
        np.testing.assert_allclose(moments.scatter, expected(X, rows)[2], rtol=1e-4, atol=1e-3)


def test_rows_are_the_same_while_neither_count_nor_mean_has_changed():
    made = []
    for more in ([], [[4.0, 4.0], [1.0, 1.0], [7.0, 7.0]]):
        moments = Moments(2)
        moments.grow(4 if more else 3)
        moments.update(np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]], np.float32), [0, 1, 2])
        if more:  # another mean, the same mean of two, a new row
            moments.update(np.array(more, np.float32), [1, 0, 3])
        made.append(moments)
    before, after = made
    assert same_rows(after, before).tolist() == [False, False, True, False]
    assert same_rows(before, before).all()


def test_memory_for_classes_grows_by_doubling():
    learned = Moments(2)
    sizes = []
    for row in range(1000):
        learned.update([[row, 1.0]], [row])
        sizes.append(learned._offsets.nbytes)
    assert len(set(sizes)) <= 8
    np.testing.assert_array_equal(learned.means[:, 0], np.arange(1000))


def test_forgetting_more_than_was_learned_is_refused_and_changes_nothing():
    learned = Moments(1)
    learned.update([[1.0], [2.0], [5.0]], [0, 0, 1])
    scatter = learned.scatter
    for X, rows, weights in [
        ([[1.0], [5.0], [5.0]], [0, 1, 1], None),
        ([[1.0]], [0], [2.5]),
        ([[1.0]], [7], None),
    ]:
        with pytest.raises(ForgetError, match="Cannot forget"):
            learned.forget(X, rows, weights)
    np.testing.assert_array_equal(learned.counts, [2, 1])
    np.testing.assert_array_equal(learned.means, [[1.5], [5.0]])
    np.testing.assert_array_equal(learned.scatter, scatter)


def test_fractions_that_add_up_empty_a_class():
    learned = Moments(1)
    learned.update([[1.0], [1.0], [1.0], [4.0]], [0, 0, 0, 1], [0.1, 0.2, 0.3, 1.0])
    for weight in (0.3, 0.2, 0.1):
        learned.forget([[1.0]], [0], [weight])
    assert learned.counts.tolist() == [0.0, 1.0]
    assert np.isnan(learned.means[0]).all()


def test_a_dropped_class_leaves_its_share_of_the_covariance(rng):
    X, rows = blobs(rng)
    learned = Moments(X.shape[1])
    learned.update(X, rows)
    before = learned.covariance()
    learned.drop(2)
    assert learned.counts[2] == 0
    np.testing.assert_array_equal(learned.covariance(), before)


def test_frozen_covariance_stays_while_means_go_on(rng):
    X, rows = blobs(rng)
    learned, free = Moments(X.shape[1]), Moments(X.shape[1])
    for one in (learned, free):
        one.update(X[:100], rows[:100])
    learned.freeze()
    frozen = learned.covariance()
    for one in (learned, free):
        one.update(X[100:], rows[100:])
        one.forget(X[100:110], rows[100:110])
        one.merge(one)
        one.join(0, 1)
    np.testing.assert_array_equal(learned.covariance(), frozen)
    np.testing.assert_allclose(learned.means, free.means)
    assert not np.allclose(free.covariance(), frozen)


def test_adding_moments_to_themselves_doubles_them(rng):
    X, rows = blobs(rng)
    learned = Moments(X.shape[1])
    learned.update(X, rows)
    scatter = learned.scatter
    learned.merge(learned)
    np.testing.assert_array_equal(learned.counts, 2 * np.bincount(rows))
    np.testing.assert_allclose(learned.scatter, 2 * scatter)


def test_pickling_keeps_what_waits_to_be_folded_in(rng):
    X, rows = blobs(rng)
    learned = Moments(X.shape[1])
    learned.update(X, rows)
    pickled = pickle.dumps(learned)
    assert len(pickled) < 20_000  # and not the empty part of the buffer
    np.testing.assert_allclose(pickle.loads(pickled).scatter, expected(X, rows)[2])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_size", [1, 7, 300])
def test_the_published_rule_is_the_published_formulas(dtype, batch_size, rng):
    X, rows = blobs(rng, dtype=dtype)
    X += 2
    learned = PublishedMoments(X.shape[1])
    for start in range(0, len(X), batch_size):
        learned.update(X[start : start + batch_size], rows[start : start + batch_size])
    means, sigma = oracle.published_rule(X, rows.tolist())
    np.testing.assert_allclose(learned.means, [means[row] for row in sorted(means)], rtol=0, atol=1e-6 * 5)
    np.testing.assert_allclose(learned.covariance(), sigma, rtol=0, atol=1e-6 * np.abs(sigma).max())


def test_the_published_rule_refuses_what_it_cannot_do():
    learned = PublishedMoments(1)
    learned.update([[1.0], [2.0]], [0, 1])
    with pytest.raises(ValueError, match="no sample weights"):
        learned.update([[1.0]], [0], [2.0])
    with pytest.raises(ValueError, match="cannot be undone"):
        learned.forget([[1.0]], [0])
    with pytest.raises(ValueError, match="cannot be merged"):
        learned.merge(PublishedMoments(1))
    with pytest.raises(ValueError, match="cannot join"):
        learned.join(0, 1)
    assert learned.counts.tolist() == [1, 1]


def test_counts_are_a_copy_and_the_centre_is_the_mean_of_all_samples():
    learned = Moments(1)
    learned.update([[1.0], [3.0], [11.0], [1.0]], [0, 1, 3, 0])
    learned.counts[0] = 9
    assert learned.counts.tolist() == [2, 1, 0, 1]
    assert learned.centre() == pytest.approx([4.0])


def test_moments_merge_with_themselves_crosswise():
    X, rows = np.array([[0.0], [2.0], [5.0]]), np.array([0, 0, 1])
    learned, twice = Moments(1), Moments(1)
    learned.update(X, rows)
    learned.merge(learned, np.array([1, 0]))
    twice.update(np.concatenate([X, X]), np.concatenate([rows, 1 - rows]))
    np.testing.assert_allclose(learned.scatter, twice.scatter)


def test_degrees_of_freedom_of_dropped_classes(rng):
    X, rows = blobs(rng)
    one, other = Moments(8), Moments(8)
    one.update(X[:150], rows[:150])
    other.update(X[150:], rows[150:])
    other.drop(2)
    dof = one.dof + other.dof
    one.merge(other, np.arange(10, 16))
    assert one.dof == dof
    one.grow(20)
    one.drop(19)  # never had a sample
    assert one.dof == dof


@pytest.mark.parametrize(("leave", "scatter"), [(lambda m: m.drop(1), 8.0), (lambda m: m.freeze(), 10.0)])
def test_forgetting_the_rest_keeps_what_is_to_stay(leave, scatter):
    learned = Moments(1)
    learned.update([[0.0], [2.0], [5.0], [9.0]], [0, 0, 1, 1])
    leave(learned)
    for row, X in enumerate([[[0.0], [2.0]], [[5.0], [9.0]]]):
        if learned.counts[row]:
            learned.forget(X, [row, row])
    np.testing.assert_allclose(learned.scatter, [[scatter]])


def test_the_published_rule_freezes_and_takes_nothing(rng):
    X, rows = blobs(rng)
    learned = PublishedMoments(8)
    learned.update(X[:100], rows[:100])
    learned.freeze()
    frozen = learned.covariance()
    learned.update(X[100:], rows[100:])
    learned.update(X[:0], [])
    np.testing.assert_array_equal(learned.covariance(), frozen)


def test_memory_that_cannot_be_had_changes_nothing(monkeypatch):
    moments, lengthened = Moments(2), module.lengthened

    def fails_for_counts(array, length):
        if array.ndim == 1:
            raise MemoryError
        return lengthened(array, length)

    monkeypatch.setattr(module, "lengthened", fails_for_counts)
    with pytest.raises(MemoryError):
        moments.reserve(100)
    monkeypatch.undo()
    moments.grow(9)
    assert moments.means.shape == (9, 2)


def test_pickles_have_no_sample_in_them(rng):
    embeddings = rng.normal(size=(5, 300))
    moments = Moments(300)
    moments.update(embeddings, np.array([0, 0, 1, 1, 1]))
    pickled = pickle.dumps(moments)
    assert embeddings[4].tobytes() not in pickled
    assert len(pickled) < 1.1 * (moments.scatter.nbytes + moments.means.nbytes * 4)


@pytest.fixture
def folded(monkeypatch):
    """How many rows each fold has brought into the scatter."""
    sizes, add = [], scatter.add_outer_products

    def noted(rows, *others):
        sizes.append(len(rows))
        add(rows, *others)

    monkeypatch.setattr(scatter, "add_outer_products", noted)
    return sizes


@pytest.mark.parametrize("size", [1, 20, 200])
def test_calls_with_a_few_samples_fold_a_few_rows(size, rng, folded):
    X, rows = blobs(rng, n_samples=6000)
    learned = Moments(X.shape[1])
    learned.update(X[:3000], rows[:3000])  # a batch, whose rows wait
    for start in range(3000, len(X), size):
        learned.update(X[start : start + size], rows[start : start + size])
    assert len(folded) > 6
    assert max(folded) <= scatter.SOME
    np.testing.assert_allclose(learned.scatter, expected(X, rows)[2], rtol=1e-10, atol=1e-10)


def test_batches_fold_many_rows_at_once(rng, folded):
    X, rows = blobs(rng, n_samples=40 * 512)
    learned = Moments(X.shape[1])
    for start in range(0, len(X), 512):
        learned.update(X[start : start + 512], rows[start : start + 512])
    assert min(folded) > 7000
    np.testing.assert_allclose(learned.scatter, expected(X, rows)[2], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", [1, 20, 700, 5000])
def test_new_classes_leave_nothing_to_be_folded(size, rng, folded):
    X = rng.normal(size=(5000, 8)) + 100
    learned = Moments(8)
    for start in range(0, len(X), size):
        learned.update(X[start : start + size], np.arange(start, min(start + size, len(X))))
    np.testing.assert_allclose(learned.means, X)
    assert not learned.scatter.any()
    assert not folded


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("size", [1, 20, 700])
def test_new_classes_among_known_ones(size, half, rng):
    """Classes of one sample, of a few, and of a crowd; some of a weight; some gone and come again."""
    rows = np.concatenate([rng.integers(0, 300, 500), rng.integers(300, 304, 200)])
    rng.shuffle(rows)
    X, weights = rng.normal(size=(700, 8)) + rows[:, None] % 7, rng.uniform(0.5, 2, 700)
    learned = Moments(8, half=half)
    learned.update(X[:50] + 3, rows[:50], weights[:50])
    learned.forget(X[:50] + 3, rows[:50], weights[:50])
    for start in range(0, 700, size):
        piece = slice(start, start + size)
        learned.update(X[piece], rows[piece], weights[piece])
    counts, means, covariance = oracle.pooled(X, rows.tolist(), weights)
    tolerance = 1e-2 if half else 1e-9
    np.testing.assert_allclose(learned.counts[learned.counts > 0], list(counts.values()))
    np.testing.assert_allclose(learned.means[learned.counts > 0], list(means.values()), atol=tolerance)
    np.testing.assert_allclose(learned.covariance(), covariance, atol=tolerance * np.abs(covariance).max())


@pytest.mark.parametrize("kind", [Moments, PublishedMoments])
def test_classes_with_samples_are_counted_whatever_happens_to_them(kind, rng):
    moments, X = kind(3), rng.normal(size=(40, 3))
    some = np.arange(40) % 9
    for change in (
        lambda: moments.update(X[:1], [4]),
        lambda: moments.update(X[:2], [4, 6]),
        lambda: moments.update(X, some),
        lambda: moments.drop(2),
        *(
            ()
            if kind is PublishedMoments
            else (
                lambda: moments.join(3, 5),
                lambda: moments.forget(X[7:8], [7]),
                lambda: moments.forget(X[some == 8], some[some == 8]),
                lambda: moments.merge(Moments(3) + moments, np.arange(9) + 4),
            )
        ),
    ):
        change()
        assert moments.n_seen == np.count_nonzero(moments.counts)
        assert pickle.loads(pickle.dumps(moments)).n_seen == moments.n_seen
