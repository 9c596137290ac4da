"""Whether a contribution can be one: counts and sums that no samples give are refused."""

from __future__ import annotations

import re
import unicodedata

import numpy as np

from xlda._internal.arrays import Array
from xlda.errors import RefusedContributionError
from xlda.fleet.message import Message, Version
from xlda.fleet.registers import LABEL, Registers
from xlda.fleet.sums import Sums
from xlda.labels import MOST_CHARACTERS, Label
from xlda.moments.restored import arrays_of

LARGEST = 65_000.0  # that a number of an embedding may be: what half precision holds
ROUNDING = 1e-5  # of the largest that there is, which sums and means may be beside what they should be
ONCE = 10_000.0  # samples that may have been there once, and left their rounding: a tenth of one sample
START = "start-"  # what names of common starting models begin with: their counts need not be whole
MOST_CLOCK_AHEAD = 2**40  # that a logical clock may be: no box says so much
MOST_VERSION = 10**10  # that an epoch or a sequence number is below
BOX = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_START = re.compile(rf"{START}[0-9a-f]{{1,32}}")
UNSEEN = {"Cc", "Cs", "Zl", "Zp"}  # letters that no label has: control characters, half characters


def check_box_name(box: str) -> None:
    """Refuse what no box is called.

    >>> check_box_name("start-bern")
    Traceback (most recent call last):
    xlda.errors.RefusedContributionError: No box is called start-...: that is for common starting models.
    """
    if not BOX.fullmatch(box):
        raise RefusedContributionError(
            f"A box has a name of small letters, digits, `.`, `_` and `-`; got {box[:80]!r}."
        )
    if box.startswith(START):
        raise RefusedContributionError(f"No box is called {START}...: that is for common starting models.")


def check_start_name(name: str, version: Version) -> None:
    """Refuse what no common starting model is called: its name has the digest of its file."""
    if not (
        _START.fullmatch(name) and version.place == (1, 1) and version.mark.startswith(name[len(START) :])
    ):
        raise RefusedContributionError(f"{name[:80]!r} is no name of a common starting model.")


def check_label(label: Label) -> None:
    """Refuse what is no label of a class.

    >>> check_label(" ")
    Traceback (most recent call last):
    xlda.errors.RefusedContributionError: It has the label ' ', which is empty.
    """
    if isinstance(label, int):
        return
    told = f"It has the label {label[:40]!r}, which"
    if not label.strip():
        raise RefusedContributionError(f"{told} is empty.")
    if len(label) > MOST_CHARACTERS:
        raise RefusedContributionError(f"{told} has more than {MOST_CHARACTERS:,} characters.")
    if any(unicodedata.category(letter) in UNSEEN for letter in label):
        raise RefusedContributionError(f"{told} has control characters.")


def labels_in(message: Message) -> set[Label]:
    """All labels that a message has."""
    parts = [part.names for part in (message.added, message.removed, message.samples) if part is not None]
    given = [register.value for register in message.registers if register.field == LABEL]
    return {*given, *(label for names in parts for label in names.values())}


def kind_of_labels(message: Message) -> type | None:
    """Whether labels are texts or whole numbers, by one of them; None where there are none."""
    for part in (message.added, message.removed, message.samples):
        if part is not None and part.names:
            return type(next(iter(part.names.values())))
    return next((type(one.value) for one in message.registers if one.field == LABEL), None)


def check_message(message: Message, box: str) -> None:
    """Refuse what this box cannot have sent, whatever was there before."""
    if set(message.after) != {box}:
        raise RefusedContributionError(f"It is not of the box {box} alone.")
    if any(not number < MOST_VERSION for number in message.after[box].place):
        raise RefusedContributionError("Its version is further than any box can have come.")
    try:
        Registers.from_json(message.registers.to_json())
    except ValueError as error:
        raise RefusedContributionError(f"It is refused: {error}.") from None
    labels = labels_in(message)
    if len({type(label) for label in labels}) > 1:
        raise RefusedContributionError("It has labels that are texts, and others that are numbers.")
    for label in labels:
        check_label(label)
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
