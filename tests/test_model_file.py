from __future__ import annotations

import copy
import json
import logging
import random
import subprocess
import sys
import tracemalloc
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import xlda
from xlda import XLDA, model_file, storage, upkeep
from xlda.errors import DamagedFileError, NewerFileError
from xlda.identity import BackboneIdentity
from xlda.search import LSH, Dense, Fisher
from xlda.search.codes import Codebook
from xlda.search.dense import DenseIndex
from xlda.search.tuning import N_QUERIES, SPARE

DATA = Path(__file__).parent / "data"
GOLDEN = sorted(DATA.glob("format-*.json"))


def contents(path):
    """Tensors and metadata, as the library of safetensors reads them."""
    with safe_open(path, framework="np") as file:
        return load_file(path), file.metadata()


def craft(path, tensors, metadata):
    """A file with the right checksum, whatever it holds: anyone can compute it."""
    metadata = {name: text for name, text in metadata.items() if name != "sha256"}
    tensors = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    save_file(tensors, path, {**metadata, "sha256": storage.digest(tensors, metadata)})


# -- files of every format so far


def asked(clf, queries):
    vars(clf).pop("feature_names_in_", None)  # queries come without names
    return clf.predict_topk(queries, 3)


@pytest.mark.parametrize("answers", GOLDEN, ids=lambda path: path.stem)
def test_golden_files_answer_as_they_did_learn_on_and_are_saved_anew(answers, tmp_path):
    expected = json.loads(answers.read_text())
    queries = np.array(expected["queries"], np.float32)
    clf = xlda.load(answers.with_suffix(".xlda"))
    with warnings.catch_warnings(action="error"):
        for again in range(2):
            labels, scores = asked(clf, queries)
            assert labels.tolist() == expected["labels"]
            np.testing.assert_allclose(scores, expected["scores"], rtol=1e-4, atol=1e-4)
            if not again:
                clf.save(tmp_path / "model.xlda")
                assert contents(tmp_path / "model.xlda")[1]["format_version"] == "3"
                clf = xlda.load(tmp_path / "model.xlda")
        new = 10**6 if labels.dtype.kind == "i" else "a new class"
        far = queries[:3] + 50
        clf.partial_fit(far, [new] * 3).forget(queries[:1] * 0 + far[2:], [new])
        assert clf.predict(far[:2]).tolist() == [new] * 2


def test_golden_files_of_all_formats_are_there():
    assert len(GOLDEN) == 6
    assert {path.stem.split("-")[1] for path in GOLDEN} == {"1", "2", "3"}


def test_what_is_special_of_the_golden_files_is_there():
    plain = xlda.load(DATA / "format-3-plain.xlda")
    assert plain.feature_names_in_.tolist() == list("abcdef")
    assert plain.backbone_ == BackboneIdentity("tiny", identity="a1", width=6)
    assert plain.batch_keys_ == ["monday", "tuesday"]
    assert sorted(plain.classes_) == ["fig", "kiwi", "lime", "pear", "plum", "苹果"]
    for name in ("format-1-half", "format-3-half-plan"):
        assert xlda.load(DATA / f"{name}.xlda").precision == "half"
    for name in ("format-1-plan", "format-3-half-plan"):
        clf = xlda.load(DATA / f"{name}.xlda")
        saved = clf._model.upkeep.plan_to_save()["fisher"]
        picked = picked_by(clf)
        assert picked["coordinates"] == tuple(saved["prefixes"])
        assert picked["candidates"] == tuple(saved["kept"])
    for name in ("format-2-layer", "format-3-layer"):
        assert xlda.load(DATA / f"{name}.xlda").memory()["imported layer"] > 0


@pytest.mark.parametrize("answers", GOLDEN, ids=lambda path: path.stem)
def test_a_model_that_was_saved_before_there_was_another_is_plain_lda(answers, tmp_path):
    clf = xlda.load(answers.with_suffix(".xlda"))
    assert clf.model == "lda"
    assert clf.power_ == clf.power != "auto"
    clf.save(tmp_path / "m.xlda")
    again = xlda.load(tmp_path / "m.xlda")
    assert (again.model, again.shrinkage, again.power) == ("lda", clf.shrinkage, clf.power)


def test_what_an_old_file_does_not_say_is_as_it_was_then(tmp_path):
    tensors, metadata = contents(DATA / "format-3-plain.xlda")
    sections = json.loads(metadata["sections"])
    assert sections["params"]["version"] == 1
    sections["params"]["info"] = {}
    craft(tmp_path / "m.xlda", tensors, {**metadata, "sections": json.dumps(sections)})
    clf = xlda.load(tmp_path / "m.xlda")
    assert (clf.model, clf.shrinkage, clf.power, clf.power_) == ("lda", 0.3, None, None)


SPREADS = {
    "not symmetric": np.arange(4.0).reshape(2, 2),
    "of another size": np.eye(3),
    "of another type": np.eye(2, dtype=np.float32),
    "no number": np.full((2, 2), np.nan),
}


@pytest.mark.parametrize("wrong", [*SPREADS, "size 0", "size nan", "share 2", "share missing"])
def test_a_kept_spread_that_cannot_be_is_refused(wrong, tmp_path):
    X = [[0.0, 1.0], [1.0, 3.0], [5.0, 5.0], [6.0, 4.0]]
    XLDA(covariance="fixed").fit(X, list("aabb")).save(tmp_path / "m.xlda")
    tensors, metadata = contents(tmp_path / "m.xlda")
    sections = json.loads(metadata["sections"])
    numbers = sections["moments"]["info"]
    if wrong in SPREADS:
        tensors["moments/spread"] = SPREADS[wrong]
    elif wrong == "share missing":
        del numbers["spread_share"]
    else:
        name, value = wrong.split()
        numbers[f"spread_{name}"] = float(value)
    craft(tmp_path / "m.xlda", tensors, {**metadata, "sections": json.dumps(sections)})
    refused(tmp_path / "m.xlda")


def picked_by(clf):
    clf.predict(np.zeros((1, clf.n_features_in_), np.float32))
    return clf.audit().picked


# -- parameters


def test_every_parameter_has_a_default_for_every_version():
    saved = {name: value for name, value in XLDA().get_params().items() if name != "background"}
    for defaults in model_file.DEFAULTS.values():
        assert set(defaults) == set(saved)
    assert set(model_file.DEFAULTS) == set(range(1, model_file.KNOWN["params"] + 1))
    newest = model_file.DEFAULTS[model_file.KNOWN["params"]]
    assert newest == saved  # else a new version is due


def without(path, *names, section="params"):
    """Take parameters out of a file."""
    tensors, metadata = contents(path)
    sections = json.loads(metadata["sections"])
    for name in names:
        del sections[section]["info"][name]
    craft(path, tensors, {**metadata, "sections": json.dumps(sections)})


def test_a_file_without_a_parameter_keeps_the_default_that_it_was_written_with(monkeypatch, tmp_path):
    class Newer(XLDA):
        def __init__(self, *, shrinkage=0.9, priors="empirical", bayes="full", **params):
            super().__init__(shrinkage=shrinkage, priors=priors, **params)
            self.bayes = bayes

        def get_params(self, deep=True):
            return {**{name: getattr(self, name) for name in XLDA().get_params()}, "bayes": self.bayes}

    now = {**model_file.DEFAULTS[1], "shrinkage": 0.9, "priors": "empirical", "bayes": "full"}
    then = {**model_file.DEFAULTS[1], "bayes": "off"}
    monkeypatch.setattr(model_file, "DEFAULTS", {1: then, 2: now})
    monkeypatch.setitem(model_file.KNOWN, "params", 2)
    clf = XLDA().fit([[0.0, 1.0], [1.0, 3.0], [5.0, 5.0]], ["a", "a", "b"])
    monkeypatch.setitem(model_file.KNOWN, "params", 1)
    clf.save(tmp_path / "old.xlda")
    without(tmp_path / "old.xlda", "shrinkage", "priors")
    monkeypatch.setitem(model_file.KNOWN, "params", 2)
    old = model_file.read(tmp_path / "old.xlda", Newer)
    assert (old.shrinkage, old.priors, old.bayes) == (0.3, "equal", "off")
    old.save(tmp_path / "saved.xlda")
    without(tmp_path / "saved.xlda", "shrinkage", "priors", "bayes")
    new = model_file.read(tmp_path / "saved.xlda", Newer)
    assert (new.shrinkage, new.priors, new.bayes) == (0.9, "empirical", "full")
    golden = model_file.read(DATA / "format-1.xlda", Newer)  # it has neither search nor precision
    assert (golden.shrinkage, golden.bayes, golden.search) == (0.25, "off", "auto")


def test_an_unknown_parameter_is_of_a_newer_version(tmp_path):
    XLDA().fit([[0.0], [1.0], [5.0]], ["a", "a", "b"]).save(tmp_path / "m.xlda")
    tensors, metadata = contents(tmp_path / "m.xlda")
    for change in ({"wisdom": 1}, {"search": "psychic"}, {"search": {"name": "fisher", "mood": 1}}):
        sections = json.loads(metadata["sections"])
        sections["params"]["info"] |= change
        craft(tmp_path / "m.xlda", tensors, {**metadata, "sections": json.dumps(sections)})
        with pytest.raises(NewerFileError, match=r"m\.xlda has .* this xlda does not know\. Install"):
            xlda.load(tmp_path / "m.xlda")


# -- made-up files


def mutations_of_tensor(tensor):
    """Tensors that cannot be in the place of this one."""
    yield "gone", None
    yield "without the last row", tensor[:-1]
    yield "one row more", np.concatenate([tensor, tensor[-1:]])
    yield "flat", tensor.ravel()[None, None]
    yield "scalar", tensor.ravel()[0]
    yield "empty", tensor[:0]
    yield "small", np.eye(2)
    yield "whole numbers", tensor.astype(np.int64)
    yield "bytes", tensor.astype(np.uint8)
    yield "truth", tensor != 0
    if tensor.ndim == 2:
        yield "narrow", tensor[:, :-1]
        yield "without width", tensor[:, :0]
    for value in (np.nan, np.inf, -np.inf):
        for place in (0, -1):
            spoiled = tensor.copy()
            spoiled.ravel()[place] = value
            yield f"{value} at {place}", spoiled


def mutations_of_entry(value):
    """Values that cannot be in the place of this one."""
    for other in (None, True, -1, -0.5, 1.5, 2**70, float("nan"), float("inf"), "no", [], {}, [None], [[]]):
        if type(other) is not type(value) or other != value:
            yield other
    if isinstance(value, list) and value:
        yield from ([*value, *value], value[:-1], [*value, 1.5], [*value[:-1], value[-1:]], [*value[1:], {}])


LEGITIMATE = {  # what may be so, for all that a file says
    ("moments", "frozen_dof"): (None, 1.5),
    ("moments", "dof_of_dropped"): (-1, -0.5, 1.5),  # a layer taken on trust gives less than nothing
    ("moments", "below_zero"): "any",
    ("params", "power"): (None, 1.5, True, 2**70),
    ("params", "renew"): (True, 1.5, 2**70),
    ("keys", "keys"): "any list of texts",
    ("backbone", "name"): ("no",),
    ("backbone", "identity"): (None, "no"),
    ("backbone", "width"): (None, 2**70),
    ("search", "fisher"): "any",  # a plan that cannot be is not used
}


def is_legitimate(section, name, value):
    allowed = LEGITIMATE.get((section, name), ())
    if allowed == "any list of texts":
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    return allowed == "any" or any(
        value is one or (value == one and type(value) is type(one)) for one in allowed
    )


MODELS = ["plain", "half-plan", "layer"]


@pytest.mark.parametrize("name", MODELS)
def test_no_tensor_that_cannot_be_is_accepted(name, tmp_path):
    tensors, metadata = contents(DATA / f"format-3-{name}.xlda")
    path, n_tried = tmp_path / "made-up.xlda", 0
    for tensor_name, tensor in tensors.items():
        for _what, spoiled in mutations_of_tensor(tensor):
            others = {other: value for other, value in tensors.items() if other != tensor_name}
            craft(path, others if spoiled is None else {**others, tensor_name: spoiled}, metadata)
            refused(path)
            n_tried += 1
    assert n_tried > 60


def refused(path, what=None):
    with pytest.raises((DamagedFileError, NewerFileError)) as caught:
        pytest.fail(f"{what} was accepted: {xlda.load(path)}")
    message = str(caught.value)
    assert message.startswith(f"{path} ")
    cure = (
        "Restore it from a copy." if caught.type is DamagedFileError else "Install a newer xlda to open it."
    )
    assert message.endswith(cure)
    assert ".." not in message.removeprefix(str(path))
    assert len(message) < len(str(path)) + 400


SIGNS = {
    "counts": ("plain", "moments/counts", lambda counts: -counts),
    "counts that add up to infinity": ("layer", "moments/counts", lambda counts: counts + 1e308),
    "samples without a label": ("plain", "moments/counts", lambda counts: counts + 1),
    "scatter": ("plain", "moments/scatter", lambda scatter: -scatter),
    "lopsided scatter": ("plain", "moments/scatter", np.triu),
    "worth": ("layer", "layer/worth", lambda worth: -worth),
    "worth nothing": ("layer", "layer/worth", lambda worth: worth * 0),
    "means of another precision": ("plain", "moments/offsets", lambda means: means.astype(np.float16)),
    "means wider than the origin": ("plain", "moments/offsets", lambda means: means.astype(np.float64)),
    "a narrow origin": ("plain", "moments/origin", lambda origin: origin.astype(np.float16)),
}


@pytest.mark.parametrize("what", SIGNS)
def test_what_no_samples_give_is_refused(what, tmp_path):
    name, tensor_name, change = SIGNS[what]
    tensors, metadata = contents(DATA / f"format-3-{name}.xlda")
    craft(tmp_path / "m.xlda", {**tensors, tensor_name: change(tensors[tensor_name])}, metadata)
    refused(tmp_path / "m.xlda")


LABELS = {
    "one twice": lambda names: ["a", "a", *names[2:]],
    "text beside numbers": lambda names: [1, *names[1:]],
    "truth": lambda names: [True] + [None] * (len(names) - 1),
    "beyond 64 bits": lambda names: [2**63, *range(1, len(names))],
    "ends in NUL": lambda names: ["a\0", *names[1:]],
    "one too few": lambda names: names[1:],
    "samples of none": lambda names: [None, *names[1:]],
}


@pytest.mark.parametrize("what", LABELS)
def test_labels_that_cannot_be_are_refused(what, tmp_path):
    tensors, metadata = contents(DATA / "format-3-layer.xlda")
    sections = json.loads(metadata["sections"])
    sections["labels"]["info"]["names"] = LABELS[what](list("abcdefg"))
    craft(tmp_path / "m.xlda", tensors, {**metadata, "sections": json.dumps(sections)})
    refused(tmp_path / "m.xlda")


def test_rows_of_a_layer_belong_to_classes(tmp_path):
    tensors, metadata = contents(DATA / "format-3-layer.xlda")
    of_layer = {name: tensor for name, tensor in tensors.items() if name.startswith("layer/")}
    twice = {name: np.concatenate([tensor, tensor]) for name, tensor in of_layer.items()}
    craft(tmp_path / "m.xlda", {**tensors, **twice}, metadata)
    refused(tmp_path / "m.xlda")
    sections = json.loads(metadata["sections"])
    sections["labels"]["info"]["names"][0] = None
    tensors["moments/counts"][0] = 0
    metadata["sections"] = json.dumps(sections)
    craft(tmp_path / "m.xlda", tensors, metadata)
    refused(tmp_path / "m.xlda")
    tensors["layer/worth"][0] = 0
    craft(tmp_path / "m.xlda", tensors, metadata)
    assert sorted(xlda.load(tmp_path / "m.xlda").classes_) == list("bcdefg")


def test_a_tensor_too_many_is_refused(tmp_path):
    tensors, metadata = contents(DATA / "format-3-plain.xlda")
    for name in ("more", "moments/more", "labels/more", "params/x", "nowhere/x", "bad\x1b[31m/x"):
        craft(tmp_path / "m.xlda", {**tensors, name: np.eye(2)}, metadata)
        refused(tmp_path / "m.xlda")


@pytest.mark.parametrize("name", MODELS)
def test_no_entry_that_cannot_be_is_accepted(name, tmp_path):
    """Whatever an entry says instead, the file is refused, or it is one that can be used."""
    tensors, metadata = contents(DATA / f"format-3-{name}.xlda")
    sections = json.loads(metadata["sections"])
    path, accepted = tmp_path / "made-up.xlda", []
    for section, described in sections.items():
        for entry, value in described["info"].items():
            for other in mutations_of_entry(value):
                spoiled = copy.deepcopy(sections)
                spoiled[section]["info"][entry] = other
                craft(path, tensors, {**metadata, "sections": json.dumps(spoiled)})
                if is_legitimate(section, entry, other):
                    asked(xlda.load(path), np.zeros((2, xlda.load(path).n_features_in_), np.float32))
                    accepted.append((section, entry))
                else:
                    refused(path, (section, entry, other))
    assert set(accepted) <= set(LEGITIMATE)


USABLE = [("backbone", "info", {}), ("params", "info", {})]  # nothing is known, and all is as by default


def test_sections_that_are_none_are_refused(tmp_path):
    tensors, metadata = contents(DATA / "format-3-plain.xlda")
    sections = json.loads(metadata["sections"])
    made_up = [[], None, 1, "text", {}, {**sections, "params": []}]
    for name in sections:
        for entry, wrong in (
            ("version", (0, -1, True, "1", None, 1.0, [], model_file.KNOWN[name] + 1)),
            ("info", ([], None, 1, "text", {})),
            ("may_be_ignored", (None, 1, "yes", [])),
        ):
            for value in wrong:
                if (name, entry, value) not in USABLE:
                    made_up.append({**sections, name: {**sections[name], entry: value}})
            made_up.append(
                {**sections, name: {key: value for key, value in sections[name].items() if key != entry}}
            )
        made_up.append({**sections, name: {**sections[name], "more": 1}})
    for name in ("params", "labels", "moments"):
        made_up.append({other: described for other, described in sections.items() if other != name})
    for spoiled in made_up:
        craft(tmp_path / "m.xlda", tensors, {**metadata, "sections": json.dumps(spoiled)})
        refused(tmp_path / "m.xlda")
    for text in ("", "{", "[" * 100_000, '{"params": ' * 500 + "1" + "}" * 500):
        craft(tmp_path / "m.xlda", tensors, {**metadata, "sections": text})
        refused(tmp_path / "m.xlda")
    del metadata["sections"]
    craft(tmp_path / "m.xlda", tensors, metadata)
    refused(tmp_path / "m.xlda")


@pytest.mark.parametrize("name", ["format-1", "format-1-half", "format-1-plan", "format-2-layer"])
def test_made_up_files_of_older_formats_are_refused(name, tmp_path):
    tensors, metadata = contents(DATA / f"{name}.xlda")
    info, path = json.loads(metadata["info"]), tmp_path / "m.xlda"
    for tensor_name, tensor in tensors.items():
        for what, spoiled in mutations_of_tensor(tensor):
            others = {other: value for other, value in tensors.items() if other != tensor_name}
            craft(path, others if spoiled is None else {**others, tensor_name: spoiled}, metadata)
            assert what
            refused(path)
    made_up = [[], None, 3, "text", {}]
    for entry in ("params", "labels", "numbers"):
        made_up += [{**info, entry: value} for value in (None, [], 1, "text", [1, "a", 2.5], ["a"])]
        made_up.append({key: value for key, value in info.items() if key != entry})
    for entry in ("n_samples", "dof_of_dropped", "frozen_dof"):
        wrong = ("text", float("nan"), float("inf"), [], True)
        made_up += [{**info, "numbers": {**info["numbers"], entry: value}} for value in wrong]
    for spoiled in made_up:
        craft(path, tensors, {**metadata, "info": json.dumps(spoiled)})
        refused(path)


def test_random_files_with_the_right_checksum_are_refused_or_can_be_used(tmp_path):
    """Whatever is accepted predicts and learns."""
    choice, path = random.Random(3), tmp_path / "m.xlda"
    tensors, metadata = contents(DATA / "format-3-layer.xlda")
    n_refused = 0
    for _ in range(300):
        spoiled = dict(tensors)
        for name in choice.sample(sorted(tensors), 2):
            values = [value for _, value in mutations_of_tensor(tensors[name])]
            values += [tensors[other] for other in tensors] + [tensors[name]] * 20
            spoiled[name] = choice.choice(values)
        craft(path, {name: tensor for name, tensor in spoiled.items() if tensor is not None}, metadata)
        try:
            clf = xlda.load(path)
        except (DamagedFileError, NewerFileError):
            n_refused += 1
        else:
            clf.partial_fit(np.ones((20, 8)), ["a"] * 20).predict(np.ones((2, 8)))
    assert 100 < n_refused < 300


def test_what_forgetting_leaves_below_zero_comes_back(rng, tmp_path):
    """Float32 rounds: where all but little is forgotten, less than nothing may be left of a variance."""
    X = (rng.normal(size=(1000, 16)) * 3 + 100).astype(np.float32)
    clf = XLDA().partial_fit(X, ["a"] * 1000).partial_fit(X[:1] + 5, ["b"]).forget(X, ["a"] * 1000)
    assert (np.diag(clf.covariance_) < 0).any()
    clf.save(tmp_path / "m.xlda")
    np.testing.assert_array_equal(xlda.load(tmp_path / "m.xlda").covariance_, clf.covariance_)


def test_a_plan_that_cannot_be_is_not_used(tmp_path):
    path = tmp_path / "m.xlda"
    tensors, metadata = contents(DATA / "format-3-half-plan.xlda")
    sections = json.loads(metadata["sections"])
    plan = sections["search"]["info"]["fisher"]
    picked = {
        **picked_by(xlda.load(DATA / "format-3-half-plan.xlda")),
        "queries it was picked on": N_QUERIES,
        "candidates": tuple(SPARE * n for n in plan["kept"]),  # the plan in the file has none to spare
    }
    wrong = [{}, {**plan, "prefixes": [10, 10], "kept": [9, 1], "kept_for_five": [9, 5]}]
    for entry, values in {
        "prefixes": ([], [0], [-1], [11], [10**9], [2.5], [True], ["a"], None, 10, [5, 10], [[10]]),
        "kept": ([], [0], [-1], [2**70], [1, 1], None, ["a"]),
        "kept_for_five": ([], [0], [1, 5], {}),
        "n_classes": (0, -1, 1.5, "a", None, 10**9),
        "n_queries": (0, None),
        "target": (None, "a", 2.0, float("nan"), 0.5),
        "agreement": (None, 2.0),
    }.items():
        wrong += [{**plan, entry: value} for value in values]
    for other in wrong:
        sections["search"]["info"]["fisher"] = other
        craft(path, tensors, {**metadata, "sections": json.dumps(sections)})
        clf = xlda.load(path)
        assert clf.predict(np.eye(10)).shape == (10,)
        assert picked_by(clf) == picked  # as it is picked anew, which depends on nothing else


def test_a_plan_outlives_searches_that_have_no_use_for_it(tmp_path):
    queries = np.eye(10, dtype=np.float32)
    clf = xlda.load(DATA / "format-3-half-plan.xlda")
    plan, expected = clf._model.upkeep.plan_to_save(), clf.predict(queries)
    clf = xlda.load(DATA / "format-3-half-plan.xlda").set_params(search="dense")
    np.testing.assert_array_equal(clf.predict(queries), expected)
    clf.save(tmp_path / "m.xlda")
    again = xlda.load(tmp_path / "m.xlda")
    assert again._model.upkeep.plan_to_save() == plan
    assert again.set_params(search=Fisher(target=0.9)).audit().picked["target"] == 0.9  # another plan


def test_a_search_may_keep_what_it_likes(data, tmp_path):
    """The classifier and the file pass it on, and only the search knows what it means."""
    taken = []

    @dataclass(frozen=True)
    class Index(DenseIndex):
        def to_save(self):
            return {"mine": [1, 2]}

    @dataclass(frozen=True)
    class Slow(Dense):
        def index(self, classes, previous=None):
            return Index(classes.rows)

        def restored(self, saved):
            taken.append(saved)
            return self

    X, y = data
    clf = XLDA(search=Slow()).fit(X, y)
    clf.set_params(search="dense").save(tmp_path / "m.xlda")  # a search of one's own has no name in a file
    xlda.load(tmp_path / "m.xlda").set_params(search=Slow()).predict(X)
    assert taken == [{"mine": [1, 2]}]


SEARCHES = [
    ("name", None),
    ("name", 1),
    ("share", "0.1"),
    ("share", 2.0),
    ("share", True),
    ("share", float("nan")),
    ("n_bits", 64.0),
    ("n_bits", -64),
    ("n_bits", 63),
    ("inactive", "sleepy"),
    ("inactive", []),
    ("seed", -1),
    ("seed", None),
]


@pytest.mark.parametrize(("setting", "wrong"), SEARCHES)
def test_settings_of_a_search_that_cannot_be_are_refused(setting, wrong, data, tmp_path):
    XLDA(search=LSH(share=1)).fit(*data).save(tmp_path / "m.xlda")  # a whole number will do for a share
    assert xlda.load(tmp_path / "m.xlda").search == LSH(share=1)
    tensors, metadata = contents(tmp_path / "m.xlda")
    sections = json.loads(metadata["sections"])
    sections["params"]["info"]["search"][setting] = wrong
    craft(tmp_path / "m.xlda", tensors, {**metadata, "sections": json.dumps(sections)})
    refused(tmp_path / "m.xlda")


# -- files that change under way

OVERWRITE = """
import sys, time
path = sys.argv[1]
whole, other = (open(file, "rb").read() for file in sys.argv[1:])
print("ready", flush=True)
while True:
    for wait in range(1, 30):  # milliseconds: sooner or later it is in the middle of a read
        for content in (whole, other):
            with open(path, "r+b") as file:
                file.write(content)
            time.sleep(wait / 1000)
            with open(path, "r+b") as file:
                file.truncate(len(content) // 3)
"""
LOAD = """
import sys
from xlda.classifier import load
from xlda.errors import DamagedFileError
n = {"good": 0, "bad": 0}
for _ in range(300):
    try:
        load(sys.argv[1]).n_samples_seen_
        n["good"] += 1
    except DamagedFileError:
        n["bad"] += 1
print(n["good"], n["bad"])
"""


def test_a_file_that_is_overwritten_in_place_while_it_is_read_kills_nobody(rng, tmp_path):
    """A mapped file would: the system sends SIGBUS where a mapping ends beyond the file."""
    X = rng.normal(size=(4000, 256)).astype(np.float32)
    files = [str(tmp_path / name) for name in ("model.xlda", "other.xlda")]
    for number, file in enumerate(files):
        XLDA().fit(X + number, np.arange(4000) + 1000 * number).save(file)
    writer = subprocess.Popen([sys.executable, "-c", OVERWRITE, *files], stdout=subprocess.PIPE, text=True)
    try:
        assert writer.stdout.readline() == "ready\n"
        reader = subprocess.run(
            [sys.executable, "-c", LOAD, files[0]], capture_output=True, text=True, timeout=300
        )
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()
    assert reader.returncode == 0, reader.stderr
    assert min(map(int, reader.stdout.split())) > 0  # whole models, and damaged ones


def test_loading_takes_about_the_memory_of_the_file(rng, tmp_path):
    X = rng.normal(size=(8000, 256)).astype(np.float32)
    XLDA().fit(X, np.arange(8000)).save(tmp_path / "m.xlda")
    size = (tmp_path / "m.xlda").stat().st_size
    tracemalloc.start()
    try:
        xlda.load(tmp_path / "m.xlda")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size < peak < 1.25 * size


# -- what else travels


def test_keys_of_batches_come_back_the_last_thousand_of_them(data, tmp_path):
    clf = XLDA().fit(*data)
    clf.save(tmp_path / "m.xlda")
    assert xlda.load(tmp_path / "m.xlda").batch_keys_ == []
    clf.batch_keys_ = [f"key {number}" for number in range(1500)]
    clf.save(tmp_path / "m.xlda")
    assert xlda.load(tmp_path / "m.xlda").batch_keys_ == clf.batch_keys_[500:]


def test_the_log_has_paths_and_sizes_and_nothing_that_was_learned(data, tmp_path, caplog):
    X, y = data
    clf = XLDA().fit(X, [f"secret {label}" for label in y])
    with caplog.at_level(logging.DEBUG, "xlda"):
        clf.save(tmp_path / "m.xlda")
        xlda.load(tmp_path / "m.xlda")
    size = (tmp_path / "m.xlda").stat().st_size
    lines = [
        f"{what} {tmp_path / 'm.xlda'}: {size} bytes, 6 classes, 8 features" for what in ("saved", "loaded")
    ]
    assert [record.getMessage() for record in caplog.records] == lines
    assert {record.name for record in caplog.records} == {"xlda"}


# -- the head


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"search": "fisher"},
        {"search": "fast scan"},
        {"precision": "half"},
        {"priors": "empirical"},
    ],
)
def test_what_was_saved_answers_without_anything_inverted(rng, tmp_path, monkeypatch, parameters):
    if parameters.get("search") == "fast scan":
        pytest.importorskip("faiss")
    y = np.repeat(np.arange(80), rng.integers(1, 7, 80))
    X = (rng.normal(size=(80, 24)) * 3)[y] + rng.normal(size=(len(y), 24))
    clf = XLDA(**parameters).partial_fit(X.astype(np.float32), y)
    clf.save(tmp_path / "m.xlda")
    before = clf.decision_function(X)
    with monkeypatch.context() as patched:
        patched.setattr(upkeep, "new_head", lambda *_args, **_kwargs: pytest.fail("it was made anew"))
        patched.setattr(Codebook, "of", lambda *_args: pytest.fail("codes were made anew"))
        loaded = xlda.load(tmp_path / "m.xlda")
        np.testing.assert_array_equal(loaded.predict(X), clf.predict(X))
        np.testing.assert_array_equal(loaded.decision_function(X), before)
    anew = XLDA(**parameters, renew=0).partial_fit(X.astype(np.float32), y)
    np.testing.assert_allclose(before, anew.decision_function(X), rtol=1e-5, atol=1e-3)
    for each in (clf, loaded):  # and goes on as if it had never been away
        each.partial_fit(X[:3] + 9, [100, 100, 101]).remove_class(5)
    np.testing.assert_array_equal(loaded.decision_function(X), clf.decision_function(X))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("groups", lambda tensor: tensor + 1000),
        ("groups", lambda tensor: tensor[:-1]),
        ("counts", lambda tensor: -tensor),
        ("basis", lambda tensor: tensor[:, :-1]),
        ("part_0_weights", lambda tensor: tensor[:, :-1]),
        ("part_0_weights", lambda tensor: tensor * np.nan),
        ("changed", lambda tensor: np.array([10**6])),
    ],
)
def test_a_head_that_cannot_be_is_refused(rng, tmp_path, name, change):
    X, y = rng.normal(size=(60, 8)), np.arange(60) % 12
    clf = XLDA().fit(X, y)
    path = tmp_path / "m.xlda"
    clf.save(path)
    sections = storage.read(path, model_file.KNOWN)
    sections["head"].tensors[name] = change(sections["head"].tensors[name])
    storage.write(path, sections.values())
    with pytest.raises(DamagedFileError, match="is damaged"):
        xlda.load(path)


def test_a_file_without_a_head_answers_the_same(rng, tmp_path):
    X, y = rng.normal(size=(60, 8)), np.arange(60) % 12
    clf = XLDA().fit(X, y)
    path = tmp_path / "m.xlda"
    clf.save(path)
    sections = storage.read(path, model_file.KNOWN)
    del sections["head"]
    storage.write(path, sections.values())
    np.testing.assert_allclose(xlda.load(path).decision_function(X), clf.decision_function(X), rtol=1e-9)
