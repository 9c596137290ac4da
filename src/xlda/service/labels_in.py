"""Labels as people and programs send them."""

from __future__ import annotations

import re
import unicodedata

from xlda.labels import Label
from xlda.service.book import Book
from xlda.service.problems import Problem

LONGEST = 200
REFUSED = {"Cc", "Cs", "Zl", "Zp"}  # control characters, half characters, ends of lines
TURNING = frozenset(
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)  # turn the text that follows round
UNSEEN = {"Cf", "Zs"}  # joiners, marks and spaces: fine between letters, and nothing by themselves
UNREADABLE = "\ufffd"  # what decoding leaves of bytes that are no UTF-8
NUMBER = re.compile(r"0|-?[1-9][0-9]{0,18}")


def clean_text(text: str, what: str = "label") -> str:
    """A text trimmed and normalised (NFC), without control characters.

    >>> clean_text("  kiwi ")
    'kiwi'
    """
    text = text.strip()
    if text and len(text) <= LONGEST and text.isascii() and text.isprintable():  # as most are
        return text
    if any(unicodedata.category(letter) in REFUSED or letter in TURNING for letter in text):
        raise Problem(422, f"The {what} has control characters. Leave them out.")
    if UNREADABLE in text:
        raise Problem(422, f"The {what} has characters that cannot be read. Send it as UTF-8.")
    clean = unicodedata.normalize("NFC", text)
    if all(unicodedata.category(letter) in UNSEEN for letter in clean):
        raise Problem(422, f"The {what} is empty. Give it 1 to {LONGEST} characters.")
    if len(clean) > LONGEST:
        raise Problem(422, f"The {what} has {len(clean):,} characters, of which {LONGEST} are allowed.")
    return clean


def clean_label(text: str, book: Book) -> Label:
    """A label of the kind that the model has: whole numbers are sent as decimal text."""
    clean = clean_text(text)
    if book.kind is not int:
        return clean
    if not NUMBER.fullmatch(clean) or not -(2**63) <= int(clean) < 2**63:
        raise Problem(422, f"The labels of this model are whole numbers; got {clean[:40]}.")
    return int(clean)
