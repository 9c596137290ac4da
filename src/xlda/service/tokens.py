"""Who may do what: tokens with a name and scopes, of which a file keeps the hashes alone.

The file is JSON: `{"version": 1, "tokens": [{"name", "scopes", "sha256", "created"}]}`. A token has 32 random
bytes, so one round of SHA-256 is as good as many: there is nothing to guess.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import re
import secrets
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from xlda._internal.files import replaced
from xlda.errors import DamagedFileError, NewerFileError, XLDAError

VERSION = 1  # of the file
PREFIX = "xlda_"  # so that a token that lies about is known for what it is
SCOPES = {  # and what each includes
    "read": {"read"},
    "teach": {"read", "teach"},
    "admin": {"read", "teach", "admin"},
    "sync": {"read", "sync"},
}
PAIRED, PAIRED_DAYS = "paired-", 30  # what names of browsers' tokens begin with, and how long they count
LOOK = 1.0  # seconds between two looks at the file
MODE = 0o600  # of the file: its owner's business

log = logging.getLogger("xlda.service")

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Token:
    """What is known of a token: its name, its scopes, the hash of its text, and when it was made.

    >>> till = Token("till", ("teach",))
    >>> till.may("read"), till.may("teach"), till.may("admin")
    (True, True, False)
    """

    name: str
    scopes: tuple[str, ...]
    sha256: str = field(default="", repr=False)
    created: str = ""

    def may(self, scope: str) -> bool:
        """Whether it allows what needs this scope: admin includes teach, teach and sync include read."""
        return any(scope in SCOPES[own] for own in self.scopes)

    @property
    def all_scopes(self) -> list[str]:
        """Its scopes, and what these include."""
        return [scope for scope in SCOPES if self.may(scope)]


class Tokens:
    """All tokens of a service. They never change: what adds or removes one gives others.

    >>> tokens, text = Tokens().with_new("till", ["teach"])
    >>> tokens.of(text).name, tokens.of("xlda_guessed")
    ('till', None)
    """

    def __init__(self, tokens: tuple[Token, ...] = ()) -> None:
        self._tokens = tokens

    def __iter__(self) -> Iterator[Token]:
        return iter(self._tokens)

    def __len__(self) -> int:
        return len(self._tokens)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Those of a file, which is refused where it is not as it should be."""
        try:
            found = json.loads(Path(path).read_text("utf-8"))
        except (ValueError, RecursionError) as error:  # which a UnicodeDecodeError is as well
            raise _damaged(path, "it is not JSON") from error
        if not isinstance(found, dict) or not isinstance(found.get("tokens"), list):
            raise _damaged(path, 'it has no list "tokens"')
        version = found.get("version")
        if isinstance(version, int) and version > VERSION:
            raise NewerFileError(f"{path} has tokens in format {version}, which only a newer xlda reads.")
        if version != VERSION or isinstance(version, bool):
            raise _damaged(path, f'its "version" is not {VERSION}')
        tokens = tuple(_checked(path, number, entry) for number, entry in enumerate(found["tokens"], start=1))
        if len({token.name for token in tokens}) < len(tokens):
            raise _damaged(path, "two tokens have the same name")
        return cls(tokens)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write them to a file that its owner alone reads; whole, or not at all."""
        content = {"version": VERSION, "tokens": [asdict(token) for token in self._tokens]}
        with replaced(path, MODE) as unfinished:
            unfinished.write_text(json.dumps(content, indent=2) + "\n", "utf-8")

    def of(self, text: str) -> Token | None:
        """The token with this text. How long it takes says nothing of how near a wrong one comes."""
        sha256, found = _hashed(text), None
        for token in self._tokens:
            if hmac.compare_digest(token.sha256, sha256):
                found = token
        return found

    def named(self, name: str) -> Token | None:
        """The token of this name."""
        return next((token for token in self._tokens if token.name == name), None)

    def with_new(self, name: str, scopes: list[str]) -> tuple[Self, str]:
        """These and a new one, and its text, which nobody can ask for again."""
        if not _NAME.fullmatch(name):
            raise ValueError(f"A token's name has 1 to 64 letters, digits, `.`, `_` and `-`; got {name!r}.")
        if any(token.name == name for token in self._tokens):
            raise ValueError(f"There is a token {name} already. Remove it first, or choose another name.")
        unknown = [scope for scope in scopes if scope not in SCOPES]
        if unknown or not scopes:
            raise ValueError(f"A token's scopes are some of {', '.join(SCOPES)}; got {unknown or 'none'}.")
        text = PREFIX + secrets.token_urlsafe(32)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        made = Token(name, tuple(dict.fromkeys(scopes)), _hashed(text), created)
        return type(self)((*self._tokens, made)), text

    def without(self, name: str) -> Self:
        """These but one."""
        left = tuple(token for token in self._tokens if token.name != name)
        if len(left) == len(self._tokens):
            known = ", ".join(token.name for token in self._tokens) or "none at all"
            raise ValueError(f"There is no token {name!r}; there is {known}.")
        return type(self)(left)


class TokenFile:
    """The tokens of a file as it is now: one that was removed there counts no more, within a second."""

    def __init__(self, path: Path) -> None:
        self._path, self._tokens = path, Tokens.read(path)
        self._stamp, self._looked = path.stat().st_mtime_ns, time.monotonic()
        self._unwritten: dict[str, Token] = {}  # of browsers, where the file cannot be written

    def of(self, text: str) -> Token | None:
        """The token with this text."""
        return self._current().of(text)

    def named(self, name: str) -> Token | None:
        """The token of this name."""
        return self._current().named(name) or self._unwritten.get(name)

    def paired(self, scope: str) -> Token:
        """A new token of a browser that was let in, which is in the file like any other, and can be removed.

        Older ones whose sessions are over go. Where the file cannot be written, it counts until the end.
        """
        oldest = datetime.now(UTC) - timedelta(days=PAIRED_DAYS)
        limit = oldest.isoformat(timespec="seconds")
        before = Tokens.read(self._path)  # and not what was there a second ago
        left = tuple(token for token in before if not token.name.startswith(PAIRED) or token.created >= limit)
        tokens, _ = Tokens(left).with_new(PAIRED + secrets.token_hex(4), [scope])
        made = list(tokens)[-1]
        try:
            tokens.write(self._path)
            self._tokens, self._stamp = tokens, self._path.stat().st_mtime_ns
        except OSError as error:
            log.warning("a browser is let in until the service ends, since %s: %s", self._path, error)
            self._unwritten[made.name] = made
        return made

    def _current(self) -> Tokens:
        now = time.monotonic()
        if now - self._looked > LOOK:
            self._looked = now
            try:
                stamp = self._path.stat().st_mtime_ns
                if stamp != self._stamp:
                    self._tokens, self._stamp = Tokens.read(self._path), stamp
            except (OSError, XLDAError) as error:
                log.error("tokens cannot be read, so the last ones still count: %s", error)
        return self._tokens


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _checked(path: str | os.PathLike[str], number: int, entry: Any) -> Token:
    """One token of a file; what a newer version may have added to it is let be."""
    entry = entry if isinstance(entry, dict) else {}
    name, scopes, sha256 = entry.get("name"), entry.get("scopes"), entry.get("sha256")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _damaged(path, f"token {number} has no right name")
    if not isinstance(scopes, list) or not scopes or not all(str(scope) in SCOPES for scope in scopes):
        raise _damaged(path, f"the scopes of {name} are not some of {', '.join(SCOPES)}")
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise _damaged(path, f"the sha256 of {name} is not 64 hexadecimal digits")
    return Token(name, tuple(map(str, scopes)), sha256, str(entry.get("created", "")))


def _damaged(path: str | os.PathLike[str], what: str) -> DamagedFileError:
    return DamagedFileError(f"{path} is no file of tokens: {what}. `xlda token add` writes one.")
