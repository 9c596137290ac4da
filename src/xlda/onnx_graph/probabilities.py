"""Probabilities of the best classes as nodes of an ONNX graph: what `Predictor.judge` says of their scores.

`calibration/figures.py` has the same in numpy, in float64. Here it is float32, so the odds of the best are
computed from the shares of the others, and not from what is missing to 1.
"""

from __future__ import annotations

import numpy as np

from xlda.calibration.calibration import Calibrated
from xlda.calibration.figures import A_LITTLE, HALVINGS, MOST_LOGIT, TEMPERATURE, Line
from xlda.calibration.folds import BEST
from xlda.classifier import XLDA
from xlda.onnx_graph.graph_parts import GraphParts

LEAST = float(np.finfo(np.float32).tiny)
CERTAIN = 2.0**-53  # where the others together have no more than this, float64 calls the best certain


class Probabilities:
    """How a classifier turns the scores of its best classes into probabilities."""

    def __init__(self, clf: XLDA) -> None:
        calibration = clf._current_calibration()
        self._calibrated: Calibrated | None = None if calibration is None else calibration.of(clf.like)
        self._usual = TEMPERATURE if clf._current_head().knows_the_unknown else 1.0

    def add_to(self, graph: GraphParts, scores: str, n_scores: int) -> str:
        """Nodes from the `n_scores` best scores (n, n_scores), best first, to their probabilities.

        Those that are not among the `BEST` best have the probability 0.
        """
        n_best = min(n_scores, BEST)
        some = graph.part(scores, 0, n_best, 1)
        calibrated = self._calibrated
        temperature = self._usual if calibrated is None else calibrated.temperature
        lead = graph.add("Sub", some, graph.part(some, 0, 1, 1))
        logs = graph.add("Div", lead, graph.floats(temperature, "temperature"), name="log_shares")
        found = graph.add("Softmax", logs, axis=1)
        if calibrated is not None and n_best > 1:
            found = _add_corrected(graph, logs, calibrated.correction, n_best)
        if n_scores > n_best:
            found = graph.add("Pad", found, graph.whole([0, 0, 0, n_scores - n_best]))
        return found


def _add_corrected(graph: GraphParts, logs: str, line: Line, n_best: int) -> str:
    """Nodes of `corrected`: logs (n, n_best) are those of shares, relative to the best."""
    others = graph.add("Exp", graph.part(logs, 1, n_best, 1))
    rest = graph.add("ReduceSum", others, graph.whole([1]), keepdims=1)
    at_least = graph.add("Max", rest, graph.floats(LEAST))
    odds = graph.add("Clip", graph.add("Neg", graph.add("Log", at_least)), *_bounds(graph))
    reached = graph.add("Add", graph.add("Mul", odds, graph.floats(line.slope)), graph.floats(line.at_zero))
    curve = graph.add("Mul", graph.add("Sigmoid", reached), graph.floats(line.most))
    is_open = graph.add("Greater", rest, graph.floats(CERTAIN))
    best = graph.add("Where", is_open, curve, graph.floats(1.0), name="best")
    left = graph.add("Div", graph.add("Sub", graph.floats(1.0), best), at_least)
    scaled = graph.add("Concat", best, graph.add("Mul", others, left), axis=1)
    second, enough = graph.part(scaled, 1, 2, 1), graph.add("Sub", best, graph.floats(A_LITTLE))
    is_fine = graph.add("Less", second, enough)
    return graph.add("Where", is_fine, scaled, _add_evened(graph, logs, best, n_best))


def _add_evened(graph: GraphParts, logs: str, wanted: str, n_best: int) -> str:
    """Nodes of `_evened`: the exponent is found by halving, which is a step after the other in the graph."""
    half, one, axis = graph.floats(0.5), graph.floats(1.0), graph.whole([1])
    low = graph.add("Mul", wanted, graph.floats(0.0))
    high = graph.add("Add", low, one)
    for _ in range(HALVINGS):
        middle = graph.add("Mul", graph.add("Add", low, high), half)
        powers = graph.add("Exp", graph.add("Mul", middle, logs))
        total = graph.add("Mul", graph.add("ReduceSum", powers, axis, keepdims=1), wanted)
        too_sure = graph.add("Less", total, one)
        low, high = graph.add("Where", too_sure, low, middle), graph.add("Where", too_sure, middle, high)
    evened = graph.add("Exp", graph.add("Mul", high, logs))
    lift = np.ones(n_best)
    lift[0] += 2.0 * A_LITTLE
    lifted = graph.add("Mul", evened, graph.floats(lift))
    return graph.add("Div", lifted, graph.add("ReduceSum", lifted, axis, keepdims=1))


def _bounds(graph: GraphParts) -> tuple[str, str]:
    return graph.floats(-MOST_LOGIT), graph.floats(MOST_LOGIT)
