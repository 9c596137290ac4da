"""The long form of the crash test, by hand: python tests/crash/run.py --kills 1000 --power-losses 500.

Three parts of the kills go to a service that keeps all events, one to one that folds them after two seconds.
Of each four kills three come at random moments, the fourth at a fault point. A quarter of those that keep all
events are started by the plain command; the others are forked, which takes less time.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from crash.campaign import Campaign
from crash.clients import WEIGHTS
from crash.power_loss import Outages

POINTS = [
    "before-commit", "after-commit", "start-in-replay", "start-after-open", "start-after-adopting",
    "before-answer", "wal-before-copy", "wal-after-copy",
    "checkpoint-before-rename", "checkpoint-after-rename", "checkpoint-after-sync",
]  # fmt: skip
OF_FOLDS = ["fold-before-commit", "fold-after-commit"]
WITHOUT_REMOVAL = {name: weight for name, weight in WEIGHTS.items() if name != "remove"}


def kills(campaign, points, n_kills, n_samples, say):
    """So many lives, in which so many samples are acknowledged; the model is checked after each 25."""
    begun = time.monotonic()
    faults = (f"{name}:{times}" for times in itertools.cycle((1, 2, 5, 3)) for name in points)
    for number in range(1, n_kills + 1):
        if number % 4 == 0:
            campaign.life(next(faults))
        else:
            left = max(n_samples - campaign.n_samples, 0) / max((n_kills - number) * 3 / 4, 1)
            campaign.life(n_samples=left * campaign._dice.uniform(0.5, 1.6))
        if number % 25 == 0:
            campaign.check_model()
            say(f"{time.monotonic() - begun:6.0f} s  {campaign.figures()}")
        if not campaign.is_fine:
            say(f"FAILED: {campaign.wrong[:10]} lost {len(campaign.lost)}")
            return
    campaign.end()
    say(f"{time.monotonic() - begun:6.0f} s  {campaign.figures()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--power-losses", type=int, default=500)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    def say(text):
        print(text, flush=True)

    table = []
    with tempfile.TemporaryDirectory() as folder:
        outages = Outages(Path(folder), options.seed)
        begun = time.monotonic()
        for number in range(1, options.power_losses + 1):
            outages.one()
            if number % 50 == 0:
                say(f"{time.monotonic() - begun:6.0f} s  {outages.figures()}")
        table.append(("power lost", outages.figures()))
        is_fine = outages.is_fine
    few = options.kills // 4
    for name, n_kills, more, points in (
        ("killed, all events kept", options.kills - few, {"plain": 0.25}, POINTS),
        ("killed, events folded", few, {"folds_after": 2.0, "weights": WITHOUT_REMOVAL}, OF_FOLDS + POINTS),
    ):
        with tempfile.TemporaryDirectory() as folder:
            n_samples = options.samples * n_kills / max(options.kills, 1)
            with Campaign(folder, options.seed, is_forked=True, **more) as campaign:
                kills(campaign, points, n_kills, n_samples, say)
            table.append((name, campaign.figures()))
            is_fine &= campaign.is_fine
    for name, figures in table:
        say(f"\n{name}")
        for what, value in figures.items():
            say(f"  {what:22} {value:>10,}")
    say("\nNothing that was acknowledged is lost." if is_fine else "\nFAILED")
    return 0 if is_fine else 1


if __name__ == "__main__":
    sys.exit(main())
