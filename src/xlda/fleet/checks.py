"""Whether a contribution can be one: counts and sums that no samples give are refused."""

from __future__ import annotations

import numpy as np

from xlda._internal.arrays import Array
from xlda.errors import RefusedContributionError
from xlda.fleet.message import Message
from xlda.fleet.sums import Sums
from xlda.moments.restored import arrays_of

LARGEST = 65_000.0  # that a number of an embedding may be: what half precision holds
ROUNDING = 1e-5  # of the largest that there is, which sums and means may be beside what they should be
ONCE = 10_000.0  # samples that may have been there once, and left their rounding: a tenth of one sample
START = "start-"  # what names of common starting models begin with: their counts need not be whole
MOST_CLOCK_AHEAD = 2**40  # that a logical clock may be: no box says so much


def check_message(message: Message, box: str) -> None:
    """Refuse what this box cannot have sent, whatever was there before."""
    if set(message.after) != {box}:
        raise RefusedContributionError(f"It is not of the box {box} alone.")
    for register in message.registers:
        if register.box != box:
            raise RefusedContributionError(f"It says what the box {register.box} has said of a class.")
        if register.clock > MOST_CLOCK_AHEAD:
            raise RefusedContributionError("Its logical clock is further than any box can have come.")
    if message.before is None and (message.samples is not None or message.removed is not None):
        raise RefusedContributionError("It is all that a box has taught, and has changes beside that.")
    if message.samples is not None and np.abs(message.samples.embeddings).max(initial=0.0) > LARGEST:
        raise RefusedContributionError(f"It has a sample with a number beyond {LARGEST:,.0f}.")
    for part in (message.added, message.removed):
        if part is not None:
            check_sums(part, box.startswith(START))


def needs_look(message: Message) -> bool:
    """Whether what is there after a message must be looked at as well: something is taken away."""
    samples = message.samples
    return message.removed is not None or (samples is not None and bool((samples.signs < 0).any()))


def check_sums(taught: Sums, may_be_parts: bool = False) -> None:
    """Refuse counts, means and a scatter that no samples give; counts `may_be_parts` of samples or not.

    >>> from xlda.fleet import Space
    >>> taught = Sums(Space(2))
    >>> _ = taught.rows(["a1"], {"a1": "kiwi"})
    >>> taught.moments.update([[1.0, 2.0]], [0], weights=[0.5])
    >>> check_sums(taught)
    Traceback (most recent call last):
    xlda.errors.RefusedContributionError: It has a class with a count that is no whole number.
    """
    moments = taught.moments
    counts, means = moments.counts, np.nan_to_num(moments.means)
    if not may_be_parts and (counts != np.round(counts)).any():
        raise RefusedContributionError("It has a class with a count that is no whole number.")
    if moments.frozen or (not may_be_parts and moments.n_samples != int(counts.sum())):
        raise RefusedContributionError("Its counts and the number of its samples differ.")
    if (counts == 0).any() and arrays_of(moments)[0]["offsets"][counts == 0].any():
        raise RefusedContributionError("It has a class with a mean and no samples.")
    if np.abs(means).max(initial=0.0) > LARGEST:
        raise RefusedContributionError(f"It has a mean with a number beyond {LARGEST:,.0f}.")
    if not may_be_parts:
        dropped = float(arrays_of(moments)[1]["dof_of_dropped"])
        _check_scatter(moments.scatter, counts, means, max(dropped, 0.0))


def _check_scatter(scatter: Array, counts: Array, means: Array, dropped: float) -> None:
    dof = float(np.maximum(counts - 1, 0).sum()) + dropped
    trace, diagonal = float(np.trace(scatter)), np.diag(scatter)
    size = float(np.abs(means).max(initial=0.0)) ** 2  # of a sample
    slack = ROUNDING * max(trace, size * max(counts.sum(), ONCE), 1e-30)
    if not dof and np.abs(scatter).max(initial=0.0) > slack:
        raise RefusedContributionError("It has a scatter, and no class with two samples.")
    if (diagonal > dof * (2 * LARGEST) ** 2 + slack).any():
        raise RefusedContributionError("Its scatter is larger than samples can be apart.")
    most = (counts @ ((LARGEST - means) * (LARGEST + means)) + dropped * LARGEST**2) * (1 + ROUNDING)
    if (diagonal > most + slack).any():
        raise RefusedContributionError("Its scatter is larger than its means allow.")
    try:
        np.linalg.cholesky(scatter + slack * np.eye(len(scatter)))
    except np.linalg.LinAlgError:
        raise RefusedContributionError("Its scatter is less than nothing in some direction.") from None
    if dof < len(scatter):
        sizes = np.linalg.eigvalsh(scatter)
        if np.count_nonzero(sizes > slack) > dof:
            raise RefusedContributionError("Its scatter has more directions than it has samples for.")
