"""A picture of how well answers were judged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from xlda._internal.extras import needs

if TYPE_CHECKING:
    from xlda._internal.arrays import Array
    from xlda.calibration.rejection import Confidence


def draw(path: Path, confidence: Confidence, novelty: Array, is_known: Array) -> None:
    """Reliability, risk against coverage, and how much samples are like the known classes."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise needs("Drawing a plot", "matplotlib", "glyphs") from error
    figure = Figure(figsize=(13, 4), layout="constrained")
    reliable, risky, known = figure.subplots(1, 3)
    _draw_reliability(reliable, confidence)
    coverage, risks = confidence.risks()
    risky.plot(100 * coverage, 100 * risks)
    risky.set(xlabel="answers given, the surest first, %", ylabel="of these wrong, %", xlim=(0, 100))
    risky.set_ylim(bottom=0)
    _draw_novelty(known, novelty, is_known)
    for panel in (reliable, risky, known):
        panel.grid(alpha=0.3)
    figure.savefig(path, dpi=120)


def _draw_reliability(panel: Any, confidence: Confidence) -> None:
    panel.plot([0, 100], [0, 100], color="C7", ls="--", label="as they should be")
    label = f"as they are: off by {confidence.calibration_error:.1%}"
    points = [(100 * told, 100 * true) for told, true in confidence.reliability()]
    if points:
        panel.plot(*zip(*points, strict=True), "o-", label=label)
    panel.set(xlabel="probability told, %", ylabel="right, %", xlim=(0, 101), ylim=(0, 101))
    panel.legend(loc="lower right")


def _draw_novelty(panel: Any, novelty: Array, is_known: Array) -> None:
    import numpy as np

    some = novelty[np.isfinite(novelty)]
    if not len(some):
        panel.set_axis_off()
        panel.text(
            0.5, 0.5, "this model cannot tell\nwhat is unknown", ha="center", transform=panel.transAxes
        )
        return
    low, high = np.quantile(some, (0.002, 0.998)).tolist()
    bins = np.linspace(low, high, 50)
    for which, name in ((is_known, "of known classes"), (~is_known, "never learned")):
        if which.any():
            panel.hist(novelty[which], bins, density=True, alpha=0.6, label=f"{name}: {which.sum():,}")
    panel.set(xlabel="how much a sample is like the known classes", ylabel="share", yticks=[])
    panel.legend()
