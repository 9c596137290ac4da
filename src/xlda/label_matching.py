"""Which known class a label means, so that it does not matter where one points, or how one types.

A label that the model knows is that class. One that is the end of exactly one known label, or ends with
exactly one, means it: `Kiwi` is `Fruit/Kiwi`. One that differs from a known label only in case, spaces,
underscores, hyphens or Unicode form, or that is the end of several, is in doubt: somebody has to decide. All
else is new.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from xlda.errors import BadSampleError, DoubtfulLabelError, UnknownClassError, either

if TYPE_CHECKING:
    from xlda.labels import Label  # with scikit-learn, which takes its time

Decide: TypeAlias = "Callable[[Label, tuple[Label, ...]], Label]"

_SEPARATORS = re.compile(r"(?<!\d)[\s_-]+|[\s_-]+(?!\d)")  # but between two digits: 1-12 is not 11-2
_ANY_SEPARATOR = re.compile(r"[\s_-]+")
_WORD = re.compile(r"[^\W_]+")


class Match(NamedTuple):
    """What a label means: the `label` to use, how that was found, and known labels that may be meant."""

    label: Label
    how: Literal["known", "end", "doubtful", "new"]
    alike: tuple[Label, ...] = ()


class KnownLabels:
    """The labels of a model, all text or all whole numbers, and what others mean among them.

    >>> known = KnownLabels(["Fruit/Kiwi", "Fruit/Red Apple", "Juice/Lime", "Fruit/Lime"])
    >>> known.match("Kiwi")
    Match(label='Fruit/Kiwi', how='end', alike=('Fruit/Kiwi',))
    >>> known.match("red_apple").how, known.match("Lime").alike, known.match("Pear").how
    ('doubtful', ('Juice/Lime', 'Fruit/Lime'), 'new')
    """

    def __init__(self, labels: Iterable[Label]) -> None:
        self._labels: dict[str, Label] = {}
        self._ends = _Ends(str)
        self._alike = _Ends(loosely)
        self._has_numbers = False
        self._waiting: list[Label] = []  # to be put into both when somebody asks: most never do
        for label in labels:
            self.add(label)

    def __contains__(self, label: Label) -> bool:
        return str(label) in self._labels

    def __iter__(self) -> Iterator[Label]:
        return iter(self._labels.values())

    def add(self, label: Label) -> None:
        """Make a label known, unless it is."""
        if label in self:
            return
        self._labels[str(label)] = label
        self._has_numbers = not isinstance(label, str)
        self._waiting.append(label)

    def match(self, label: Label) -> Match:
        """What a label means. Text that stands for a whole number is one, where labels are numbers."""
        text = str(label)
        if text in self._labels:
            return Match(self._labels[text], "known")
        self._put_in()
        ends = self._ends.found(text)
        if len(ends) == 1:
            return Match(ends[0], "end", ends)
        if self._has_numbers:
            number = _number(text)
            return Match(number, "known" if str(number) in self._labels else "new")
        alike = self._alike.found(text)
        if alike:
            return Match(text, "doubtful", alike)
        return Match(text if self._labels else label, "new")

    def require(self, label: Label) -> Label:
        """A label as the model has it; one that it has not is an error that names the nearest.

        >>> KnownLabels(["kiwi", "lime"]).require("kwi")
        Traceback (most recent call last):
        xlda.errors.UnknownClassError: There is no class 'kwi'. Is it 'kiwi'?
        """
        match = None if self._has_numbers and not _is_number(str(label)) else self.match(label)
        if match is not None and match.how == "known":
            return match.label
        alike = match.alike if match is not None and match.alike else self.nearest(label)
        hint = f" Is it {either(alike)}?" if alike else ""
        raise UnknownClassError(f"There is no class {label!r}.{hint}")

    def nearest(self, label: Label, n: int = 3) -> tuple[Label, ...]:
        """Known labels that are spelled almost so, at most `n`, the nearest first."""
        loose: dict[str, Label] = {}
        for known in self._labels.values():
            loose.setdefault(loosely(str(known)), known)
        found = difflib.get_close_matches(loosely(str(label)), loose, n, 0.75)
        return tuple(loose[text] for text in found)

    def _put_in(self) -> None:
        for label in self._waiting:
            self._ends.add(label)
            self._alike.add(label)
        self._waiting = []


class LabelResolver:
    """What the labels of one call mean: each is decided once, by `decide` where it is in doubt.

    Two texts of one call never become one class unasked. With `new_ok=False`, what is not known is an
    UnknownClassError that names the nearest. `meant` has those that were taken for another.

    >>> resolver = LabelResolver(["Fruit/Kiwi"])
    >>> resolver.resolve(["Kiwi", "Pear", "Kiwi"])
    ['Fruit/Kiwi', 'Pear', 'Fruit/Kiwi']
    >>> resolver.meant
    {'Kiwi': 'Fruit/Kiwi'}
    >>> resolver.resolve(["pear"])
    Traceback (most recent call last):
    xlda.errors.DoubtfulLabelError: 'pear' is new, but much like the known 'Pear'. Use that label.
    """

    def __init__(self, known: Iterable[Label], decide: Decide | None = None, new_ok: bool = True) -> None:
        self.known = KnownLabels(known)
        self.meant: dict[Label, Label] = {}
        self._decide, self._new_ok = decide or _refuse, new_ok
        self._decided: dict[Label, Label] = {}
        self._used: set[Label] = set()
        self._by_end: dict[Label, Label] = {}  # what was taken, unasked, for a known label

    def resolve(self, labels: Sequence[Label]) -> list[Label]:
        """The labels to use, one for each."""
        first_seen = dict.fromkeys(label for label in labels if label not in self._decided)
        for label in sorted(first_seen, key=lambda label: label not in self.known):
            self._decided[label] = self._meaning(label)
            self._used.add(self._decided[label])
        return [self._decided[label] for label in labels]

    def _meaning(self, given: Label) -> Label:
        match = self.known.match(given)
        if match.how in ("new", "doubtful") and not self._new_ok:
            return self.known.require(given)
        label = match.label
        if match.how == "known" and label in self._by_end:
            raise DoubtfulLabelError(self._by_end[label], (label,))
        if match.how == "doubtful" or (match.how == "end" and self._is_taken(label)):
            label = self._decide(given, match.alike)
        elif match.how == "end":
            self._by_end[label] = given
        self.known.add(label)
        if str(label) != str(given):
            self.meant[given] = label
        return label

    def _is_taken(self, label: Label) -> bool:
        """Whether another label of this call stands for this one; numbers may come in any spelling."""
        return isinstance(label, str) and label in self._used


def loosely(text: str) -> str:
    """A text without what slips of the keys and ways of writing change, for comparing.

    >>> loosely("Red_Apple"), loosely("red apple"), loosely("1-12")
    ('redapple', 'redapple', '1 12')
    """
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
    return _ANY_SEPARATOR.sub(" ", _SEPARATORS.sub("", folded))


def look_alikes(labels: Iterable[Label]) -> list[list[Label]]:
    """Groups of labels that are alike but for case, separators or Unicode form.

    >>> look_alikes(["kiwi", "pear", "Kiwi"])
    [['kiwi', 'Kiwi']]
    """
    groups: dict[str, list[Label]] = defaultdict(list)
    for label in labels:
        groups[loosely(str(label))].append(label)
    return [group for group in groups.values() if len(group) > 1 and isinstance(group[0], str)]


def search_labels(labels: Sequence[Label], query: str) -> list[Label]:
    """Labels with `query` in them, case and accents aside; those with a word that begins so come first.

    >>> search_labels(["pumpkin", "Fruit/Kiwi", "kiosk", "pear"], "ki")
    ['Fruit/Kiwi', 'kiosk', 'pumpkin']
    """
    wanted = _plain(query)
    texts = [_plain(str(label)) for label in labels]
    found = [place for place, text in enumerate(texts) if wanted in text]
    found.sort(key=lambda place: (not _begins_a_word(texts[place], wanted), texts[place], str(labels[place])))
    return [labels[place] for place in found]


class _Ends:
    """Labels by their whole text and by each of its ends, `b/c` and `c` of `a/b/c`, all in one `form`."""

    def __init__(self, form: Callable[[str], str]) -> None:
        self._form = form
        self._whole: dict[str, list[Label]] = defaultdict(list)
        self._by_end: dict[str, list[Label]] = defaultdict(list)

    def add(self, label: Label) -> None:
        text = self._formed(str(label))
        self._whole[text].append(label)
        for end in _ends(text):
            self._by_end[end].append(label)

    def found(self, text: str) -> tuple[Label, ...]:
        """Labels that are this text, end with it, or are an end of it."""
        text = self._formed(text)
        longer = [label for end in _ends(text) for label in self._whole.get(end, ())]
        return (*self._whole.get(text, ()), *self._by_end.get(text, ()), *longer)

    def _formed(self, text: str) -> str:
        return "/".join(self._form(part) for part in text.split("/"))


def _ends(text: str) -> Iterator[str]:
    while "/" in text:
        text = text.split("/", 1)[1]
        yield text


def _refuse(label: Label, alike: tuple[Label, ...]) -> Label:
    raise DoubtfulLabelError(label, alike)


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise BadSampleError(f"The labels of this model are whole numbers: {error}.") from None


def _is_number(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True


def _plain(text: str) -> str:
    """Without case and accents."""
    parts = unicodedata.normalize("NFKD", text.casefold())
    return "".join(sign for sign in parts if not unicodedata.combining(sign))


def _begins_a_word(text: str, wanted: str) -> bool:
    return any(text.startswith(wanted, word.start()) for word in _WORD.finditer(text))
