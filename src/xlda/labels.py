"""Which row of the model a label has."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda.errors import UnknownClassError

Label: TypeAlias = str | int

FEW = 16  # labels that a dictionary finds sooner than an array
MOST_CHARACTERS = 1000  # of a label: NumPy makes every entry of an array as long as the longest
SPARSE = 4  # times the number of labels: an array for numbers up to there is worth its memory

_INT64 = np.iinfo(np.int64)


def label_list(values: Any, name: str = "y") -> list[Label]:
    """Turn `values` into a list of Python str or of Python int, or say why it is neither.

    Whole numbers in an array of floats count as int, as in scikit-learn.

    >>> label_list(np.array([3, 1]))
    [3, 1]
    >>> label_list(["pear", 7])
    Traceback (most recent call last):
    ValueError: Unknown label type: y mixes int and str. Labels are all str or all int.
    """
    if values is None:
        raise ValueError(f"XLDA requires {name} to be passed, but the target {name} is None.")
    array = np.asarray(values)
    if array.dtype.kind in "mM":
        raise ValueError(f"Unknown label type: {name} holds {array.dtype}. Labels are all str or all int.")
    if array.ndim != 1:
        from sklearn.utils.validation import column_or_1d

        array = column_or_1d(array, warn=True)
    if array.dtype.kind == "i":
        return list(array.tolist())
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.trunc(array)).all():
        return _within_int64([int(value) for value in array.tolist()], name)
    if array.dtype.kind == "U" and isinstance(values, np.ndarray):
        return list(array.tolist())
    # A list with both "a" and 1 has become an array of str by now: look at what came.
    flat = isinstance(values, list | tuple) and np.ndim(values) == 1
    originals = values if flat else array.tolist()
    return _by_type(originals, name)


def label_hash(label: Label) -> int:
    """A number below 2^64 - 1 for a label, always the same.

    >>> label_hash("kiwi") == label_hash("kiwi") != label_hash("pear")
    True
    """
    text = f"{type(label).__name__} {label}".encode("utf-8", "surrogatepass")
    return min(int.from_bytes(blake2b(text, digest_size=8).digest(), "big"), 2**64 - 2)


def one_label(value: Any, name: str = "label") -> Label:
    """One value as a Python str or int, or say why it is neither."""
    return label_list([value], name)[0]


def _by_type(values: Sequence[Any], name: str) -> list[Label]:
    types = {str if isinstance(v, str) else int if isinstance(v, Integral) else type(v) for v in values}
    if types <= {str}:
        if any(value.endswith("\0") for value in values):
            raise ValueError(f"Unknown label type: {name} holds str that end in NUL, which NumPy drops.")
        return [str.__str__(value) for value in values]  # an enum's value, not its name
    if types <= {int}:
        return _within_int64([int(value) for value in values], name)
    found = " and ".join(sorted(kind.__name__ for kind in types))
    verb = "mixes" if len(types) > 1 else "holds"
    raise ValueError(f"Unknown label type: {name} {verb} {found}. Labels are all str or all int.")


def _within_int64(values: list[int], name: str) -> list[Label]:
    if values and not (_INT64.min <= min(values) and max(values) <= _INT64.max):
        raise ValueError(f"Unknown label type: {name} holds an int beyond 64 bits. Use str for such labels.")
    return list(values)


def check_lengths(labels: Iterable[Label]) -> None:
    """Refuse labels that are too long."""
    for label in labels:
        if isinstance(label, str) and len(label) > MOST_CHARACTERS:
            raise ValueError(
                f"A label has {len(label):,} characters, of which {MOST_CHARACTERS:,} are allowed; it begins "
                f"with {label[:40]!r}. Use a shorter name for the class."
            )


def _kind_of(labels: Iterable[Label]) -> type | None:
    for label in labels:
        return str if isinstance(label, str) else int
    return None


@dataclass(frozen=True, eq=False)
class LabelTable:
    """The label of every row at one moment. Never changes."""

    names: Array  # (n_rows,): None for a row without a label
    dtype: type  # `str` or `np.int64`: what arrays of these labels are made of

    @cached_property
    def sorted_rows(self) -> Rows:
        """Rows that have a label, in the order of their labels: the order of columns, as scikit-learn's."""
        rows = [row for row, name in enumerate(self.names) if name is not None]
        return np.array(sorted(rows, key=self.names.__getitem__), dtype=np.intp)

    @cached_property
    def is_sorted(self) -> bool:
        """Whether that is the order of the rows themselves, all of which have a label."""
        return bool(np.array_equal(self.sorted_rows, np.arange(len(self.names))))

    @cached_property
    def row_of(self) -> dict[Label, int]:
        """The row of each label."""
        return {name: row for row, name in enumerate(self.names.tolist()) if name is not None}

    def taken(self, rows: Rows) -> LabelTable:
        """Of these rows alone."""
        return LabelTable(self.names[rows], self.dtype)

    def of(self, rows: Rows) -> Array:
        """Labels of `rows`, in the same shape."""
        return self.names[rows].astype(self.dtype)

    def sorted(self) -> Array:
        """All labels, sorted."""
        return self.of(self.sorted_rows)


class Labels:
    """A two-way table: label to row, row to label.

    A label keeps its row for as long as it is known. The row of a removed label is empty until the next
    newcomer takes it, so the table grows with the labels alive, not with all there ever were.

    >>> labels = Labels()
    >>> labels.add(["pear", "apple", "pear"])
    array([1, 0, 1])
    >>> labels.add(["banana"])
    array([2])
    >>> labels.table().sorted()
    array(['apple', 'banana', 'pear'], dtype='<U6')
    """

    def __init__(self, known: Iterable[Label | None] = ()) -> None:
        names = list(known)
        self._names: Array = np.empty(max(len(names), 8), dtype=object)
        self._names[: len(names)] = names
        self._n_rows = len(names)
        self._row_of = {label: row for row, label in enumerate(names) if label is not None}
        self._empty_rows = [row for row, label in enumerate(names) if label is None]  # a heap
        self._row_of_number: Rows = np.empty(0, np.intp)  # the same for small numbers; -1: look above
        self._table: LabelTable | None = None  # of the labels as they are now, once somebody asked
        self._note_numbers([*self._row_of], [*self._row_of.values()])

    def __len__(self) -> int:
        return len(self._row_of)

    def __contains__(self, label: Label) -> bool:
        return label in self._row_of

    @property
    def n_rows(self) -> int:
        """Rows given so far, the empty ones included."""
        return self._n_rows

    def table(self) -> LabelTable:
        """All labels as they are now, for keeps."""
        if self._table is None:
            names = self._names[: self._n_rows]
            names.flags.writeable = False
            self._table = LabelTable(names, np.int64 if self._kind() is int else str)
        return self._table

    def name(self, row: int) -> Label:
        """Label of a row that has one."""
        label: Label = self._names[row]
        return label

    def check_kind(self, *lists: Sequence[Label]) -> None:
        """Refuse str beside int, in the table or in the lists; each list is of one kind."""
        kind = self._kind()
        for labels in lists:
            if labels and kind is not None and not isinstance(labels[0], kind):
                came = "int" if kind is str else "str"
                raise ValueError(f"Got {came} labels beside {kind.__name__} ones. Use one type throughout.")
            kind = kind or _kind_of(labels)

    def rows(self, labels: Sequence[Label]) -> Rows:
        """Rows of known `labels`; an unknown one is an error that names it."""
        self.check_kind(labels)
        try:
            return np.array([self._row_of[label] for label in labels], dtype=np.intp)
        except KeyError as missing:
            raise UnknownClassError(f"Unknown class {missing.args[0]!r}: it has not been learned.") from None

    def rows_if_known(self, labels: Sequence[Label]) -> Rows | None:
        """Rows of `labels`, or None where one of them is new."""
        if len(labels) > FEW and len(self._row_of_number) and isinstance(labels[0], int):
            numbers = np.array(labels, np.int64)
            if numbers.min() >= 0 and numbers.max() < len(self._row_of_number):
                rows: Rows = self._row_of_number.take(numbers)
                if rows.min() >= 0:
                    return rows
        try:
            return np.fromiter(map(self._row_of.__getitem__, labels), np.intp, len(labels))
        except KeyError:
            return None

    def add(self, labels: Sequence[Label]) -> Rows:
        """Rows of `labels`, giving one to each newcomer (in sorted order)."""
        self.check_kind(labels)
        self.give_rows(self.newcomers(labels))
        return self.rows(labels)

    def newcomers(self, *lists: Sequence[Label]) -> list[Label]:
        """Which of these labels have no row: those of each list sorted, none twice.

        They are refused here where they cannot be labels.
        """
        found: list[Label] = []
        for labels in filter(None, lists):
            found += sorted(set(labels).difference(self._row_of, found))
        check_lengths(found)
        return found

    def n_rows_with(self, n_newcomers: int) -> int:
        """Rows there will be once so many labels are added."""
        return self._n_rows + max(n_newcomers - len(self._empty_rows), 0)

    def give_rows(self, newcomers: Sequence[Label]) -> list[int]:
        """A row for each of these labels, none of which has one: empty rows first."""
        n_rows, rows = self.n_rows_with(len(newcomers)), []
        if n_rows > len(self._names):
            self._names = np.concatenate([self._names, np.empty(n_rows, dtype=object)])
        if self._empty_rows:
            self._names = self._names.copy()  # a table given out earlier keeps what it has
            rows = [heapq.heappop(self._empty_rows) for _ in newcomers[: len(self._empty_rows)]]
        rows += range(self._n_rows, n_rows)
        for label, row in zip(newcomers, rows, strict=True):
            self._names[row] = label
            self._row_of[label] = row
        self._n_rows, self._table = n_rows, None
        self._note_numbers(newcomers, rows)
        return rows

    def remove(self, label: Label) -> int:
        """Take `label` out and return the row it had."""
        (row,) = self.rows([label])
        del self._row_of[label]
        self._note_numbers([label], [-1])
        heapq.heappush(self._empty_rows, int(row))
        self._overwrite(row, None)
        return int(row)

    def rename(self, old: Label, new: Label) -> int:
        """Give the row of `old` to `new` and return it."""
        self.check_kind([new])
        check_lengths([new])
        (row,) = self.rows([old])
        if new in self._row_of:
            raise ValueError(f"Class {new!r} exists already. Use merge_classes to join two classes.")
        del self._row_of[old]
        self._row_of[new] = int(row)
        self._note_numbers([old, new], [-1, int(row)])
        self._overwrite(row, new)
        return int(row)

    def _kind(self) -> type | None:
        return _kind_of(self._row_of)

    def _note_numbers(self, labels: Sequence[Label], rows: Sequence[int]) -> None:
        """Keep the table of small numbers: a large batch finds its rows there, in one step."""
        most = SPARSE * (self._n_rows + FEW)  # which never shrinks: what was noted can be noted anew
        for label, row in zip(labels, rows, strict=True):
            if isinstance(label, str) or not 0 <= label < most:
                continue
            if label >= len(self._row_of_number):
                more = np.full(label + 1, -1, np.intp)
                self._row_of_number = np.concatenate([self._row_of_number, more])
            self._row_of_number[label] = row

    def _overwrite(self, row: int, label: Label | None) -> None:
        self._names = self._names.copy()  # a table given out earlier keeps the old name
        self._names[row] = label
        self._table = None
