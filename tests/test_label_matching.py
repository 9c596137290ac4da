"""Labels mean known classes: by their ends, and in doubt by nobody's guess."""

from __future__ import annotations

import unicodedata

import pytest

from xlda.errors import BadSampleError, DoubtfulLabelError, UnknownClassError
from xlda.label_matching import (
    KnownLabels,
    LabelResolver,
    look_alikes,
    loosely,
    search_labels,
)

SHOP = ["Fruit/Kiwi", "Fruit/Lime", "Juice/Lime", "pear", "Caf\u00e9", "big box/front"]


@pytest.mark.parametrize(
    ("given", "means"),
    [
        ("pear", "pear"),
        ("Kiwi", "Fruit/Kiwi"),
        ("Fruit/Kiwi", "Fruit/Kiwi"),
        ("Fruit/pear", "pear"),
        ("val/Fruit/Lime", "Fruit/Lime"),
        ("front", "big box/front"),
    ],
)
def test_the_end_of_one_known_label_means_it(given, means):
    assert LabelResolver(SHOP).resolve([given]) == [means]


@pytest.mark.parametrize(
    ("given", "alike"),
    [
        ("Lime", ("Fruit/Lime", "Juice/Lime")),
        ("Pear", ("pear",)),
        ("kiwi", ("Fruit/Kiwi",)),
        ("fruit/kiwi", ("Fruit/Kiwi",)),
        ("big_box/front", ("big box/front",)),
        ("bigbox/Front", ("big box/front",)),
        (unicodedata.normalize("NFD", "Caf\u00e9"), ("Caf\u00e9",)),
        (" pear ", ("pear",)),
    ],
)
def test_what_is_alike_is_in_doubt(given, alike):
    with pytest.raises(DoubtfulLabelError) as error:
        LabelResolver(SHOP).resolve([given])
    assert error.value.alike == alike
    assert repr(alike[0]) in str(error.value)


@pytest.mark.parametrize("given", ["iwi", "Fruit", "Juice/Kiwi", "pears", "bag/front", "Cafe"])
def test_what_is_only_near_is_new(given):
    assert KnownLabels(SHOP).match(given) == (given, "new", ())


def test_a_doubt_is_decided_once():
    asked = []

    def decide(label, alike):
        asked.append(label)
        return alike[0] if label == "Pear" else label

    resolver = LabelResolver(SHOP, decide)
    assert resolver.resolve(["Pear", "kiwi", "Pear"]) == ["pear", "kiwi", "pear"]
    assert resolver.resolve(["kiwi", "Pear"]) == ["kiwi", "pear"]
    assert asked == ["Pear", "kiwi"]
    assert resolver.meant == {"Pear": "pear"}


@pytest.mark.parametrize("given", [["Fruit/pear", "Juice/pear"], ["pear", "Fruit/pear"], ["New", "new"]])
def test_two_labels_of_one_call_never_become_one_unasked(given):
    with pytest.raises(DoubtfulLabelError, match=given[1]):
        LabelResolver(SHOP).resolve(given)
    with pytest.raises(DoubtfulLabelError):
        LabelResolver(SHOP).resolve(given[::-1])
    for order in (given, given[::-1]):
        resolver = LabelResolver(SHOP)
        resolver.resolve(order[:1])
        with pytest.raises(DoubtfulLabelError):
            resolver.resolve(order[1:])


def test_whole_numbers_stay_numbers():
    resolver = LabelResolver([3, 7])
    assert resolver.resolve(["3", 7, "test/7", "11"]) == [3, 7, 7, 11]
    with pytest.raises(BadSampleError, match="whole numbers"):
        resolver.resolve(["seven"])
    assert LabelResolver(["3", "7"]).resolve([3, 8]) == ["3", "8"]
    assert LabelResolver([]).resolve([3, 8]) == [3, 8]


def test_a_class_that_is_asked_for_by_name_is_there_or_its_neighbours_are_named():
    known = KnownLabels(SHOP)
    assert known.require("pear") == "pear"
    for typed, named in [
        ("paer", "pear"),
        ("Kiwi", "Fruit/Kiwi"),
        ("PEAR", "pear"),
        ("fruit/limes", "Fruit/Lime"),
    ]:
        with pytest.raises(UnknownClassError, match=f"There is no class '{typed}'. Is it '{named}'"):
            known.require(typed)
    with pytest.raises(UnknownClassError, match=r"'quince'\.$"):
        known.require("quince")
    assert KnownLabels([3, 7]).require("7") == 7
    for typed in ("8", "seven"):
        with pytest.raises(UnknownClassError, match=typed):
            KnownLabels([3, 7]).require(typed)


def test_where_nothing_new_is_wanted_the_nearest_is_named():
    resolver = LabelResolver(SHOP, new_ok=False)
    assert resolver.resolve(["Kiwi", "pear"]) == ["Fruit/Kiwi", "pear"]
    for typed in ("Pear", "paer"):
        with pytest.raises(UnknownClassError, match="Is it 'pear'"):
            resolver.resolve([typed])


def test_separators_between_digits_count():
    assert loosely("item-1-12") != loosely("item-11-2")
    assert loosely("item_1 12") == loosely("Item-1-12")
    assert look_alikes(["1-12", "11-2", "a b", "A_b", "c"]) == [["a b", "A_b"]]
    assert look_alikes([1, 2, 11]) == []


def test_search_finds_beginnings_of_words_first():
    labels = ["Pumpkin", "Fruit/Kiwi", "\u00c4pfel", "kiosk", "apfelsaft", "Rotapfel", "gold-kiwi"]
    assert search_labels(labels, "ki") == ["Fruit/Kiwi", "gold-kiwi", "kiosk", "Pumpkin"]
    assert search_labels(labels, "APFEL") == ["\u00c4pfel", "apfelsaft", "Rotapfel"]
    assert search_labels(labels, "") == sorted(labels, key=lambda label: label.lower().replace("\u00e4", "a"))
    assert search_labels([12, 7, 71], "7") == [7, 71]
    assert search_labels(labels, "quince") == []
