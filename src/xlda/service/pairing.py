"""Codes that let a browser in: one person types or scans one, once, within ten minutes."""

from __future__ import annotations

import secrets
import time

from xlda.service.problems import Problem

SECONDS = 600
ALPHABET = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"  # nothing that looks like something else
LENGTH = 8  # letters: there are 8e11 such codes
MOST_CODES = 100
MOST_WRONG = 100  # codes a minute, of all who try


class Pairing:
    """Codes that were given out, in memory alone. To be used by one thread, the event loop's.

    >>> pairing = Pairing()
    >>> code = pairing.new("teach")
    >>> pairing.taken(code.lower().replace("-", " ")), pairing.taken(code)
    ('teach', None)
    """

    def __init__(self) -> None:
        self._codes: dict[str, tuple[str, float]] = {}  # scope, and until when
        self._n_wrong, self._since = 0, time.monotonic()

    def new(self, scope: str) -> str:
        """A code for this scope, as `ABCD-EFGH`."""
        self._forget_old()
        while len(self._codes) >= MOST_CODES:
            del self._codes[next(iter(self._codes))]
        letters = "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
        self._codes[letters] = (scope, time.monotonic() + SECONDS)
        return f"{letters[:4]}-{letters[4:]}"

    def taken(self, code: str) -> str | None:
        """The scope that a code gives, which it does once; None where it is none, or none any more."""
        self._forget_old()
        now = time.monotonic()
        if now - self._since > 60.0:
            self._n_wrong, self._since = 0, now
        if self._n_wrong >= MOST_WRONG:
            raise Problem(429, "Too many wrong codes were tried. Wait a minute.", retry_after=60)
        found = self._codes.pop("".join(code.upper().replace("-", " ").split()), None)
        if found is None:
            self._n_wrong += 1
            return None
        return found[0]

    def _forget_old(self) -> None:
        now = time.monotonic()
        self._codes = {code: known for code, known in self._codes.items() if known[1] > now}
