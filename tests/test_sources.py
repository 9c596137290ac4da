"""One suite over every format, and what happens when a file is not what it should be."""

from __future__ import annotations

import itertools
import os
import signal
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from conftest import blobs
from xlda import XLDA, open_source
from xlda.moments import Moments
from xlda.sources import Position, SourceError
from xlda.sources import formats as shards

NAMES = np.array(["apple", "pear", "kiwi", "fig", "plum", "lime"])


def write_parquet(path, X, y, kind="fixed", row_group_size=40, **names):
    values = pa.array(X.ravel())
    fixed = pa.FixedSizeListArray.from_arrays(values, X.shape[1])
    column = fixed if kind == "fixed" else fixed.cast(pa.list_(values.type))
    columns = {names.get("embeddings", "embedding"): column, "other": pa.array(range(len(X))), "label": y}
    pq.write_table(pa.table(columns), path, row_group_size=row_group_size)


def write(path, X, y):
    """Write the samples in the format of the suffix."""
    if path.suffix == ".parquet":
        write_parquet(path, X, y)
    elif path.suffix == ".npz":
        np.savez(path, embedding=X, label=y, other=np.zeros(3))
    else:
        save_file({"embedding": X, "label": y, "other": np.zeros(3)}, path)
    return path


def as_arrays(folder, X, y):
    return X, y


def as_npy(folder, X, y):
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)
    return folder / "X.npy", str(folder / "y.npy")


def as_mapped(folder, X, y):
    as_npy(folder, X, y)
    return np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy", mmap_mode="r")


def as_npz(folder, X, y):
    return write(folder / "one.npz", X, y)


def as_compressed_npz(folder, X, y):
    np.savez_compressed(folder / "one.npz", embedding=X, label=y)
    return folder / "one.npz"


def as_safetensors(folder, X, y):
    return write(folder / "one.safetensors", X, y)


def as_parquet(folder, X, y):
    return write(folder / "one.parquet", X, y)


def as_parquet_lists(folder, X, y):
    write_parquet(folder / "one.parquet", X, y, kind="list", row_group_size=10**6)
    return str(folder / "one.parquet")


def as_folder(folder, X, y):
    for number, part in enumerate(np.array_split(np.arange(len(X)), 4)):
        suffix = (".parquet", ".npz", ".safetensors")[number % 3]
        write(folder / f"shard-{number}{suffix}", X[part], y[part])
    (folder / "README.txt").write_text("not a shard")
    return folder


def as_pattern(folder, X, y):
    as_folder(folder, X, y)
    return f"{folder}/shard-*"


def as_list(folder, X, y):
    return sorted(as_folder(folder, X, y).glob("shard-*"))


FORMS = [
    as_arrays,
    as_npy,
    as_mapped,
    as_npz,
    as_compressed_npz,
    as_safetensors,
    as_parquet,
    as_parquet_lists,
    as_folder,
    as_pattern,
    as_list,
]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("form", FORMS)
def test_all_samples_come_in_order_in_small_batches(form, dtype, rng, tmp_path):
    X, y = blobs(rng, dtype=dtype)
    source = open_source(form(tmp_path, X, y))
    batches = list(source.batches(17))
    assert max(len(batch.embeddings) for batch in batches) <= 17
    np.testing.assert_array_equal(np.concatenate([batch.embeddings for batch in batches]), X)
    np.testing.assert_array_equal(np.concatenate([batch.labels for batch in batches]), y)
    assert batches[0].embeddings.dtype == dtype
    assert source.n_samples() == len(X)
    for batch, after in itertools.pairwise(batches):
        assert batch.end == after.start or after.start.row == 0


@pytest.mark.parametrize("form", FORMS)
def test_resuming_anywhere_gives_exactly_the_rest(form, rng, tmp_path):
    X, y = blobs(rng, dtype=np.float32)
    source = open_source(form(tmp_path, X, y))
    batches = list(source.batches(23))
    for number, batch in enumerate(batches):
        for position, rest in ((batch.start, batches[number:]), (batch.end, batches[number + 1 :])):
            left = np.concatenate([X[:0], *(each.embeddings for each in source.batches(50, position))])
            np.testing.assert_array_equal(left, np.concatenate([X[:0], *(each.embeddings for each in rest)]))
            assert source.n_samples(position) == len(left)


@pytest.mark.parametrize("form", FORMS)
def test_fit_source_is_partial_fit(form, rng, tmp_path):
    X, y = blobs(rng, dtype=np.float32)
    clf = XLDA().fit_source(form(tmp_path, X, y), batch_size=64)
    expected = XLDA().fit(X, y)
    np.testing.assert_array_equal(
        clf.class_count_, expected.class_count_[np.argsort(np.argsort(clf.classes_))]
    )
    np.testing.assert_array_equal(clf.predict(X), expected.predict(X))
    assert clf.n_samples_seen_ == len(X)
    assert clf.source_position_.row > 0


@pytest.mark.parametrize(
    "labels", ["strings", "large strings", "dictionary", "small integers", "numpy strings"]
)
def test_labels_of_every_kind(labels, rng, tmp_path):
    X, y = blobs(rng, dtype=np.float32)
    names = NAMES[y]
    if labels == "numpy strings":
        np.savez(tmp_path / "one.npz", embedding=X, label=names)
        clf = XLDA().fit_source(tmp_path / "one.npz")
    else:
        column = {
            "strings": pa.array(names),
            "large strings": pa.array(names.tolist(), pa.large_string()),
            "dictionary": pa.array(names).dictionary_encode(),
            "small integers": pa.array(y.astype(np.int8)),
        }[labels]
        write_parquet(tmp_path / "one.parquet", X, column)
        clf = XLDA().fit_source(tmp_path / "one.parquet")
    expected = XLDA().fit(X, y if labels == "small integers" else names)
    np.testing.assert_array_equal(clf.predict(X), expected.predict(X))


def test_columns_can_have_other_names(rng, tmp_path):
    X, y = blobs(rng, dtype=np.float32)
    write_parquet(tmp_path / "one.parquet", X, y, embeddings="vector")
    clf = XLDA().fit_source(open_source(tmp_path, embeddings="vector"))
    assert clf.n_samples_seen_ == len(X)


def test_a_fixed_covariance_is_that_of_the_whole_source(rng):
    X, y = blobs(rng)
    clf = XLDA(covariance="fixed").fit_source((X, y), batch_size=32)
    base = clf.covariance_
    np.testing.assert_allclose(base, XLDA().fit(X, y).covariance_)
    clf.fit_source((X + 1, y))
    np.testing.assert_array_equal(clf.covariance_, base)


# -- what is not as it should be


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


BAD_SHARDS = {
    "truncated parquet": (".parquet", lambda path, X, y: (write(path, X, y), truncate(path)), "Parquet"),
    "truncated npz": (
        ".npz",
        lambda path, X, y: (write(path, X, y), truncate(path)),
        r"not a complete \.npz file",
    ),
    "truncated safetensors": (
        ".safetensors",
        lambda path, X, y: (write(path, X, y), truncate(path)),
        "not a complete safetensors file",
    ),
    "empty": (".parquet", lambda path, X, y: path.write_bytes(b""), "Parquet"),
    "width": (
        ".parquet",
        lambda path, X, y: write(path, X[:, :5], y),
        "X has 5 features, but XLDA is expecting 8",
    ),
    "no column": (
        ".parquet",
        lambda path, X, y: write_parquet(path, X, y, embeddings="x"),
        "no column 'embedding'",
    ),
    "no array": (
        ".npz",
        lambda path, X, y: np.savez(path, embedding=X),
        "no array 'label'; it has 'embedding'",
    ),
    "no tensor": (".safetensors", lambda path, X, y: save_file({"label": y}, path), "no tensor 'embedding'"),
    "not lists": (
        ".parquet",
        lambda path, X, y: pq.write_table(pa.table({"embedding": X[:, 0], "label": y}), path),
        "is float; expected lists of floats",
    ),
    "ragged": (
        ".parquet",
        lambda path, X, y: pq.write_table(
            pa.table({"embedding": [[1.0], [1.0, 2.0]], "label": [0, 1]}), path
        ),
        "lists of 1 to 2 values",
    ),
    "missing": (
        ".parquet",
        lambda path, X, y: pq.write_table(pa.table({"embedding": [[1.0] * 8, None], "label": [0, 1]}), path),
        "1 missing embeddings",
    ),
    "lengths": (
        ".npz",
        lambda path, X, y: np.savez(path, embedding=X, label=y[1:]),
        "75 embeddings beside 74 labels",
    ),
    "nan": (".npz", lambda path, X, y: np.savez(path, embedding=X * np.nan, label=y), "contains NaN"),
    "label type": (
        ".npz",
        lambda path, X, y: np.savez(path, embedding=X, label=NAMES[y]),
        "Got str labels beside int",
    ),
    "objects": (
        ".npz",
        lambda path, X, y: np.savez(path, embedding=X, label=y.astype(object)),
        "Python objects",
    ),
    "fortran": (
        ".npz",
        lambda path, X, y: np.savez(path, embedding=np.asfortranarray(X), label=y),
        "Fortran",
    ),
    "dtype": (
        ".safetensors",
        lambda path, X, y: save_file({"embedding": X, "label": y > 0}, path),
        "'label' is BOOL; expected",
    ),
}


@pytest.mark.parametrize("bad", BAD_SHARDS)
def test_a_bad_file_is_named_and_nothing_is_lost_or_learned_twice(bad, rng, tmp_path):
    X, y = blobs(rng, dtype=np.float32)
    suffix, spoil, message = BAD_SHARDS[bad]
    parts = np.array_split(np.arange(len(X)), 4)
    paths = [write(tmp_path / f"shard-{i}{suffix}", X[part], y[part]) for i, part in enumerate(parts)]
    paths[2].unlink()
    spoil(paths[2], X[parts[2]], y[parts[2]])
    clf = XLDA()
    with pytest.raises(SourceError, match=message) as caught:
        clf.fit_source(tmp_path, batch_size=20)
    assert str(paths[2]) in str(caught.value)
    assert caught.value.position == (str(paths[2]), 0)
    assert clf.n_samples_seen_ == clf.class_count_.sum() == len(parts[0]) + len(parts[1])
    assert clf.source_position_ == (str(paths[1]), len(parts[1]))
    write(paths[2], X[parts[2]], y[parts[2]])
    clf.fit_source(tmp_path, batch_size=20, resume=caught.value.position)
    np.testing.assert_array_equal(clf.class_count_, np.bincount(y))
    np.testing.assert_allclose(clf.covariance_, XLDA().fit(X, y).covariance_, atol=1e-5)


def test_a_file_that_ends_too_soon_is_learned_up_to_there(rng, tmp_path):
    X, y = blobs(rng, dtype=np.float32)
    embeddings, labels = as_npy(tmp_path, X, y)
    whole = embeddings.read_bytes()
    embeddings.write_bytes(whole[: len(whole) - 100 * X[0].nbytes])
    clf = XLDA()
    with pytest.raises(SourceError, match="truncated") as caught:
        clf.fit_source((embeddings, labels), batch_size=64)
    assert caught.value.position == (str(embeddings), 192)
    embeddings.write_bytes(whole)
    clf.fit_source((embeddings, labels), resume=caught.value.position)
    np.testing.assert_array_equal(clf.class_count_, np.bincount(y))


def test_what_is_no_source_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No \.parquet, \.npz, \.safetensors file in"):
        open_source(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"No such file: .*nowhere\.npz"):
        open_source(tmp_path / "nowhere.npz")
    with pytest.raises(FileNotFoundError, match=r"No .* file in"):
        open_source(f"{tmp_path}/*.parquet")
    (tmp_path / "X.csv").write_text("1,2")
    with pytest.raises(ValueError, match=r"X\.csv is not one of \.parquet"):
        open_source(tmp_path / "X.csv")
    source = open_source((np.eye(3), [0, 1, 2]))
    for resume in (("elsewhere.npz", 0), ("", -1)):
        with pytest.raises(ValueError, match="names no place in this source"):
            XLDA().fit_source(source, resume=resume)
    with pytest.raises(ValueError, match="batch_size is at least 1"):
        XLDA().fit_source(source, batch_size=0)


def test_parquet_without_pyarrow_says_what_to_install(rng, tmp_path, monkeypatch):
    write(tmp_path / "one.parquet", *blobs(rng))
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r"needs pyarrow: pip install .*\[parquet\]"):
        XLDA().fit_source(tmp_path)


# -- interrupts and memory


def test_an_interrupt_leaves_whole_batches(rng, monkeypatch):
    X, y = blobs(rng)
    update = Moments.update
    calls = []

    def interrupted(self, embeddings, rows, *others):
        calls.append(len(rows))
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)  # in the middle of learning the third batch
        update(self, embeddings, rows, *others)

    monkeypatch.setattr(Moments, "update", interrupted)
    clf = XLDA()
    with pytest.raises(KeyboardInterrupt):
        clf.fit_source((X, y), batch_size=80)
    assert clf.source_position_ == Position("", 240)
    np.testing.assert_array_equal(clf.class_count_, np.bincount(y[:240]))
    clf.fit_source((X, y), batch_size=80, resume=clf.source_position_)
    np.testing.assert_allclose(clf.covariance_, XLDA().fit(X, y).covariance_)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("form", [as_npy, as_npz, as_compressed_npz, as_safetensors, as_parquet_lists])
def test_memory_does_not_grow_with_the_file(form, tmp_path):
    X = np.ones((20_000, 100), np.float32)  # 8 MB
    source = open_source(form(tmp_path, X, np.zeros(len(X), np.int64)))
    tracemalloc.start()
    pool, before = pa.default_memory_pool(), pa.total_allocated_bytes()
    n = 0
    for batch in source.batches(500):  # 0.2 MB
        n += len(batch.embeddings)
        assert pool.bytes_allocated() - before < 4_000_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert n == len(X)
    assert peak < 2_000_000


def test_rows_say_what_was_expected(tmp_path):
    path = tmp_path / "short"
    path.write_bytes(bytes(10))
    with path.open("rb") as stream, pytest.raises(EOFError, match=r"\(4, 2\) of float32 was expected"):
        shards.RowReader(stream, np.dtype(np.float32), (4, 2)).read(4)


def test_paths_may_be_str_or_path(rng, tmp_path):
    path = as_npz(tmp_path, *blobs(rng))
    assert open_source(str(path)).n_samples() == open_source(Path(path)).n_samples() == 300


@pytest.mark.parametrize("n", [1, 2, 3, 7, 40])
def test_parts_of_a_source_have_all_samples_once_and_in_order(n, rng, tmp_path):
    X, y = rng.normal(size=(23, 3)).astype(np.float32), np.arange(23)
    for number, rows in enumerate(np.array_split(np.arange(23), 4)):
        column = pa.FixedSizeListArray.from_arrays(pa.array(X[rows].reshape(-1)), 3)
        pq.write_table(pa.table({"embedding": column, "label": y[rows]}), tmp_path / f"{number}.parquet", 2)
    parts = open_source(str(tmp_path)).split(n)
    assert len(parts) == min(n, 23)
    found = [batch for part in parts for batch in part.batches(2)]
    np.testing.assert_array_equal(np.concatenate([batch.embeddings for batch in found]), X)
    np.testing.assert_array_equal(np.concatenate([batch.labels for batch in found]), y)
    assert max(part.n_samples() for part in parts) - min(part.n_samples() for part in parts) <= 1
    assert found[-1].end == (str(tmp_path / "3.parquet"), 5)  # rows are counted as the file has them
