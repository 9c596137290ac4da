from __future__ import annotations

import copy
import hashlib
import json
import pickle

import pytest

from xlda.errors import OtherBackboneError
from xlda.identity import BackboneIdentity

SETTINGS = {"size": 8, "mean": [0.5, 0.5, 0.5]}


def tiny(**changes):
    return BackboneIdentity.of(**{
        "name": "tiny", "network": "0a False", "preprocessing": SETTINGS, "width": 6, **changes,
    })  # fmt: skip


def test_it_is_the_hash_of_before_while_the_preprocessing_is_the_first():
    before = hashlib.sha256(json.dumps(["0a False", SETTINGS], sort_keys=True).encode()).hexdigest()
    assert tiny().identity == before
    assert tiny(preprocessing_version=2).identity != before
    assert tiny().network == tiny(preprocessing={}).network == hashlib.sha256(b"0a False").hexdigest()


def test_json_and_back():
    one = tiny(cut_head=True, preprocessing_version=3)
    assert BackboneIdentity.from_json(json.loads(json.dumps(one.to_json()))) == one
    assert BackboneIdentity.from_json(one) is one
    assert BackboneIdentity.from_json(None) is None


def test_what_version_0_1_wrote():
    old = {"name": "tiny", "identity": tiny().identity, "preprocessing": SETTINGS, "cut_head": False}
    found = BackboneIdentity.from_json(old)
    assert found.is_same(tiny())
    assert (found.network, found.width, found.preprocessing_version) == (None, None, 1)
    tiny().check_same(found, "shop.xlda")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([], "at least its name; got"),
        ({}, "at least its name; got"),
        ("tiny", "at least its name; got 'tiny'"),
        ({"name": 3}, "name=3"),
        ({"name": ""}, "name=''"),
        ({"name": "a", "identity": 5}, "identity=5"),
        ({"name": "a", "network": ["x"]}, "network="),
        ({"name": "a", "preprocessing": None}, "preprocessing=None"),
        ({"name": "a", "preprocessing": {1: 2}}, "preprocessing="),
        ({"name": "a", "preprocessing_version": True}, "preprocessing_version=True"),
        ({"name": "a", "preprocessing_version": 0}, "preprocessing_version=0"),
        ({"name": "a", "width": 1.5}, "width=1.5"),
        ({"name": "a", "width": -1}, "width=-1"),
        ({"name": "a", "cut_head": 1}, "cut_head=1"),
    ],
)
def test_what_is_no_description_is_refused(values, said):
    with pytest.raises(ValueError, match=said):
        BackboneIdentity.from_json(values)


def test_it_is_a_value():
    settings = dict(SETTINGS)
    one = tiny(preprocessing=settings)
    settings["size"] = 9
    assert one == tiny()
    assert len({one, tiny(), tiny(name="other")}) == 2
    assert copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"name": "large", "network": "0b"}, r"tiny; got embeddings of large\.$"),
        ({"network": "0b"}, r"tiny; got embeddings of another network of the name tiny\.$"),
        (
            {"preprocessing": {**SETTINGS, "size": 9}},
            r"tiny \(size 8\); got embeddings of tiny \(size 9\)\.$",
        ),
        (
            {"preprocessing_version": 2},
            r"tiny \(preprocessing version 1\); got embeddings of tiny \(preprocessing version 2\)\.$",
        ),
        ({"preprocessing": {}}, r"tiny \(size 8, mean .*\); got embeddings of tiny\.$"),
    ],
)
def test_another_backbone_is_told_by_what_is_different(other, said):
    with pytest.raises(OtherBackboneError, match=rf"^shop\.xlda was made with the backbone {said}"):
        tiny().check_same(tiny(**other), "shop.xlda")


def test_what_is_not_known_is_let_pass():
    tiny().check_same(None, "shop.xlda")
    tiny().check_same(BackboneIdentity("tiny"), "shop.xlda")
    BackboneIdentity("tiny").check_same(tiny(), "shop.xlda")
    assert not BackboneIdentity("tiny").is_same(BackboneIdentity("tiny"))
