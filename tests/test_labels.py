from __future__ import annotations

import enum

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import DataConversionWarning

from xlda import XLDA
from xlda.labels import Labels, label_list


class Fruit(str, enum.Enum):  # noqa: UP042 - what people still write; its str() is "Fruit.PEAR"
    PEAR = "pear"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["b", "a"], ["b", "a"]),
        (("b", np.str_("a")), ["b", "a"]),
        (np.array(["b", "a"]), ["b", "a"]),
        (np.array(["b", "a"], dtype=object), ["b", "a"]),
        (pd.Series(["b", "a"]), ["b", "a"]),
        (pd.Series(["b", "a"], dtype="category"), ["b", "a"]),
        ([2, np.int64(1)], [2, 1]),
        (np.array([2, 1], dtype=np.uint8), [2, 1]),
        (np.array([2, 1], dtype=object), [2, 1]),
        (np.array([2.0, 1.0]), [2, 1]),
        (np.array([True, False]), [1, 0]),
        ([], []),
        ([Fruit.PEAR], ["pear"]),
    ],
)
def test_str_and_int_of_every_kind_become_plain_ones(values, expected):
    labels = label_list(values)
    assert labels == expected
    assert {type(label) for label in labels} <= {type(label) for label in expected}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", 1], "mixes int and str"),
        (np.array(["a", 1], dtype=object), "mixes int and str"),
        ([1, None], "NoneType and int"),
        ([0.5, 1.0], "holds float"),
        ([np.nan, 1.0], "holds float"),
        ([b"a"], "holds bytes"),
        (["a", "a\0"], "end in NUL"),
        (np.array(["2020"], "datetime64[ns]"), "datetime64"),
        ([2**70], "64 bits"),
        ([-(2**70)], "64 bits"),
        (np.array([1e30]), "64 bits"),
        (np.array([2**63], dtype=np.uint64), "64 bits"),
        (None, "requires y to be passed"),
        ([["a", "b"], ["c", "d"]], "1d array"),
    ],
)
def test_anything_else_is_refused_by_name(values, message):
    with pytest.raises(ValueError, match=message):
        label_list(values)


def test_a_row_once_given_never_moves():
    labels = Labels()
    first = labels.add(["m", "z"])
    labels.add(["a", "b"])
    labels.remove("a")
    labels.rename("b", "y")
    labels.add([f"new {i}" for i in range(100)])
    assert labels.rows(["m", "z"]).tolist() == first.tolist() == [0, 1]
    assert labels.rows(["y"]).tolist() == [3]


def test_newcomers_of_one_call_are_sorted_and_calls_are_not():
    labels = Labels()
    labels.add([3, 1, 3])
    labels.add([2, 1])
    assert labels.table().names.tolist() == [1, 3, 2]
    assert labels.table().sorted().tolist() == [1, 2, 3]
    assert labels.table().sorted_rows.tolist() == [0, 2, 1]


def test_the_row_of_a_removed_label_is_used_again():
    labels = Labels(["a", "b", "c"])
    assert labels.remove("b") == 1
    assert "b" not in labels
    assert labels.table().sorted_rows.tolist() == [0, 2]
    assert labels.newcomers(["y", "x", "x"], ["a", "w"]) == ["x", "y", "w"]
    assert labels.n_rows_with(1) == 3
    assert labels.n_rows_with(2) == 4
    assert labels.add(["x", "y"]).tolist() == [1, 3]
    assert labels.n_rows == 4


def test_a_snapshot_of_the_names_outlives_changes():
    labels = Labels(["a", "b"])
    snapshot = labels.table()
    labels.rename("a", "z")
    labels.remove("b")
    labels.add(["c", "d"])
    assert snapshot.names.tolist() == ["a", "b"]
    assert snapshot.sorted().tolist() == ["a", "b"]
    assert labels.table().names.tolist() == ["z", "c", "d"]


def test_str_beside_int_is_refused_and_changes_nothing():
    labels = Labels(["a"])
    for call in (labels.add, labels.rows, labels.check_kind):
        with pytest.raises(ValueError, match="Got int labels beside str ones"):
            call([1])
    with pytest.raises(ValueError, match="Got str labels beside int ones"):
        Labels().check_kind([1], ["a"])
    assert labels.table().names.tolist() == ["a"]


def test_a_column_of_labels_is_flattened_with_a_warning():
    for column in ([["a"], ["b"]], np.array([["a"], ["b"]])):
        with pytest.warns(DataConversionWarning):
            assert label_list(column) == ["a", "b"]


def test_the_lowest_empty_row_is_taken_first():
    labels = Labels(["a", "b", "c", "d"])
    for label in ("d", "a", "c"):
        labels.remove(label)
    assert labels.add(["x", "y", "z"]).tolist() == [0, 2, 3]
    known = Labels(["a", None, "c", None])
    assert known.table().sorted_rows.tolist() == [0, 2]
    assert known.add(["x", "y", "z"]).tolist() == [1, 3, 4]


def test_unknown_and_taken_labels_are_named():
    labels = Labels(["a", "b"])
    with pytest.raises(ValueError, match="Unknown class 'q'"):
        labels.rows(["a", "q"])
    with pytest.raises(ValueError, match="Class 'b' exists already"):
        labels.rename("a", "b")
    assert labels.table().names.tolist() == ["a", "b"]


def test_names_are_read_only_and_blank_where_removed():
    labels = Labels(["a", "b", "c"])
    labels.remove("b")
    assert labels.table().names.tolist() == ["a", None, "c"]
    with pytest.raises(ValueError, match="read-only"):
        labels.table().names[0] = "x"


def test_rows_if_known_is_none_for_a_newcomer():
    labels = Labels(["a", "b"])
    assert labels.rows_if_known(["b", "a", "b"]).tolist() == [1, 0, 1]
    assert labels.rows_if_known(["b", "c"]) is None


@pytest.mark.parametrize("labels", [range(40), range(1000, 1040), range(-20, 20), [*range(39), 2**62]])
def test_many_numbers_find_the_same_rows_as_one_by_one(labels):
    labels = list(labels)
    table = Labels()
    table.add(labels[::2])
    assert table.rows_if_known(labels) is None
    table.add(labels)
    np.testing.assert_array_equal(table.rows_if_known(labels), [table.rows([label])[0] for label in labels])
    table.remove(labels[3])
    assert table.rows_if_known(labels) is None
    table.rename(labels[4], labels[3])
    others = labels[:4] + labels[5:]
    np.testing.assert_array_equal(table.rows_if_known(others), [table.rows([label])[0] for label in others])
    np.testing.assert_array_equal(Labels(table.table().names).rows_if_known(others), table.rows(others))
    assert table.rows_if_known(labels) is None


def test_a_label_as_long_as_a_book_is_refused_and_changes_nothing():
    clf = XLDA().fit(np.eye(2), ["a", "b"])
    book = "x" * 100_000
    for call in (
        lambda: clf.partial_fit(np.eye(2), ["c", book]),
        lambda: clf.partial_fit(np.eye(2), ["a", "b"], classes=["d", book]),
        lambda: clf.rename_class("a", book),
        lambda: XLDA().fit(np.eye(2), ["a", book]),
    ):
        with pytest.raises(ValueError, match="A label has 100,000 characters, of which 1,000 are allowed"):
            call()
    assert clf.classes_.tolist() == ["a", "b"]
    assert clf.partial_fit(np.eye(2), ["c", "y" * 1000]).classes_.nbytes < 20_000


def test_any_changes_leave_what_a_dictionary_would_have(rng):
    """Newcomers by ones and by hundreds, in rows that were given up too; tables stay as they were."""
    labels, row_of, n_rows, empty, tables = Labels(), {}, 0, [], []
    for step in range(60):
        newcomers = sorted(set(rng.integers(-50, 3000, 300 if step % 10 == 0 else 2).tolist()) - set(row_of))
        for label in newcomers:
            row_of[label] = empty.pop(0) if empty else n_rows
            n_rows += row_of[label] == n_rows
        labels.add(newcomers)
        for label in rng.choice(sorted(row_of), len(row_of) // 10, replace=False).tolist():
            empty = sorted([*empty, row_of.pop(label)])
            labels.remove(label)
        if row_of:
            old, new = next(iter(row_of)), 5000 + step
            row_of[new] = row_of.pop(old)
            labels.rename(old, new)
        names = [None] * n_rows
        for label, row in row_of.items():
            names[row] = label
        tables.append((labels.table(), names))
        known = [*row_of]
        assert labels.rows_if_known(known).tolist() == [row_of[label] for label in known]
        assert labels.n_rows == n_rows
    for table, names in tables:
        assert table.names.tolist() == names


def test_ten_thousand_newcomers_into_rows_that_were_given_up_take_one_copy_of_the_names(monkeypatch):
    labels = Labels(range(10_000))
    for label in range(0, 10_000, 2):
        labels.remove(label)
    n_copies, overwrite = 0, Labels._overwrite

    def counted(self, *args):
        nonlocal n_copies
        n_copies += 1
        overwrite(self, *args)

    monkeypatch.setattr(Labels, "_overwrite", counted)
    assert labels.add([*range(20_000, 25_000)]).tolist() == [*range(0, 10_000, 2)]
    assert n_copies <= 1
