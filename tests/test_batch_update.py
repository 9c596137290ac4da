from __future__ import annotations

import numpy as np
import pytest

from xlda.moments.batch_update import CROWD, crowds_and_turns, first_samples


@pytest.mark.parametrize("n_classes", [1, 3, 20, 100, 10_000])
@pytest.mark.parametrize("n", [1, 2, 50, 3000])
def test_every_sample_is_in_one_crowd_or_one_turn(n, n_classes, rng):
    rows = rng.integers(0, n_classes, n)
    crowds, turns = crowds_and_turns(rows)
    assert sorted(np.concatenate([*crowds, *turns]).tolist()) == list(range(n))
    for samples in [*crowds, *turns]:
        assert (np.diff(samples) > 0).all()
    for crowd in crowds:
        assert len(crowd) > CROWD
        assert len(set(rows[crowd])) == 1
        assert len(crowd) == (rows == rows[crowd[0]]).sum()
    for turn in turns:
        assert len(turn) > 0
        assert len(set(rows[turn])) == len(turn)


@pytest.mark.parametrize("n_classes", [1, 3, 20, 10_000])
@pytest.mark.parametrize("n", [1, 2, 50, 3000])
def test_the_first_of_a_class_is_the_first_that_came_of_one_without_samples(n, n_classes, rng):
    rows, counts = rng.integers(0, n_classes, n), rng.integers(0, 2, n_classes).astype(float)
    seen, expected = set(np.flatnonzero(counts).tolist()), []
    for number, row in enumerate(rows.tolist()):
        if row not in seen:
            expected.append(number)
            seen.add(row)
    assert first_samples(counts, rows).tolist() == expected
