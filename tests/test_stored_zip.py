"""Plain zip files, against Python's own reader of zip files."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from xlda.service.stored_zip import stored_files


def archive_of(files, **options):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **options) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return file.getvalue()


def by_zipfile(content):
    """What zipfile finds; None where it refuses."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
        names = [entry.filename for entry in archive.infolist()]
        return None if len(set(names)) < len(names) else {name: archive.read(name) for name in names}
    except Exception:  # a broken file can raise anything
        return None


def test_what_numpy_writes_is_read():
    file = io.BytesIO()
    embedding, label = np.arange(12, dtype=np.float32).reshape(3, 4), np.array(["kiwi", "fig", "ä"])
    np.savez(file, embedding=embedding, label=label)
    found = stored_files(file.getvalue())
    assert found == by_zipfile(file.getvalue())
    assert list(found) == ["embedding.npy", "label.npy"]
    np.testing.assert_array_equal(np.load(io.BytesIO(found["embedding.npy"])), embedding)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\5\6",
        archive_of([("a", b"1" * 99)], compression=zipfile.ZIP_DEFLATED),
        archive_of([(f"{number}", b"1") for number in range(17)]),
        archive_of([("ä", b"1")]),
        archive_of([("a", b"1")]) + b"more",
        b"before" + archive_of([("a", b"1")]),
        archive_of([("a", b"1")])[:-1],
    ],
    ids=["nothing", "four bytes", "compressed", "many", "a name", "more after", "more before", "cut short"],
)
def test_what_is_not_plain_is_left_to_zipfile(content):
    assert stored_files(content) is None


def test_two_files_of_one_name():
    with pytest.warns(UserWarning, match="Duplicate"):
        content = archive_of([("a", b"1"), ("a", b"2")])
    assert stored_files(content) is None


def test_files_that_overlap_are_left_to_zipfile():
    """A file whose content is a part of another's: a few bytes could be many files."""
    own = archive_of([("b", b"kiwi")])
    within = own[: own.index(b"PK\1\2")]
    whole = archive_of([("a", within), ("b", b"kiwi")])
    listed = whole.rindex(b"PK\1\2")
    place = whole.index(within).to_bytes(4, "little")
    overlapping = whole[: listed + 42] + place + whole[listed + 46 :]
    assert stored_files(whole) == {"a": within, "b": b"kiwi"}
    assert stored_files(overlapping) is None


def test_whatever_is_changed_nothing_is_read_that_zipfile_does_not():
    """Each byte of a file is changed in turn, and cut away; what is still read is what zipfile reads."""
    whole = archive_of([("embedding.npy", bytes(range(40))), ("label.npy", b"kiwi")])
    n_read = 0
    for place in range(len(whole)):
        for value in {0, 1, 0x50, 0x7F, 0xFF, whole[place] ^ 1, whole[place] ^ 0x80}:
            changed = whole[:place] + bytes([value]) + whole[place + 1 :]
            found = stored_files(changed)
            if found is not None:
                n_read += 1
                assert found == by_zipfile(changed), (place, value)
        assert stored_files(whole[:place] + whole[place + 1 :]) in (None, by_zipfile(whole))
    assert n_read > 50  # times of day, for one, are of no interest
