from __future__ import annotations

import json
import os
import struct
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import xlda
from conftest import blobs, lda
from xlda import XLDA, storage
from xlda._internal.section import Section
from xlda.errors import DamagedFileError, NewerFileError
from xlda.identity import BackboneIdentity

GOLDEN = Path(__file__).parent / "data" / "format-1.xlda"


def assert_same(one, other):
    assert one.get_params() == other.get_params()
    assert one.classes_.tolist() == other.classes_.tolist()
    assert one.classes_.dtype == other.classes_.dtype
    np.testing.assert_array_equal(one.class_count_, other.class_count_)
    np.testing.assert_array_equal(one.means_, other.means_)
    assert one.means_.dtype == other.means_.dtype
    np.testing.assert_array_equal(one.covariance_, other.covariance_)
    assert one.n_samples_seen_ == other.n_samples_seen_
    assert one.n_features_in_ == other.n_features_in_


def reload(clf, tmp_path):
    clf.save(tmp_path / "model.xlda")
    return xlda.load(tmp_path / "model.xlda")


PARAMS = [
    {},
    {"power": 0.5, "shrinkage": np.float64(0.2), "priors": "empirical"},
    {"rule": "slda", "shrinkage_target": "identity"},
    {"covariance": "fixed", "renew": 0, "shrinkage": "oas"},
]


@pytest.mark.parametrize("params", PARAMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_loaded_model_goes_on_as_if_never_saved(params, dtype, rng, tmp_path):
    X, y = blobs(rng, dtype=dtype)
    clf = XLDA(**params).fit(X[:100], y[:100])
    clf.partial_fit(X[100:150], y[100:150]).predict(X)
    clf.partial_fit(X[150:151], y[150:151])  # too little to renew the covariance for
    loaded = reload(clf, tmp_path)
    for _ in range(2):
        assert_same(clf, loaded)
        np.testing.assert_array_equal(clf.decision_function(X), loaded.decision_function(X))
        for learner in (clf, loaded):
            learner.partial_fit(X[151:], y[151:] + 50)
            learner.partial_fit(X[:1], [3])


def test_places_of_removed_classes_stay_free(data, tmp_path):
    X, y = data
    clf = lda().fit(X, y).remove_class(3).remove_class(1)
    loaded = reload(clf, tmp_path)
    np.testing.assert_allclose(clf.decision_function(X), loaded.decision_function(X), atol=1e-12)
    for learner in (clf, loaded):
        learner.partial_fit(X[:3], [70, 71, 72])
        assert learner._model.labels.table().names.tolist() == [0, 70, 2, 71, 4, 5, 72]
        assert learner.classes_.tolist() == [0, 2, 4, 5, 70, 71, 72]
    assert_same(clf, loaded)


def test_classes_without_samples_come_back(tmp_path):
    clf = reload(XLDA().partial_fit(np.ones((0, 2)), [], classes=["a", "b"]), tmp_path)
    far = -np.array([[1e6, 1e6 + 1], [1e6 + 2, 1e6 + 3]], np.float32)
    np.testing.assert_allclose(clf.partial_fit(far, ["a", "a"]).means_[0], [-1e6 - 1, -1e6 - 2])


def test_labels_of_every_script_come_back(tmp_path):
    names = ["ä", "苹果", "🍎", 'quote " and \\', "", " ", "line\nbreak", "file \udcff name"]
    clf = reload(XLDA().fit(np.eye(8), names), tmp_path)
    assert clf.classes_.tolist() == sorted(names)
    big = [-(2**63), 2**63 - 1, 0]
    assert reload(XLDA().fit(np.eye(3), big), tmp_path).classes_.tolist() == sorted(big)


def test_feature_names_come_back(data, tmp_path):
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    loaded = reload(XLDA().fit(frame, y), tmp_path)
    assert loaded.feature_names_in_.tolist() == list("abcdefgh")
    loaded.predict(frame)


def test_saving_before_learning_is_refused(tmp_path):
    with pytest.raises(ValueError, match="learned no class yet"):
        XLDA().save(tmp_path / "model.xlda")
    assert list(tmp_path.iterdir()) == []


def test_saving_into_a_folder_that_is_not_there_names_it(data, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No folder .*nowhere to write model\.xlda in"):
        XLDA().fit(*data).save(tmp_path / "nowhere" / "model.xlda")


def test_a_failed_save_leaves_the_old_file_and_no_other(data, tmp_path, monkeypatch):
    path = tmp_path / "model.xlda"
    clf = XLDA().fit(*data)
    clf.save(path)
    before = path.read_bytes()

    def full_disk(tensors, file, metadata):
        Path(file).write_bytes(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(storage, "save_file", full_disk)
    with pytest.raises(OSError, match="No space left"):
        clf.partial_fit(*data).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_is_on_disk_before_it_takes_its_name(data, tmp_path, monkeypatch):
    events = []
    monkeypatch.setattr(storage.os, "fsync", lambda descriptor: events.append("fsync"))
    replace = Path.replace
    monkeypatch.setattr(Path, "replace", lambda self, to: (events.append("rename"), replace(self, to))[1])
    XLDA().fit(*data).save(tmp_path / "model.xlda")
    assert events == ["fsync", "rename", "fsync"]  # the file, its name, the folder that has the name


# -- files that are not what they should be


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "model.xlda"
    XLDA().fit(np.array([[0.0, 1.0], [1.0, 3.0], [5.0, 5.0]]), ["a", "a", "b"]).save(path)
    return path


def test_every_truncated_file_is_refused(small):
    whole = small.read_bytes()
    for length in range(len(whole)):
        small.write_bytes(whole[:length])
        with pytest.raises(DamagedFileError, match=small.name):
            xlda.load(small)


def test_no_flipped_bit_gives_a_wrong_model(small):
    """Each is refused, except where the same tensors and texts are still read (the header's padding).

    All bits of the length of the header and its beginning, and of every later byte one.
    """
    whole = small.read_bytes()
    expected = xlda.load(small)
    flips = [(byte, bit) for byte in range(len(whole)) for bit in (range(8) if byte < 64 else [byte % 8])]
    n_refused = 0
    for position, bit in flips:
        small.write_bytes(whole[:position] + bytes([whole[position] ^ (1 << bit)]) + whole[position + 1 :])
        try:
            loaded = xlda.load(small)
        except (DamagedFileError, NewerFileError) as error:
            assert small.name in str(error)  # noqa: PT017
            n_refused += 1
        else:
            assert_same(loaded, expected)
    assert n_refused > len(flips) - 100


def test_extra_bytes_are_refused(small):
    small.write_bytes(small.read_bytes() + b"more")
    with pytest.raises(DamagedFileError, match=r"not a complete XLDA model: .* Restore it from a copy\."):
        xlda.load(small)


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "foreign"
    for contents in (b"", b"PK\x03\x04 a zip", b"\x80\x04pickle", struct.pack("<Q", 2**60) + b"{}"):
        path.write_bytes(contents)
        with pytest.raises(DamagedFileError, match="foreign is not a complete XLDA model"):
            xlda.load(path)
    save_file({"weight": np.eye(3)}, path)
    with pytest.raises(DamagedFileError, match="safetensors file, but not an XLDA model"):
        xlda.load(path)
    with pytest.raises(FileNotFoundError):
        xlda.load(tmp_path / "nowhere")
    with pytest.raises(IsADirectoryError):
        xlda.load(tmp_path)


@pytest.mark.parametrize("version", ["4", "17", "x", "", "0", "9" * 5000])
def test_a_newer_format_is_refused_with_the_cure(version, tmp_path):
    path = tmp_path / "model.xlda"
    save_file(
        {"x": np.zeros(1)}, path, {"format": "xlda", "format_version": version, "info": "{}", "sha256": ""}
    )
    with pytest.raises(NewerFileError, match=f"format version '{version[:20]}'; .* Install a newer xlda"):
        xlda.load(path)


def test_the_golden_file_of_format_1_opens():
    """Written once by version 0.1.0 from the samples below; every later version must read it."""
    X = np.array([[0, 1, 2], [2, 1, 0], [1, 1, 1], [5, 6, 7], [7, 6, 5], [9, 0, 0], [4, 4, 4]], np.float32)
    y = np.array(["苹果", "苹果", "苹果", "pear", "pear", "kiwi", "gone"])
    clf = xlda.load(GOLDEN)
    assert clf.get_params() == {
        "model": "lda",
        "covariance": "plastic",
        "power": 0.5,
        "priors": "empirical",
        "precision": "full",
        "renew": 0.05,
        "search": "auto",
        "rule": "exact",
        "shrinkage": 0.25,
        "shrinkage_target": "trace",
        "check_samples": 0,
        "like": "visit",
        "background": False,
        "lift": None,
        "lift_seed": 0,
        "lift_centre": None,
        "second_look": None,
    }
    assert clf.classes_.tolist() == ["kiwi", "pear", "苹果"]
    assert clf.class_count_.tolist() == [1, 4, 3]
    assert clf.n_samples_seen_ == 7
    roots = np.sqrt(X.astype(np.float64))
    np.testing.assert_allclose(clf.means_[2], roots[:3].mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(clf.means_[1], (roots[3] + 3 * roots[4]) / 4, rtol=1e-6)
    assert clf.predict(X[y != "gone"]).tolist() == y[y != "gone"].tolist()
    with warnings.catch_warnings(action="error"):
        clf.partial_fit(X[:1], ["plum"]).predict(X)


def test_new_files_are_of_format_3(small):
    with safe_open(small, framework="np") as file:
        assert file.metadata()["format_version"] == "3"


def test_opening_runs_no_code(small):
    """Only tensors and JSON: the header is plain JSON, whatever the tensors hold."""
    raw = small.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    names = {f"moments/{name}" for name in ("counts", "origin", "offsets", "scatter")}
    of_kept = ("embeddings", "rows", "ids", "weights", "groups", "hashes", "limits", "cutoff")
    names |= {f"kept/{name}" for name in of_kept}
    of_head = {name for name in header if name.startswith("head/")}
    assert set(header) == {"__metadata__", *names, *of_head}
    sections = json.loads(header["__metadata__"]["sections"])
    assert sections["labels"] == {"version": 1, "info": {"names": ["a", "b"]}, "may_be_ignored": False}


# -- sections


def test_a_section_that_may_be_ignored_is_left_out_and_others_are_refused_by_name(tmp_path):
    known, new = Section("known", info={"a": 1}), {"tensors": {"x": np.ones(2)}, "version": 7}
    storage.write(tmp_path / "m", [known, Section("new", may_be_ignored=True, **new)])
    assert set(storage.read(tmp_path / "m", {"known": 1})) == {"known"}
    storage.write(tmp_path / "m", [known, Section("new", **new)])
    with pytest.raises(NewerFileError, match=r"m has a section 'new', .* Install a newer xlda"):
        storage.read(tmp_path / "m", {"known": 1})


def test_a_newer_version_of_a_section_is_refused_by_name(tmp_path):
    storage.write(tmp_path / "m", [Section("known", 2, {"x": np.ones(2)}, {"a": [1, None]})])
    section = storage.read(tmp_path / "m", {"known": 2})["known"]
    assert (section.version, section.info) == (2, {"a": [1, None]})
    with pytest.raises(NewerFileError, match=r"version 2 of the section 'known'; .* up to 1"):
        storage.read(tmp_path / "m", {"known": 1})


def test_tensors_of_any_layout_come_back(tmp_path):
    given = {"a": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "b": np.arange(12.0)[::2]}
    storage.write(tmp_path / "m", [Section("some", tensors=given)])
    for name, tensor in storage.read(tmp_path / "m", {"some": 1})["some"].tensors.items():
        np.testing.assert_array_equal(tensor, given[name])


def test_the_unfinished_file_is_beside_the_other_under_a_name_of_its_own(data, tmp_path, monkeypatch):
    files, save = [], storage.save_file
    monkeypatch.setattr(storage, "save_file", lambda t, f, m: (files.append(f), save(t, f, m))[1])
    folder = tmp_path / "folder"  # not the current one
    folder.mkdir()
    for _ in range(2):
        XLDA().fit(*data).save(folder / "model.xlda")
    assert {file.parent for file in files} == {folder}
    assert len(set(files)) == 2


def test_saving_leaves_no_file_open(tmp_path, monkeypatch):
    opened, closed, os_open, os_close = [], [], os.open, os.close
    monkeypatch.setattr(storage.os, "open", lambda *args: (opened.append(os_open(*args)), opened[-1])[1])
    monkeypatch.setattr(storage.os, "close", lambda d: (closed.append(d), os_close(d))[1])
    storage.write(tmp_path / "m", [Section("some", tensors={"a": np.eye(2)})])
    assert opened
    assert opened == closed


def test_the_backbone_travels_with_the_model(tmp_path):
    X, y = [[0.0, 1.0], [1.0, 0.0], [5.0, 5.0], [6.0, 5.0]], ["a", "a", "b", "b"]
    clf = XLDA().fit(X, y)
    assert clf.backbone_ is None
    clf.backbone_ = {"name": "tiny", "width": 2}
    clf.save(tmp_path / "m.xlda")
    loaded = xlda.load(tmp_path / "m.xlda")
    assert loaded.backbone_ == BackboneIdentity("tiny", width=2)
    assert loaded.partial_fit([[9.0, 9.0]], ["c"]).backbone_ == BackboneIdentity("tiny", width=2)
    other = XLDA().fit(X, y)
    assert other.merge(loaded).backbone_ == BackboneIdentity("tiny", width=2)
    other.backbone_ = {"name": "huge"}
    with pytest.raises(ValueError, match="made with the backbone huge; got embeddings of tiny"):
        other.merge(loaded)
    assert XLDA().merge(loaded).backbone_ == loaded.backbone_
    assert loaded.fit(X, y).backbone_ is None


def test_a_link_to_a_model_stays_one(tmp_path):
    clf = XLDA().fit([[0.0], [1.0], [5.0]], ["a", "a", "b"])
    clf.save(tmp_path / "model.xlda")
    (tmp_path / "link.xlda").symlink_to(tmp_path / "model.xlda")
    clf.partial_fit([[9.0]], ["c"]).save(tmp_path / "link.xlda")
    assert (tmp_path / "link.xlda").is_symlink()
    assert xlda.load(tmp_path / "model.xlda").classes_.tolist() == ["a", "b", "c"]
