"""What the pages of results are written in."""

from __future__ import annotations

from statistics import mean, stdev


def table(header: list[str], rows: list[list[str]]) -> str:
    """A table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows])


def duration(seconds: float | None) -> str:
    """Seconds in the unit people would use."""
    if not seconds:
        return ""
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def spread(shares: list[float]) -> str:
    """Mean and standard deviation in percent."""
    deviation = f" ± {100 * stdev(shares):.1f}" if len(shares) > 1 else ""
    return f"{100 * mean(shares):.1f}{deviation}"


def between(page: str, start: str, end: str, text: str) -> str:
    """The page with `text` where something else stood between two marks."""
    before, rest = page.split(start)
    return f"{before}{start}{text}\n{end}{rest.split(end)[1]}"
