from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from safetensors.numpy import save_file

from xlda._internal.safetensors_file import NUMBERS, BadSafetensorsError, read_header, read_tensor


def write(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def test_it_reads_what_the_library_writes(tmp_path, rng):
    given = {
        kind: (rng.normal(size=(3, 4)) * 9).astype(dtype) for kind, dtype in NUMBERS.items() if kind != "BOOL"
    }
    given |= {"BOOL": np.array([True, False]), "none": np.zeros((0, 5)), "scalar": np.array(3.0)}
    save_file(given, tmp_path / "t", {"a": "b"})
    with (tmp_path / "t").open("rb") as file:
        header = read_header(file)
        assert header.metadata == {"a": "b"}
        assert set(header.tensors) == set(given)
        for name, place in header.tensors.items():
            tensor = read_tensor(file, place)
            np.testing.assert_array_equal(tensor, given[name])
            assert tensor.dtype == given[name].dtype
            assert tensor.flags.writeable


BAD = {
    "no list": ({"a": {**entry(), "shape": 2}}, "shape"),
    "no header": (b"[]", "no dict"),
    "no JSON": (b"{", "cannot be read"),
    "no text": (b'{"a\xff": 1}', "cannot be read"),
    "nested": (b"[" * 100_000, "nested too deeply"),
    "digits": (b'{"a": ' + b"9" * 5000 + b"}", "cannot be read"),
    "twice": (b'{"a": 1, "a": 2}', "a name twice"),
    "metadata a list": ({"__metadata__": []}, "metadata"),
    "metadata numbers": ({"__metadata__": {"a": 1}}, "metadata"),
    "entry a list": ({"a": []}, "not described"),
    "entry without shape": ({"a": {"dtype": "F32", "data_offsets": [0, 8]}}, "not described"),
    "type": ({"a": entry("F33")}, "unknown type"),
    "type a list": ({"a": {**entry(), "dtype": []}}, "unknown type"),
    "negative": ({"a": entry(shape=(-2,))}, "shape"),
    "fraction": ({"a": entry(shape=(2.0,))}, "shape"),
    "true": ({"a": entry(shape=(True, 2))}, "shape"),
    "axes": ({"a": entry(shape=(1,) * 9 + (2,))}, "shape"),
    "large": ({"a": entry(shape=(0, 2**62), offsets=(0, 0))}, "shape"),
    "size": ({"a": entry(shape=(3,))}, "another size"),
    "offsets backwards": ({"a": entry(offsets=(8, 0))}, "another size"),
    "offsets negative": ({"a": entry(offsets=(-8, 0))}, "place"),
    "one offset": ({"a": entry(offsets=(8,))}, "place"),
    "gap": ({"a": entry(offsets=(8, 16))}, "do not follow"),
    "overlap": ({"a": entry(), "b": entry()}, "do not follow"),
    "too short": ({"a": entry(shape=(4,), offsets=(0, 16))}, "8 bytes|expected"),
}


@pytest.mark.parametrize("bad", BAD)
def test_what_cannot_be_is_refused(bad, tmp_path):
    header, message = BAD[bad]
    write(tmp_path / "t", header, bytes(8))
    with (tmp_path / "t").open("rb") as file, pytest.raises(BadSafetensorsError, match=message):
        read_header(file)


def test_a_file_that_is_cut_after_its_header_was_read_is_noticed(tmp_path):
    save_file({"a": np.ones(1000)}, tmp_path / "t")
    with (tmp_path / "t").open("rb", buffering=0) as file:
        header = read_header(file)
        (tmp_path / "t").write_bytes((tmp_path / "t").read_bytes()[:500])
        with pytest.raises(BadSafetensorsError, match="ends within its tensors"):
            read_tensor(file, header.tensors["a"])


def test_tensors_without_a_type_in_numpy_are_named(tmp_path):
    write(tmp_path / "t", {"a": entry("BF16", (4,))}, bytes(8))
    with (tmp_path / "t").open("rb") as file:
        header = read_header(file)
        with pytest.raises(BadSafetensorsError, match="BF16"):
            read_tensor(file, header.tensors["a"])
