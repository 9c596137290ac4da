"""How many candidates have to be kept: counted in blocks, compared with a plain loop over all scores."""

from __future__ import annotations

import numpy as np
import pytest

from xlda.search import places
from xlda.search.class_rows import Columns, Squares
from xlda.search.places import places_of_winners

WIDTHS = (3, 4, 6)


def drawn_pieces(rng, n_rows, unequal):
    groups = rng.integers(0, 3, n_rows)
    pieces = []
    for width in WIDTHS:
        squares = Squares(rng.normal(size=(3, width)), groups, np.ones(width)) if unequal else None
        pieces.append(Columns(rng.normal(size=(n_rows, width)), rng.normal(size=n_rows), squares))
    pieces[0].offsets[::7] = -np.inf  # they never win
    return pieces


def by_loop(pieces, query):
    """Scores of all classes by the first pieces, one after the other, in plain loops."""
    scores, start, told = np.zeros(len(pieces[0])), 0, []
    for piece in pieces:
        some = query[start : start + piece.width]
        for row in range(len(piece)):
            scores[row] += piece.offsets[row] + sum(piece.weights[row] * some)
            if piece.squares is not None:
                scores[row] += sum(piece.squares.curvature[piece.squares.groups[row]] * some**2)
        start += piece.width
        told.append(scores.copy())
    return told


@pytest.mark.parametrize("block", [40, 2**21])
@pytest.mark.parametrize("unequal", [False, True])
def test_places_are_those_of_a_plain_loop(block, unequal, rng, monkeypatch):
    monkeypatch.setattr(places, "SCORES_AT_ONCE", block)
    pieces, queries = drawn_pieces(rng, 60, unequal), rng.normal(size=(8, sum(WIDTHS)))
    found = places_of_winners(pieces, queries, [0, 1])
    for number, query in enumerate(queries):
        *stages, exact = by_loop(pieces, query)
        winners = np.argsort(-exact, kind="stable")[:5]
        np.testing.assert_array_equal(found.winners[number], winners)
        for stage, scores in enumerate(stages):
            assert found.best[stage][number] == (scores >= scores[winners[0]]).sum()
            assert found.five[stage][number] == (scores >= scores[winners].min()).sum()


def test_exact_scores_may_be_others_than_those_of_the_pieces(rng, monkeypatch):
    monkeypatch.setattr(places, "SCORES_AT_ONCE", 50)
    pieces, queries = drawn_pieces(rng, 40, unequal=False), rng.normal(size=(6, sum(WIDTHS)))
    exact = rng.normal(size=(9, 40))
    found = places_of_winners(pieces, queries, [2], lambda rows, n: exact[:n, rows].copy())
    np.testing.assert_array_equal(found.winners, np.argsort(-exact[:6], axis=1)[:, :5])
    scores = by_loop(pieces, queries[3])[2]
    assert found.best[0][3] == max((scores >= scores[found.winners[3, 0]]).sum(), 1)


def test_of_fewer_than_five_classes_all_win(rng):
    pieces, queries = drawn_pieces(rng, 4, unequal=True), rng.normal(size=(5, sum(WIDTHS)))
    found = places_of_winners(pieces, queries, [0])
    assert found.winners.shape == (5, 3)  # one has no samples
    assert (found.five[0] == 3).all()
