"""How the plots of the report look, and how they are stored: as SVG, the same for the same results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

COLOURS = {
    "XLDA": "#1d4ed8",
    "plain LDA": "#60a5fa",
    "plain LDA, power=0.5": "#7c3aed",
    "SLDA as published": "#b45309",
    "SLDA, shrinkage of plain LDA": "#d97706",
    "nearest mean": "#6b7280",
    "ridge on random features": "#0f766e",
    "FC, fine-tuned": "#dc2626",
    "FC, all at once": "#eab308",
    "scikit-learn LDA, all at once": "#9ca3af",
}
STARTS = {"random": COLOURS["FC, all at once"], "LDA": "#be185d", "LDA, tempered": "#0f766e"}  # of a layer
STYLE = {
    "svg.hashsalt": "xlda",
    "font.size": 10,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}


def panels(
    n: int, width: float = 11.0, height: float = 3.8, n_rows: int = 1, **options: Any
) -> tuple[Any, list[Any]]:
    """A figure with `n` axes side by side, in so many rows."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.rcdefaults()
    pyplot.rcParams.update(STYLE)
    figure, axes = pyplot.subplots(
        n_rows, -(-n // n_rows), figsize=(width, height), constrained_layout=True, squeeze=False, **options
    )
    for unused in axes.ravel()[n:]:
        unused.set_axis_off()
    return figure, list(axes.ravel()[:n])


def logarithmic(axis: Any, ticks: tuple[int, ...] = (1, 2, 5)) -> None:
    """A logarithmic x axis with ticks at 1, 2, 5, 10 and so on, as people write them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=ticks))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}" if x >= 1 else f"{x:g}"))
    axis.xaxis.set_minor_locator(NullLocator())


def store(figure: Any, path: Path) -> None:
    """Write the figure and let go of it."""
    from matplotlib import pyplot

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
