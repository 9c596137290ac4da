"""Contributions: what they add up to, what is refused, and what a hub keeps."""

from __future__ import annotations

import numpy as np
import pytest

from xlda import XLDA
from xlda.errors import (
    DamagedFileError,
    OtherBackboneError,
    OtherVersionError,
    RefusedContributionError,
    UnknownClassError,
)
from xlda.fleet import (
    Box,
    FleetHub,
    Message,
    Register,
    Registers,
    SignedSamples,
    Space,
    Sums,
    Version,
    classes_of,
    start_of,
)
from xlda.fleet.checks import check_message, check_sums
from xlda.fleet.registers import GONE, LABEL, PARENT
from xlda.identity import BackboneIdentity

SPACE = Space(3)
RNG = np.random.default_rng(0)


def sums(n, ids=("a", "b"), offset=0.0):
    names = [ids[number % len(ids)] for number in range(n)]
    taught = Sums(SPACE)
    embeddings = RNG.normal(size=(n, 3)) + offset
    taught.add(SignedSamples.of(embeddings, names, {name: name for name in ids}))
    return taught, embeddings.astype(np.float32), names


def whole(taught, box="bern", seq=1):
    return Message(SPACE, None, {box: Version(1, seq, "m")}, taught)


# -- sums


def test_what_is_added_and_taken_away_again_leaves_what_was():
    one, x, _ = sums(20, offset=100.0)
    two, _, _ = sums(7, ids=("b", "c"), offset=100.0)
    one.merge(two)
    assert one.counts == {"a": 10, "b": 14, "c": 3}
    one.take_away(two)
    assert one.counts == {"a": 10, "b": 10}
    np.testing.assert_allclose(one.block("a")[1], x[::2].mean(0, np.float64), atol=1e-4)
    within = [x[start::2].astype(np.float64) for start in (0, 1)]
    wanted = sum((block - block.mean(0)).T @ (block - block.mean(0)) for block in within)
    np.testing.assert_allclose(one.moments.scatter, wanted, atol=1e-2)


def test_no_more_is_taken_away_than_there_is():
    one, two = sums(4)[0], sums(8)[0]
    with pytest.raises(RefusedContributionError, match="class a are taken away"):
        one.take_away(two)
    assert one.counts == {"a": 2, "b": 2}


# -- registers


def test_the_last_word_counts_in_whatever_order_it_comes():
    said = [
        Register("a", LABEL, "one", 1, "bern"),
        Register("a", LABEL, "two", 2, "basel"),
        Register("a", LABEL, "three", 2, "bern"),
    ]
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0, 0, 1)):
        assert Registers(said[place] for place in order).value("a", LABEL) == "three"


def test_merges_that_go_round_are_one_class_and_equal_labels_too():
    said = Registers([Register("a", PARENT, "b", 1, "x"), Register("b", PARENT, "a", 1, "y")])
    classes = classes_of({"a": "kiwi", "b": "pear", "c": "kiwi"}, said)
    assert {one.id for one in classes.values()} == {"a"}
    said.write(Register("a", GONE, True, 2, "x"))
    assert classes_of({"a": "kiwi", "b": "pear", "c": "kiwi"}, said)["c"].id == "c"


def test_what_is_taught_after_a_removal_is_another_class():
    box = Box("bern", SPACE)
    [before] = box.learn([[1.0, 0, 0]], ["kiwi"])
    box.remove("kiwi")
    [after] = box.learn([[0, 1.0, 0]], ["kiwi"])
    assert before != after
    assert box.model().class_count_.tolist() == [1.0]


# -- what is refused


def tampered(change):
    taught, _, _ = sums(10)
    change(taught.moments)
    return taught


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda moments: moments.update([[1.0, 2, 3]], [0], weights=[0.5]), "no whole number"),
        (lambda moments: moments._counts.__setitem__(0, 9.0), "differ"),
        (lambda moments: moments._clear(0) or moments._offsets.__setitem__(0, 1.0), "differ|no samples"),
        (lambda moments: moments._offsets.__setitem__(0, 1e6), "beyond"),
        (lambda moments: moments._scatter.replace(-np.eye(3)), "less than nothing"),
        (lambda moments: moments._scatter.replace(1e12 * np.eye(3)), "larger"),
    ],
)
def test_sums_that_no_samples_give_are_refused(change, why):
    with pytest.raises(RefusedContributionError, match=why):
        check_sums(tampered(change))


def test_a_scatter_needs_samples_for_its_directions():
    taught = Sums(SPACE)
    taught.add(SignedSamples.of(RNG.normal(size=(3, 3)), ["a", "a", "b"], {"a": "a", "b": "b"}))
    check_sums(taught)
    taught.moments._scatter.replace(10 * np.eye(3))
    with pytest.raises(RefusedContributionError, match="more directions"):
        check_sums(taught)
    lonely = Sums(SPACE)
    lonely.add(SignedSamples.of(RNG.normal(size=(2, 3)), ["a", "b"], {"a": "a", "b": "b"}))
    lonely.moments._scatter.replace(10 * np.eye(3))
    with pytest.raises(RefusedContributionError, match="no class with two samples"):
        check_sums(lonely)


def test_a_box_speaks_for_itself_alone():
    said = Registers([Register("a", LABEL, "kiwi", 1, "basel")])
    with pytest.raises(RefusedContributionError, match="basel"):
        check_message(Message(SPACE, {}, {"bern": Version(1, 1)}, registers=said), "bern")


def test_taking_away_what_was_never_there_is_refused_and_changes_nothing(tmp_path):
    hub = FleetHub(tmp_path)
    taught, _, _ = sums(10)
    hub.put(whole(taught))
    wrong = SignedSamples.of([[500.0, 0, 0]], ["a"], {"a": "a"}, sign=-1)
    bad = Message(SPACE, {"bern": Version(1, 1, "m")}, {"bern": Version(1, 2, "n")}, samples=wrong)
    with pytest.raises(RefusedContributionError, match="less than nothing"):
        hub.put(bad)
    assert hub.version("bern") == Version(1, 1, "m")
    assert hub.total(SPACE).taught.counts == {"a": 5, "b": 5}


def test_another_space_is_refused(tmp_path):
    hub = FleetHub(tmp_path)
    one, two = (Space(3, backbone=BackboneIdentity(name, identity=name)) for name in ("lite0", "lite4"))
    hub.put(Message(one, None, {"bern": Version(1, 1)}, Sums(one)))
    with pytest.raises(OtherBackboneError, match=r"lite0.*lite4"):
        hub.put(Message(two, None, {"basel": Version(1, 1)}, Sums(two)))
    with pytest.raises(OtherBackboneError, match="3 numbers"):
        hub.put(Message(Space(4), None, {"basel": Version(1, 1)}, Sums(Space(4))))


def test_a_file_with_another_number_in_it_is_damaged(tmp_path):
    whole(sums(4)[0]).write(tmp_path / "message")
    content = bytearray((tmp_path / "message").read_bytes())
    content[-5] ^= 1
    (tmp_path / "message").write_bytes(content)
    with pytest.raises(DamagedFileError, match="checksum"):
        Message.read(tmp_path / "message")


# -- the hub


def test_a_message_from_elsewhere_is_told_where_to_start(tmp_path):
    hub = FleetHub(tmp_path)
    hub.put(whole(sums(4)[0], seq=3))
    ahead = Message(SPACE, {"bern": Version(1, 5, "x")}, {"bern": Version(1, 6, "y")})
    with pytest.raises(OtherVersionError) as refused:
        hub.put(ahead)
    assert refused.value.version == Version(1, 3, "m")
    assert hub.put(whole(sums(4)[0], seq=2)) == Version(1, 3, "m")


def test_a_box_has_one_owner_and_a_forgotten_one_does_not_come_back(tmp_path):
    hub = FleetHub(tmp_path)
    hub.put(whole(sums(4)[0]), "token-1")
    with pytest.raises(RefusedContributionError, match="another token"):
        hub.put(whole(sums(4)[0], seq=2), "token-2")
    hub.forget("bern")
    with pytest.raises(RefusedContributionError, match="forgotten"):
        hub.put(whole(sums(4)[0], seq=2), "token-1")
    assert hub.versions() == {}


def test_many_changes_are_written_anew_and_another_process_reads_the_same(tmp_path):
    hub, box = FleetHub(tmp_path), Box("bern", SPACE)
    x = RNG.normal(size=(40, 3)).astype(np.float32)
    for start in range(0, 40, 2):
        box.learn(x[start : start + 2], ["kiwi", "pear"])
        box.sync(hub)
    other = FleetHub(tmp_path)
    taught = other.total(SPACE).taught
    assert sorted(taught.counts.values()) == [20, 20]
    np.testing.assert_allclose(taught.moments.means[0], x[::2].mean(0), atol=1e-5)
    assert len(list((tmp_path / "boxes" / "bern").iterdir())) < 20


def test_more_samples_than_go_one_by_one_go_as_sums(tmp_path):
    hub, one, two = FleetHub(tmp_path), Box("bern", SPACE), Box("basel", SPACE)
    x = RNG.normal(size=(5000, 3)).astype(np.float32)
    ids = one.learn(x, ["kiwi", "pear"] * 2500)
    message = one.publish()
    assert message.samples is None
    assert message.added.n_samples == 5000
    for box in (one, two):
        box.sync(hub)
    np.testing.assert_allclose(two.model().means_[0], x[::2].mean(0, np.float64), atol=1e-5)
    one.forget(x[:4998], ids[:4998])
    for box in (one, two):
        box.sync(hub)
    assert two.model().class_count_.tolist() == [1.0, 1.0]
    np.testing.assert_allclose(two.model().means_, x[4998:], atol=1e-4)


def test_few_samples_stay_at_home_and_others_leave_as_sums(tmp_path):
    hub, one, two = FleetHub(tmp_path), Box("bern", SPACE, min_count=3), Box("basel", SPACE)
    one.learn(RNG.normal(size=(5, 3)), ["kiwi", "kiwi", "kiwi", "pear", "pear"])
    one.sync(hub)
    two.sync(hub)
    model = two.model()
    assert dict(zip(model.classes_.tolist(), model.class_count_.tolist(), strict=True))["kiwi"] == 3.0
    assert model.class_count_.sum() == 3.0
    assert one.model().class_count_.tolist() == [3.0, 2.0]


def test_a_start_that_two_boxes_bring_counts_once(tmp_path):
    hub = FleetHub(tmp_path)
    model = XLDA(power=None).partial_fit(RNG.normal(size=(6, 3)).astype(np.float32), ["kiwi", "pear"] * 3)
    for _ in range(2):
        hub.put(start_of(model, "d1").whole())
    box = Box("bern", SPACE)
    box.sync(hub)
    assert box.model().class_count_.tolist() == [3.0, 3.0]
    np.testing.assert_allclose(box.model().covariance_, model.covariance_, atol=1e-6)


@pytest.mark.parametrize(("params", "why"), [({"rule": "slda"}, "rule='exact'"), ({"lift": 8}, "has a lift")])
def test_what_does_not_add_up_is_refused(params, why):
    clf = XLDA(**params).fit([[0.0, 1.0], [1.0, 0.0], [3.0, 3.0], [2.0, 3.0]], ["a", "a", "b", "b"])
    with pytest.raises(ValueError, match=why):
        start_of(clf, "d1")


def late_box(hub, name="late"):
    box = Box(name, SPACE)
    box.sync(hub)
    return box


def test_a_box_that_comes_late_gets_changes_that_follow_each_other(tmp_path):
    hub, space = FleetHub(tmp_path), Space(300)  # so wide that one sample is less than all there is
    box = Box("bern", space)
    for number in range(3):
        box.learn(RNG.normal(size=(2, 300)), ["kiwi", f"fig {number}"])
        box.sync(hub)
    late = Box("late", space)
    late.sync(hub)
    late.learn(RNG.normal(size=(1, 300)), ["kiwi"])
    for one in (late, box, late):
        one.sync(hub)
    for one in (late, box):
        model = one.model()
        counts = dict(zip(model.classes_.tolist(), model.class_count_.tolist(), strict=True))
        assert counts == {"kiwi": 4.0, "fig 0": 1.0, "fig 1": 1.0, "fig 2": 1.0}


def test_labels_of_a_fleet_are_of_one_kind(tmp_path):
    hub, texts, numbers = FleetHub(tmp_path), Box("texts", SPACE), Box("numbers", SPACE)
    texts.learn(RNG.normal(size=(2, 3)), ["1", "2"])
    numbers.learn(RNG.normal(size=(2, 3)), np.array([1, 2]))
    texts.sync(hub)
    with pytest.raises(RefusedContributionError, match="labels of this fleet are texts; got whole numbers"):
        numbers.sync(hub)
    with pytest.raises(ValueError, match="all texts, or all whole numbers"):
        texts.learn(RNG.normal(size=(1, 3)), [3])
    assert late_box(hub).model().classes_.tolist() == ["1", "2"]


@pytest.mark.parametrize("label", ["", " ", "a\nb", "x\0y", "\ud800", "x" * 1001])
def test_what_is_no_label_reaches_no_hub(label, tmp_path):
    hub, box = FleetHub(tmp_path), Box("bern", SPACE)
    with pytest.raises(ValueError, match="label"):
        box.learn(RNG.normal(size=(1, 3)), [label])
    box.learn(RNG.normal(size=(1, 3)), ["kiwi"])
    with pytest.raises(ValueError, match="label"):
        box.rename("kiwi", label)
    assert {one.label for one in box.classes().values()} == {"kiwi"}
    taught = Sums(SPACE)
    taught.add(SignedSamples.of(RNG.normal(size=(1, 3)), ["a"], {"a": label}))
    with pytest.raises(RefusedContributionError, match="label"):
        hub.put(whole(taught))
    said = Registers([Register("a", LABEL, label, 1, "bern")])
    with pytest.raises(RefusedContributionError, match="label"):
        hub.put(Message(SPACE, None, {"bern": Version(1, 1)}, sums(4)[0], registers=said))


@pytest.mark.parametrize(
    ("embeddings", "labels", "why"),
    [
        (RNG.normal(size=(3, 3)), ["one"], "as many labels"),
        (RNG.normal(size=(1, 3)), ["a", "b"], "as many labels"),
        (RNG.normal(size=(1, 4)), ["a"], "embeddings of 3 numbers; got 4"),
        ([[np.nan, 0.0, 0.0]], ["a"], "NaN"),
        (RNG.normal(size=(2, 3)), ["a", 1], "mixes"),
        (RNG.normal(size=(1, 3)), [1.5], "label"),
        (RNG.normal(size=(1, 3)), [None], "label"),
    ],
)
def test_what_a_box_cannot_learn_changes_nothing(embeddings, labels, why, tmp_path):
    box = Box("bern", SPACE)
    with pytest.raises(ValueError, match=why):
        box.learn(embeddings, labels)
    assert not box.classes()
    box.learn(RNG.normal(size=(2, 3)), ["kiwi", "pear"])
    box.sync(FleetHub(tmp_path))
    assert late_box(FleetHub(tmp_path)).model().classes_.tolist() == ["kiwi", "pear"]


def test_only_classes_that_there_are_come_apart(tmp_path):
    box = Box("bern", SPACE)
    box.learn(RNG.normal(size=(1, 3)), ["kiwi"])
    with pytest.raises(UnknownClassError, match="no class with the id"):
        box.unmerge("n" * 100)
    with pytest.raises(UnknownClassError, match="no class with the id"):
        box.forget(RNG.normal(size=(1, 3)), ["n"])


def test_a_sample_that_waits_is_forgotten_where_it_is(tmp_path):
    hub, box = FleetHub(tmp_path), Box("bern", SPACE, min_count=3)
    first, more = RNG.normal(size=(3, 3)), RNG.normal(size=(2, 3))
    box.learn(first, ["kiwi"] * 3)
    box.sync(hub)
    ids = box.learn(more, ["kiwi"] * 2)
    box.forget(more[:1], ids[:1])
    box.sync(hub)
    assert late_box(hub).model().class_count_.tolist() == [3.0]
    assert box.model().class_count_.tolist() == [4.0]
    box.learn(RNG.normal(size=(2, 3)), ["kiwi"] * 2)
    box.sync(hub)
    assert late_box(hub, "later").model().class_count_.tolist() == [6.0]


@pytest.mark.parametrize("name", ["start-c", "Bern", ""])
def test_what_no_box_is_called(name):
    with pytest.raises(RefusedContributionError, match=r"box is called|A box has a name"):
        Box(name, SPACE)


def test_a_start_has_the_name_of_its_file(tmp_path):
    with pytest.raises(RefusedContributionError, match="no name of a common starting model"):
        FleetHub(tmp_path).put(whole(sums(4)[0], box="start-evil"))


def test_versions_that_no_box_can_have_are_refused(tmp_path):
    with pytest.raises(RefusedContributionError, match="further than any box"):
        FleetHub(tmp_path).put(Message(SPACE, None, {"bern": Version(10**10, 1)}, sums(4)[0]))


def test_a_list_of_forgotten_boxes_that_is_none_is_named(tmp_path):
    hub = FleetHub(tmp_path)
    hub.put(whole(sums(4)[0]))
    for text in ("{", "[]", '{"bern": -1}'):
        (tmp_path / "forgotten.json").write_text(text)
        with pytest.raises(DamagedFileError, match=r"forgotten\.json is damaged"):
            hub.answer("basel", {})


def test_a_box_whose_file_is_damaged_can_be_forgotten(tmp_path):
    hub, other = FleetHub(tmp_path), Box("basel", SPACE)
    hub.put(whole(sums(4)[0]))
    other.learn(RNG.normal(size=(2, 3)), ["kiwi", "pear"])
    other.sync(hub)
    [file] = (tmp_path / "boxes" / "bern").glob("*.whole")
    file.write_bytes(file.read_bytes()[:100])
    hub = FleetHub(tmp_path)
    hub.forget("bern")
    assert set(hub.versions()) == {"basel"}
    assert late_box(hub).model().classes_.tolist() == ["kiwi", "pear"]
