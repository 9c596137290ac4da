from __future__ import annotations

import numpy as np
import pytest

from xlda.head.model_samples import ModelSampler, kept_queries
from xlda.moments import Moments


@pytest.fixture(scope="module")
def world():
    """Classes whose means and samples are normal: 1500 with two samples, 1500 with twenty."""
    rng = np.random.default_rng(5)
    between, within = np.diag([9.0, 4.0, 1.0, 0.25]), np.diag([1.0, 2.0, 1.0, 2.0])
    true = rng.multivariate_normal(np.zeros(4), between, 3000)
    rows = np.concatenate([np.repeat(np.arange(1500), 2), np.repeat(np.arange(1500, 3000), 20)])
    moments = Moments(4)
    moments.grow(3000)
    moments.update(true[rows] + rng.multivariate_normal(np.zeros(4), within, len(rows)), rows)
    return moments, true, within


@pytest.mark.parametrize("among", [np.arange(1500), np.arange(1500, 3000)])
def test_queries_scatter_about_the_true_means_as_real_samples_do(world, among):
    """Around the learned mean, real ones are further away than its own samples say, the fewer the further."""
    moments, true, within = world
    rng = np.random.default_rng(6)
    centre = np.zeros(4)
    queries, own = ModelSampler(moments, centre, rng).queries(40_000, rng, among)
    fresh = true[own] + rng.multivariate_normal(np.zeros(4), within, len(own))
    means = moments.means_from(centre, own)
    for one, other in ((queries, fresh), (queries - means, fresh - means)):
        np.testing.assert_allclose(np.cov(one.T), np.cov(other.T), rtol=0.1, atol=0.2)
    np.testing.assert_allclose(queries.T @ means / len(own), fresh.T @ means / len(own), rtol=0.1, atol=0.2)
    assert np.isin(own, among).all()


def test_one_sample_in_all_gives_queries_too(rng):
    moments = Moments(3)
    moments.grow(1)
    moments.update(np.array([[5.0, 5.0, 5.0]]), np.array([0]))
    queries, own = ModelSampler(moments, np.full(3, 5.0), rng).queries(10, rng)
    assert np.isfinite(queries).all()
    assert (own == 0).all()


def test_kept_samples_are_as_far_from_the_learned_mean_as_new_ones(rng):
    """Of three samples a class, each is nearer to their mean than a fourth one is: that is made up for."""
    true = rng.normal(size=(600, 4)) * 3
    moments = Moments(4, check_samples=2000)
    moments.kept.name(range(601), [int(number) for number in rng.integers(1, 2**62, 601)])
    moments.update(np.repeat(true, 3, axis=0) + rng.normal(size=(1800, 4)), np.repeat(np.arange(600), 3))
    moments.update(rng.normal(size=(1, 4)), [600])  # the only one of its class says nothing
    kept, queries = moments.kept.samples(), kept_queries(moments, 5000, rng)
    several = kept.rows < 600
    assert len(queries) == several.sum() > 1500
    apart = queries - moments.means_from(np.zeros(4), kept.rows[several])
    np.testing.assert_allclose(np.square(apart).mean(axis=0), 1 + 1 / 3, rtol=0.15)
    assert len(kept_queries(moments, 100, rng)) == 100
