"""Hostile requests: each is refused with the right code and a sentence, and nothing has changed after it."""

from __future__ import annotations

import io
import json
import struct
import time
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

for module in ("apsw", "fastapi", "uvicorn", "httpx", "onnxruntime", "onnx", "PIL", "typer"):
    pytest.importorskip(module)

from cli_shop import write_network  # noqa: E402
from service_under_test import (  # noqa: E402
    JPEG,
    NPY,
    NPZ,
    PNG,
    WEBP,
    blobs,
    npy,
    npz,
    photo,
    running,
    status_of,
)

KIWI = photo("kiwi", 1)
JSON = "application/json"
MB = 1_000_000


class Case(NamedTuple):
    """Bytes to send (`{host}` is filled in) and the status that is expected of them."""

    name: str
    expect: int | tuple[int, ...]
    content: bytes


TABLE: list[Case] = []


def hostile(name, expect, method, target, body=b"", kind=None, length=True, host=b"{host}", **headers):
    """One more request for the table."""
    lines = [f"{method} {target} HTTP/1.1".encode("latin-1")]
    if host is not None:
        lines.append(b"Host: " + host)
    if kind is not None:
        lines.append(b"Content-Type: " + kind.encode())
    if length and (body or method in ("POST", "PATCH", "PUT")):
        lines.append(b"Content-Length: %d" % len(body))
    lines += [f"{name.replace('_', '-')}: {value}".encode("latin-1") for name, value in headers.items()]
    TABLE.append(Case(name, expect, b"\r\n".join(lines) + b"\r\n\r\n" + body))


def raw(name, expect, *lines, end=b"\r\n"):
    TABLE.append(Case(name, expect, end.join(lines)))


def as_json(value):
    return value if isinstance(value, bytes) else json.dumps(value).encode()


# -- pictures


def png(width, height, data=b"", chunks=()):
    def chunk(kind, content):
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(chunks) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def jpeg_of_size(width, height):
    place = KIWI.index(b"\xff\xc0")
    return KIWI[: place + 5] + struct.pack(">HH", height, width) + KIWI[place + 9 :]


def webp_of_size(width, height):
    head = b"VP8X" + struct.pack("<I", 10) + b"\0\0\0\0"
    head += (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    rest = photo("kiwi", 1, form="WEBP")[12:]
    return b"RIFF" + struct.pack("<I", 4 + len(head) + len(rest)) + b"WEBP" + head + rest


def animated(form):
    from PIL import Image

    frames = [Image.new("RGB", (64, 64), colour) for colour in ("red", "blue", "green")]
    file = io.BytesIO()
    frames[0].save(file, form, save_all=True, append_images=frames[1:])
    return file.getvalue()


HEIC = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + b"\0" * 200
HTML = b"<!doctype html><script>alert(1)</script>"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="99999" height="99999"/>'
for where, call in (("predict", "/v1/predict"), ("samples", "/v1/samples?label=kiwi")):
    hostile(
        f"{where}: PNG of 4 gigapixels", 413, "POST", call, png(65000, 65000, zlib.compress(b"\0" * 999)), PNG
    )
    hostile(f"{where}: PNG of 2^31 pixels a side", (413, 422), "POST", call, png(2**31 - 1, 2**31 - 1), PNG)
    hostile(f"{where}: JPEG of 4 gigapixels", 413, "POST", call, jpeg_of_size(65500, 65500), JPEG)
    hostile(f"{where}: WebP of 268 megapixels", 413, "POST", call, webp_of_size(16384, 16384), WEBP)
    hostile(f"{where}: HEIC by its type", 415, "POST", call, HEIC, "image/heic")
    hostile(f"{where}: HEIC that says JPEG", 415, "POST", call, HEIC, JPEG)
    hostile(f"{where}: a page that says JPEG", 415, "POST", call, HTML, JPEG)
    hostile(f"{where}: SVG", 415, "POST", call, SVG, "image/svg+xml")
    hostile(f"{where}: no type", 415, "POST", call, KIWI)
    hostile(f"{where}: nothing", 422, "POST", call, b"", JPEG)
    hostile(f"{where}: JPEG cut short", 422, "POST", call, KIWI[:300], JPEG)
    hostile(f"{where}: animated WebP", 422, "POST", call, animated("WEBP"), WEBP)
hostile("PNG of 50,000,001 pixels", 413, "POST", "/v1/predict", png(1, 50_000_001), PNG)
hostile("PNG with no pixels", 422, "POST", "/v1/predict", png(0, 0), PNG)
hostile("PNG cut short", 422, "POST", "/v1/predict", photo("kiwi", 1, form="PNG")[:500], PNG)
hostile(
    "PNG that holds too little", 422, "POST", "/v1/predict", png(640, 640, zlib.compress(b"\0" * 99)), PNG
)
hostile("animated PNG", 422, "POST", "/v1/predict", animated("PNG"), PNG)
hostile("GIF", 415, "POST", "/v1/predict", animated("GIF"), "image/gif")
hostile("GIF that says PNG", 415, "POST", "/v1/predict", animated("GIF"), PNG)
hostile("TIFF of many pages", 415, "POST", "/v1/predict", animated("TIFF"), "image/tiff")
hostile("WebP cut short", 422, "POST", "/v1/predict", photo("kiwi", 1, form="WEBP")[:100], WEBP)
hostile("WebP of 20 bytes", 422, "POST", "/v1/predict", b"RIFF\xff\xff\xff\xffWEBPVP8X", WEBP)
hostile("AVIF", 415, "POST", "/v1/predict", HEIC.replace(b"heic", b"avif"), "image/avif")
hostile("form data", 415, "POST", "/v1/predict", b"--x\r\n\r\n--x--", "multipart/form-data; boundary=x")
hostile("two types", (415, 422), "POST", "/v1/predict", KIWI, "image/jpeg, text/html")

# -- embeddings


def header(text, version=b"\x01\x00"):
    content = text.encode("latin-1") + b"\n"
    size = struct.pack("<H" if version == b"\x01\x00" else "<I", len(content))
    return b"\x93NUMPY" + version + size + content


def zipped(entries, method=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", method) as archive:
        warnings.simplefilter("ignore")  # of names that come twice
        for name, content in entries:
            archive.writestr(name, content)
    return file.getvalue()


def encrypted(content):
    """A zip file whose entries say that they are encrypted."""
    changed = bytearray(content)
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = changed.find(mark)
        while start >= 0:
            changed[start + place] |= 1
            start = changed.find(mark, start + 4)
    return bytes(changed)


X, Y = blobs(6)
LABELS = npy(Y)
pickled = npy(np.array([print], object), allow_pickle=True)
nan, infinite = X.copy(), X.copy()
nan[1, 1], infinite[2, 2] = np.nan, np.inf
structured = np.zeros(3, [("a", "f4"), ("b", "f4")])
ARRAYS = {
    "a pickle": pickled,
    "a bare pickle": b"\x80\x04cos\nsystem\n(S'true'\ntR.",
    "a header of terabytes": header("{'descr': '<f4', 'fortran_order': False, 'shape': (10**12, 6), }"),
    "a header of more than 2^63": header(
        f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({2**62}, 6), }}"
    ),
    "a header of terabytes, plain": header(
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 6), }"
    ),
    "a negative shape": header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 6), }") + b"\0" * 24,
    "a header that calls": header(
        "{'descr': __import__('os').getcwd(), 'fortran_order': False, 'shape': (1,), }"
    ),
    "a header of brackets": header("(" * 3000 + ")" * 3000, b"\x02\x00"),
    "a header of 4 GB": b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}",
    "a wrong version": b"\x93NUMPY\x09\x09\x00\x00",
    "text labels": LABELS,
    "NaN": npy(nan),
    "an infinite number": npy(infinite),
    "numbers too large": npy(np.full((2, 6), 1e300)),
    "another width": npy(X[:, :4]),
    "no rows": npy(X[:0]),
    "no columns": npy(X[:, :0]),
    "a single number": npy(np.float32(1.0)),
    "one row without its axis": npy(X[0]),
    "three axes": npy(X[None]),
    "whole numbers": npy(np.ones((2, 6), np.int64)),
    "complex numbers": npy(np.ones((2, 6), np.complex64)),
    "booleans": npy(np.ones((2, 6), bool)),
    "a structure": npy(structured),
    "dates": npy(np.zeros((2, 6), "M8[s]")),
    "an array cut short": npy(X)[:-5],
    "a file with more behind it": npy(X) + b"more",
    "an empty array file": b"",
    "rubbish": b"\x93NUMPYrubbish",
}
for what, content in ARRAYS.items():
    hostile(f"predict: {what}", 422, "POST", "/v1/predict", content, NPY)
    if what not in ("one row without its axis",):
        body = zipped([("embedding.npy", content), ("label.npy", LABELS)])
        hostile(f"batch: {what}", 422, "POST", "/v1/samples:batch", body, NPZ)
GOOD = npz(embedding=X, label=Y)
BATCHES = {
    "labels that are a pickle": (422, zipped([("embedding.npy", npy(X)), ("label.npy", pickled)])),
    "too few labels": (422, npz(embedding=X, label=Y[:3])),
    "labels of two axes": (422, npz(embedding=X, label=Y[:, None])),
    "labels of bytes": (422, npz(embedding=X, label=Y.astype("S"))),
    "labels of floats": (422, npz(embedding=X, label=np.arange(6.0))),
    "an empty label": (422, npz(embedding=X, label=np.array([*Y[:5], " "]))),
    "a label with a control character": (422, npz(embedding=X, label=np.array([*Y[:5], "a\x07b"]))),
    "a label with half a character": (422, npz(embedding=X, label=np.array([*Y[:5], "a\ud800"]))),
    "a label that is too long": (422, npz(embedding=X, label=np.array([*Y[:5], "x" * 201]))),
    "code points past Unicode": (
        422,
        npz(embedding=X[:1], label=np.array([0x110000], "<u4").view("<U1")),
    ),
    "groups that do not fit": (422, npz(embedding=X, label=Y, group=Y[:2])),
    "another array": (422, npz(embedding=X, label=Y, other=Y)),
    "no labels": (422, npz(embedding=X)),
    "no embeddings": (422, npz(label=Y)),
    "a name outside": (422, zipped([("embedding.npy", npy(X)), ("label.npy", LABELS), ("../x.npy", b"x")])),
    "the same array twice": (
        422,
        zipped([("embedding.npy", npy(X)), ("label.npy", LABELS), ("label.npy", LABELS)]),
    ),
    "encryption": (422, encrypted(GOOD)),
    "a file cut short": (422, GOOD[:-30]),
    "a wrong sum": (422, GOOD.replace(npy(X)[200:208], b"\0" * 8)),
    "no zip": (422, b"rubbish"),
    "nothing": (422, b""),
    "an empty zip": (422, zipped([])),
    "a bomb of zeros": (
        413,
        zipped(
            [("embedding.npy", npy(np.zeros((3_000_000, 6), np.float32))), ("label.npy", LABELS)],
            zipfile.ZIP_DEFLATED,
        ),
    ),
    "a bomb by another method": (
        413,
        zipped(
            [("embedding.npy", npy(np.zeros((3_000_000, 6), np.float32))), ("label.npy", LABELS)],
            zipfile.ZIP_LZMA,
        ),
    ),
    "a bomb of entries": (422, zipped([(f"{number}.npy", b"") for number in range(20_000)])),
}
for what, (expect, content) in BATCHES.items():
    hostile(f"batch: {what}", expect, "POST", "/v1/samples:batch", content, NPZ)
hostile("batch: another type", 415, "POST", "/v1/samples:batch", GOOD, "application/zip")
hostile("batch: JSON", 415, "POST", "/v1/samples:batch", b"[]", JSON)
hostile("batch: another backbone", 422, "POST", "/v1/samples:batch", GOOD, NPZ, XLDA_Backbone="another")
hostile("predict: another backbone", 422, "POST", "/v1/predict", npy(X), NPY, XLDA_Backbone="another")

# -- labels, ids, numbers

for what, label in {
    "that is empty": "",
    "of spaces": "%20%20%C2%A0%E3%80%80",
    "that cannot be seen": "%E2%80%8B%E2%81%A0",
    "of 201 characters": "x" * 201,
    "of 100,000 characters": "x" * 60_000,
    "with NUL": "a%00b",
    "with a bell": "a%07b",
    "with an escape": "%1B%5B31mred",
    "with a line in it": "a%0Ab",
    "with a C1 control": "a%C2%85b",
    "with a line separator": "a%E2%80%A8b",
    "that turns the text round": "a%E2%80%AEb",
    "that is no UTF-8": "a%FFb",
    "with half a character": "a%ED%A0%80b",
}.items():
    hostile(f"a label {what}", 422, "POST", f"/v1/samples?label={label}", KIWI, JPEG)
hostile("no label", 422, "POST", "/v1/samples", KIWI, JPEG)
hostile("two labels", 422, "POST", "/v1/samples?label=a&label=b", KIWI, JPEG)
hostile("a group with NUL", 422, "POST", "/v1/samples?label=a&group=%00", KIWI, JPEG)
for query in (
    "k=0",
    "k=-1",
    "k=1000000000",
    "k=1e3",
    "k=x",
    "k=" + "9" * 5000,
    "unknown=0",
    "unknown=1",
    "unknown=nan",
    "unknown=inf",
    "unknown=-0.1",
    "unknown=x",
    "among=",
    "among=nobody",
    "among=%00",
    "among=a&among=nobody",
):
    hostile(f"predict?{query[:40]}", 422, "POST", f"/v1/predict?{query}", KIWI, JPEG)
for seq, expect in {
    "0": 422,
    "-1": 422,
    "1" + "0" * 30: 422,
    "x": 422,
    "1.0": 422,
    "999999": 404,
    str(2**63 - 1): 404,
    str(2**63): 422,
    "%31%00": 422,
    "٣": 422,
}.items():
    target = seq if seq.isascii() else "%D9%A3"
    hostile(f"undo {seq[:24]}", expect, "POST", f"/v1/events/{target}:undo")
for what, body in {
    "no list": {"seqs": 1},
    "an empty list": {"seqs": []},
    "a zero": {"seqs": [0]},
    "a negative number": {"seqs": [-1]},
    "10^30": {"seqs": [10**30]},
    "a fraction": {"seqs": [1.0]},
    "true": {"seqs": [True]},
    "a text": {"seqs": ["1"]},
    "both": {"seqs": [1], "group": "g"},
    "neither": {},
    "another field": {"seq": 1},
    "a group that is no text": {"group": 1},
    "20,000 of them": {"seqs": list(range(1, 20_001))},
}.items():
    hostile(f"undo of {what}", 422, "POST", "/v1/events:undo", as_json(body), JSON)
hostile("undo of a group that is not there", 404, "POST", "/v1/events:undo", as_json({"group": "none"}), JSON)
for what, (expect, body) in {
    "nested a million deep": (422, b"[" * 1_000_000),
    "nested objects": (422, b'{"label":' * 100_000),
    "a number of a million digits": (422, b'{"label": ' + b"9" * 1_000_000 + b"}"),
    "not JSON": (422, b"label=kiwi"),
    "nothing": (422, b""),
    "a list": (422, b"[]"),
    "null": (422, b"null"),
    "no UTF-8": (422, b'{"label": "\xff"}'),
    "a label that is a number": (422, {"label": 7}),
    "a label that is null": (422, {"label": None}),
    "a label that is a list": (422, {"label": ["a"]}),
    "a label that is an object": (422, {"label": {"$gt": ""}}),
    "half a character": (422, b'{"label": "\\ud800"}'),
    "NUL": (422, b'{"label": "a\\u0000"}'),
    "another field": (422, {"label": "kiwi", "admin": True}),
    "a huge label": (422, {"label": "x" * 1_000_000}),
    "a label that is taken": (409, {"label": " a "}),
}.items():
    hostile(f"create: {what}", expect, "POST", "/v1/classes", as_json(body), JSON)
hostile("create: another type", 415, "POST", "/v1/classes", b'{"label": "kiwi"}', "text/plain")
hostile("create: a form", 415, "POST", "/v1/classes", b"label=kiwi", "application/x-www-form-urlencoded")
ONE = as_json({"label": "kiwi"})
for target, expect in {
    "/v1/samples/..%2f..%2fetc%2fpasswd": (404, 405, 422),
    "/v1/samples/../../etc/passwd": (404, 405, 422),
    "/v1/samples/%00": 422,
    "/v1/samples/1-0000000000000000": 404,
    "/v1/samples/zz": 404,
    "/v1/samples/" + "f" * 64: 404,
    "/v1/samples/" + "f" * 65: 422,
    "/v1/samples/%F0%9F%8D%8C": 422,
    "/v1/samples/1'%20OR%20'1'='1": 422,
}.items():
    hostile(f"DELETE {target}", expect, "DELETE", target)
    hostile(f"PATCH {target}", expect, "PATCH", target, ONE, JSON)
for target in (
    "/v1/samples/..%2f..%2fx/photo",
    "/v1/samples/%2e%2e/photo",
    "/v1/classes/%00/photo",
    "/v1/review/..%5c..%5cx/photo",
    "/v1/samples/1-0/photo?size=0",
    "/v1/samples/1-0/photo?size=99999",
    "/v1/../../../etc/passwd",
    "/static/..%2f..%2fetc/passwd",
    "//etc/passwd",
    "/v1/samples/1-0/photo",
):
    hostile(f"GET {target}", (404, 422), "GET", target)
for target in (
    "/page/../app.py",
    "/page/..%2fapp.py",
    "/page/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "/page//etc/passwd",
    "/page/index.html%00.js",
    "/page/..%5capp.py",
    "/page/.hidden.js",
    "/page/" + "a" * 5000 + ".js",
    "/trust",
    "/v1/authority",
    "/v1/tls/leaf.key",
):
    hostile(f"GET {target[:40]}", 404, "GET", target)
for query in ("limit=0", "limit=1001", "limit=x", "after=" + "x" * 65):
    hostile(f"a class?{query[:20]}", 422, "GET", f"/v1/classes/{'{a}'}?{query}")
for query in ("like=-1", "like=11", "like=x", "like=1&like=2"):
    hostile(f"predict?{query}", 422, "POST", f"/v1/predict?{query}", KIWI, JPEG)
hostile("unless_warned=maybe", 422, "POST", "/v1/samples?label=a&unless_warned=maybe", KIWI, JPEG)
for query in ("limit=0", "limit=501", "limit=-1", "limit=1e2"):
    hostile(f"recent?{query}", 422, "GET", f"/v1/events/recent?{query}")
for what, body in {
    "nothing": {},
    "a text": {"keep_photos": "false"},
    "a number": {"keep_photos": 0},
    "null": {"keep_photos": None},
    "another": {"keep_photos": True, "undo_days": 0},
    "a list": [],
}.items():
    hostile(f"settings: {what}", 422, "POST", "/v1/settings", as_json(body), JSON)
hostile(
    "settings: a form", 415, "POST", "/v1/settings", b"keep_photos=0", "application/x-www-form-urlencoded"
)
hostile(
    "settings from elsewhere", 403, "POST", "/v1/settings", as_json({"keep_photos": False}), JSON,
    Origin="https://evil.example",
)  # fmt: skip
for what, (expect, body) in {
    "without tokens": (409, {}),
    "a scope that is none": (422, {"scope": "root"}),
    "a scope that is a list": (422, {"scope": ["admin"]}),
    "for a fleet": (422, {"scope": "sync"}),
}.items():
    hostile(f"pairing: {what}", expect, "POST", "/v1/pairing", as_json(body), JSON)
for what, (expect, body) in {
    "ignore of a sample": (422, {"ids": ["1-0"], "ignore": True}),
    "not of a sample": (422, {"ids": ["1-0"], "not": "0"}),
    "keep of no sample": (404, {"ids": ["1-0"], "keep": True}),
    "keep of an answer": (404, {"ids": ["0" * 32], "keep": True}),
    "keep that is false": (422, {"ids": ["1-0"], "keep": False}),
    "ignore that is a text": (422, {"ids": ["0" * 32], "ignore": "yes"}),
    "two acts": (422, {"ids": ["0" * 32], "ignore": True, "keep": True}),
}.items():
    hostile(f"review: {what}", expect, "POST", "/v1/review:apply", as_json(body), JSON)
hostile("an id of another kind", 404, "DELETE", "/v1/classes/1-0123456789abcdef")
hostile("merge with itself", (409, 422), "POST", "/v1/classes/{a}:merge", as_json({"other": "{a}"}), JSON)
hostile("merge with a sample", 404, "POST", "/v1/classes/{a}:merge", as_json({"other": "1-0"}), JSON)
hostile("merge with a number", 422, "POST", "/v1/classes/{a}:merge", as_json({"other": 1}), JSON)
hostile("relabel nothing", 422, "POST", "/v1/samples:relabel", as_json({"ids": [], "label": "a"}), JSON)
hostile("relabel numbers", 422, "POST", "/v1/samples:relabel", as_json({"ids": [1], "label": "a"}), JSON)
hostile("relabel classes", 404, "POST", "/v1/samples:relabel", as_json({"ids": ["{a}"], "label": "a"}), JSON)
hostile(
    "relabel 20,000",
    422,
    "POST",
    "/v1/samples:relabel",
    as_json({"ids": [f"{n:x}-0" for n in range(20_000)], "label": "a"}),
    JSON,
)
hostile(
    "relabel half characters",
    (404, 422),
    "POST",
    "/v1/samples:relabel",
    b'{"ids": ["\\ud800"], "label": "a"}',
    JSON,
)
hostile("feedback on nothing", 410, "POST", "/v1/predictions/0123/feedback", b'{"correct": true}', JSON)
hostile(
    "feedback of two kinds",
    422,
    "POST",
    "/v1/predictions/0123/feedback",
    b'{"correct": true, "unknown": true}',
    JSON,
)
hostile("feedback of none", 422, "POST", "/v1/predictions/0123/feedback", b"{}", JSON)
hostile("feedback that is a list", 422, "POST", "/v1/predictions/0123/feedback", b"[1]", JSON)
hostile("review of nothing", 404, "POST", "/v1/review:apply", b'{"ids": ["x"], "dismiss": true}', JSON)
hostile(
    "review that is not dismissed", 422, "POST", "/v1/review:apply", b'{"ids": ["x"], "dismiss": 0}', JSON
)
hostile(
    "review of two kinds",
    422,
    "POST",
    "/v1/review:apply",
    b'{"ids": ["x"], "dismiss": true, "label": "a"}',
    JSON,
)
hostile("classes: limit 0", 422, "GET", "/v1/classes?limit=0")
hostile("classes: a billion", 422, "GET", "/v1/classes?limit=1000000000")
hostile("classes: a long search", 422, "GET", "/v1/classes?q=" + "x" * 10_000)
hostile("export of something else", 422, "GET", "/v1/export?as=../x")
hostile("events: no number", 422, "GET", "/v1/events", Last_Event_ID="x")
hostile("import over a model", 409, "POST", "/v1/import", zipped([]), "application/zip")
hostile("import of another type", 415, "POST", "/v1/import", b"x", "text/plain")

# -- headers

for what, key in {
    "too long": "k" * 256,
    "with a space": "a b",
    "that is empty": "",
    "not ASCII": "\xe9",
    "with a tab": "a\tb",
}.items():
    hostile(f"a key {what}", 422, "POST", "/v1/classes", ONE, JSON, Idempotency_Key=key)
    hostile(f"a key {what}, for a photo", 422, "POST", "/v1/samples?label=x", KIWI, JPEG, Idempotency_Key=key)
raw(
    "two keys",
    422,
    b"POST /v1/classes HTTP/1.1",
    b"Host: {host}",
    b"Content-Type: application/json",
    b"Idempotency-Key: a",
    b"Idempotency-Key: b",
    b"Content-Length: 17",
    b"",
    b'{"label": "kiwi"}',
)
for what, tag in {
    "that is old": '"999"',
    "that is no tag": "rubbish",
    "that is weak": 'W/"1"',
    "of many": ", ".join(['"9"'] * 10),
}.items():
    hostile(f"If-Match {what}", 412, "PATCH", "/v1/classes/{a}", ONE, JSON, If_Match=tag)
    hostile(f"If-Match {what}, removing", 412, "DELETE", "/v1/classes/{a}", If_Match=tag)
    hostile(
        f"If-Match {what}, merging",
        412,
        "POST",
        "/v1/classes/{a}:merge",
        as_json({"other": "{b}"}),
        JSON,
        If_Match=tag,
    )
for host in (
    b"evil.example",
    b"evil.example:80",
    b"localhost.evil.example",
    b"127.0.0.1.evil.example",
    b"localhost:80@evil.example",
    b"evil.example#localhost",
    b"",
    b"[::ffff:8.8.8.8]",
    b"0.0.0.0",
    b"8.8.8.8",
    b"localhost evil.example",
    b"[",
    b"xn--localhost-",
):
    name = host.decode() or "nothing"
    hostile(f"Host {name}", (400, 403), "GET", "/v1/model", host=host)
    hostile(f"Host {name}, a change", (400, 403), "POST", "/v1/classes", ONE, JSON, host=host)
hostile("no Host", (400, 403), "POST", "/v1/classes", ONE, JSON, host=None)
raw(
    "two Hosts",
    (400, 403),
    b"POST /v1/classes HTTP/1.1",
    b"Host: {host}",
    b"Host: evil.example",
    b"Content-Type: application/json",
    b"Content-Length: 17",
    b"",
    b'{"label": "kiwi"}',
)
raw("HTTP/1.0 without Host", (400, 403), b"GET /v1/model HTTP/1.0", b"", b"")
hostile(
    "a foreign X-Forwarded-Host",
    409,
    "POST",
    "/v1/classes",
    as_json({"label": "a"}),
    JSON,
    X_Forwarded_Host="evil.example",
)
for origin in (
    "https://evil.example",
    "null",
    "http://localhost.evil.example",
    "http://localhost:1@evil.example",
    "http://[",
    "file://",
    "localhost",
    "http://localhost, http://evil.example",
    "",
    "http://[::1",
    "http://127.0.0.1.evil.example:8765",
    "javascript://localhost/",
):
    hostile(f"Origin {origin}", 403, "POST", "/v1/classes", ONE, JSON, Origin=origin)
for site in ("cross-site", "same-site", "none", "", "same-origin, cross-site", "Same-Origin"):
    hostile(f"Sec-Fetch-Site {site}", 403, "POST", "/v1/classes", ONE, JSON, Sec_Fetch_Site=site)
    hostile(
        f"Sec-Fetch-Site {site}, teaching",
        403,
        "POST",
        "/v1/samples?label=x",
        KIWI,
        JPEG,
        Sec_Fetch_Site=site,
        Origin="http://127.0.0.1",
    )
    hostile(f"Sec-Fetch-Site {site}, removing", 403, "DELETE", "/v1/classes/{a}", Sec_Fetch_Site=site)

# -- the protocol itself

for method in ("HEAD", "OPTIONS", "TRACE", "PUT", "PROPFIND"):
    hostile(f"{method} of a call", 405, method, "/v1/classes")
hostile("CONNECT", (400, 403, 404, 405), "CONNECT", "evil.example:443")
hostile("a proxy's target", (404, 405), "POST", "http://evil.example/v1/nothing", ONE, JSON)
hostile("a made-up method", (400, 405), "HACK", "/v1/classes")
hostile("a query of 1 MB", (400, 414, 422, 431), "GET", "/v1/classes?q=" + "x" * MB)
hostile("10,000 parameters", (400, 414, 422, 431), "GET", "/v1/classes?limit=0&" + "a=1&" * 10_000)
hostile("a path of 1 MB", (400, 404, 414, 431), "GET", "/v1/" + "x" * MB)
hostile(
    "10,000 headers", (400, 431), "GET", "/v1/classes?limit=0", **{f"X_{n}": "y" * 50 for n in range(10_000)}
)
hostile("a header of 5 MB", (400, 431), "GET", "/v1/classes?limit=0", X_Long="y" * 5 * MB)
raw(
    "Content-Length with Transfer-Encoding",
    (400, 422),
    b"POST /v1/classes HTTP/1.1",
    b"Host: {host}",
    b"Content-Length: 5",
    b"Transfer-Encoding: chunked",
    b"",
    b"0",
    b"",
    b"",
)
raw(
    "two Content-Lengths",
    400,
    b"POST /v1/classes HTTP/1.1",
    b"Host: {host}",
    b"Content-Type: application/json",
    b"Content-Length: 17",
    b"Content-Length: 1",
    b"",
    b'{"label": "kiwi"}',
)
raw(
    "a Content-Length with a sign",
    400,
    b"POST /v1/classes HTTP/1.1",
    b"Host: {host}",
    b"Content-Length: +17",
    b"",
    b'{"label": "kiwi"}',
)
raw(
    "a negative Content-Length",
    400,
    b"POST /v1/classes HTTP/1.1",
    b"Host: {host}",
    b"Content-Length: -1",
    b"",
    b"",
)
raw(
    "a Content-Length past 2^64",
    (400, 413),
    b"POST /v1/classes HTTP/1.1",
    b"Host: {host}",
    b"Content-Length: 99999999999999999999",
    b"",
    b"",
)
raw(
    "a Content-Length of a terabyte",
    413,
    b"POST /v1/predict HTTP/1.1",
    b"Host: {host}",
    b"Content-Type: image/jpeg",
    b"Content-Length: 1000000000000",
    b"",
    b"",
)
raw(
    "Transfer-Encoding of a made-up kind",
    (400, 501),
    b"POST /v1/classes HTTP/1.1",
    b"Host: {host}",
    b"Transfer-Encoding: xchunked",
    b"",
    b'{"label": "kiwi"}',
)
raw(
    "chunks of a wrong size",
    400,
    b"POST /v1/classes HTTP/1.1",
    b"Host: {host}",
    b"Content-Type: application/json",
    b"Transfer-Encoding: chunked",
    b"",
    b"zz",
    b'{"label": "kiwi"}',
    b"0",
    b"",
    b"",
)
raw(
    "a folded header",
    400,
    b"POST /v1/classes HTTP/1.1",
    b"Host: {host}",
    b"X-Long: a",
    b" b",
    b"Content-Type: application/json",
    b"Content-Length: 19",
    b"",
    b'{"label": "folded"}',
)
raw(
    "a space before the colon",
    400,
    b"POST /v1/classes HTTP/1.1",
    b"Host: {host}",
    b"Content-Length : 17",
    b"",
    b'{"label": "kiwi"}',
)
raw(
    "lines that end in LF alone",
    400,
    b"POST /v1/classes HTTP/1.1",
    b"Host: {host}",
    b"Content-Type: application/json",
    b"Content-Length: 15",
    b"",
    b'{"label": "lf"}',
    end=b"\n",
)
raw("NUL in a header", 400, b"GET /v1/classes HTTP/1.1", b"Host: {host}", b"X-Nul: a\0b", b"", b"")
raw("no HTTP at all", 400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"", b"")
raw("HTTP/2 without a word", 400, b"PRI * HTTP/2.0", b"", b"SM", b"", b"")
raw("HTTP/9.9", 400, b"GET /v1/model HTTP/9.9", b"Host: {host}", b"", b"")
raw(
    "a WebSocket",
    (400, 404, 405, 426),
    b"GET /v1/nothing HTTP/1.1",
    b"Host: {host}",
    b"Upgrade: websocket",
    b"Connection: Upgrade",
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    b"Sec-WebSocket-Version: 13",
    b"",
    b"",
)
raw(
    "a body over the limit, in chunks",
    413,
    b"POST /v1/predict HTTP/1.1",
    b"Host: {host}",
    b"Content-Type: image/jpeg",
    b"Transfer-Encoding: chunked",
    b"",
    *[b"100000\r\n" + b"\xff" * 2**20] * 24,
    b"0",
    b"",
    b"",
)
raw(
    "a body over the limit",
    413,
    b"POST /v1/samples?label=x HTTP/1.1",
    b"Host: {host}",
    b"Content-Type: image/jpeg",
    b"Content-Length: 25000000",
    b"",
    b"\xff" * 25 * MB,
)


# -- the tests


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    path = tmp_path_factory.mktemp("network") / "tiny.onnx"
    write_network(path, 0)
    return path


@pytest.fixture(scope="module")
def service(tmp_path_factory, network):
    """A service that has learned something, and has had large bodies."""
    folder = tmp_path_factory.mktemp("hostile")
    with running(folder / "shop.xlda", backbone=network) as service:
        service.teach("a", photo("red", 1))
        service.learn(*blobs(30, seed=1))
        service.predict(KIWI)
        service.predict(b"\xff\xd8\xff" + b"\0" * 19 * MB, 422)
        service.a, service.b = service.id_of("a"), service.id_of("b")
        yield service
        assert service.end() == 0
        errors = [line for line in service.lines if "Traceback" in line or "a request failed" in line]
        assert not errors, "".join(service.lines)[-5000:]


def sent(service, case):
    """The bytes of a case, of this service: lengths are right again after names were filled in."""
    content = case.content
    if b"{host}" not in content and b"{a}" not in content:
        return content
    content = content.replace(b"{host}", b"127.0.0.1:%d" % service.port)
    head, end, body = content.partition(b"\r\n\r\n")
    filled = body.replace(b"{a}", service.a.encode()).replace(b"{b}", service.b.encode())
    if filled != body:
        head = head.replace(b"Content-Length: %d" % len(body), b"Content-Length: %d" % len(filled))
    return head.replace(b"{a}", service.a.encode()) + end + filled


def refused(service, case):
    """Send it; the status must be right, and the answer a problem."""
    received = service.raw(sent(service, case))
    status, problem = status_of(received)
    expected = case.expect if isinstance(case.expect, tuple) else (case.expect,)
    assert status in expected, received[:600]
    head = received.partition(b"\r\n\r\n")[0].lower()
    assert b"content-type: application/problem+json" in head
    assert b"cache-control: no-store" in head
    if not case.content.startswith(b"HEAD"):
        assert problem["status"] == status
        assert {"type", "title", "detail"} <= set(problem)
        assert problem["detail"].endswith(".")
        assert len(problem["detail"]) < 400


def test_there_are_enough_of_them():
    assert len(TABLE) > 200
    assert len({case.name for case in TABLE}) == len(TABLE)


@pytest.mark.parametrize("case", TABLE, ids=[case.name for case in TABLE])
def test_it_is_refused_and_nothing_changes(service, case):
    before = service.state()
    refused(service, case)
    assert service.get("/healthz") == {"status": "ok"}
    assert service.state() == before
    assert service.process.poll() is None


def test_memory_is_bounded(service):
    before = service.resident()
    for case in TABLE:
        refused(service, case)
    time.sleep(0.1)
    assert service.resident() < before + 40 * MB
    peak = Path(f"/proc/{service.process.pid}/status").read_text().partition("VmHWM:")[2].split()[0]
    assert int(peak) * 1024 < before + 200 * MB


def test_the_service_still_works_and_wrote_nothing_elsewhere(service):
    assert service.predict(photo("red", 1))["seq"] == service.seq
    assert service.teach("a", photo("red", 2))["seq"] == service.seq
    folder = service.model.parent
    assert {path.name for path in folder.iterdir()} <= {"shop.xlda", "shop.xlda.lock", "shop.xlda.service"}
