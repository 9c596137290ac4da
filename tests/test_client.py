"""The client of a service: what it sends, when it sends it again, and what it makes of answers."""

from __future__ import annotations

import asyncio
import inspect
import io
import itertools
import pickle
import subprocess
import sys

import numpy as np
import pytest

httpx = pytest.importorskip("httpx")

from fake_service import Refusal  # noqa: E402
from xlda.client import (  # noqa: E402
    AsyncClient,
    Client,
    NoServiceError,
    NoSuchClassError,
    RefusedSampleError,
    ServiceError,
    asynchronous,
    sending,
    synchronous,
)
from xlda.client.event_stream import EventReader  # noqa: E402
from xlda.errors import BadSampleError, UnknownClassError, XLDAError  # noqa: E402

pytest_plugins = ("fake_service",)
JPEG = b"\xff\xd8\xff\xe0 a kiwi"
PNG = b"\x89PNG\r\n\x1a\n a pear"
WEBP = b"RIFF\0\0\0\0WEBP a lime"


class InLoop:
    """The asynchronous client, called as the other one is."""

    def __init__(self, url, *args, **kwargs):
        self.loop = asyncio.new_event_loop()
        self.inner = AsyncClient(url, *args, **kwargs)

    def __getattr__(self, name):
        found = getattr(self.inner, name)
        if not callable(found):
            return found

        def called(*args, **kwargs):
            made = found(*args, **kwargs)
            return self.each(made) if hasattr(made, "__anext__") else self.loop.run_until_complete(made)

        return called

    def __repr__(self):
        return repr(self.inner)

    def each(self, found):
        try:
            while True:
                try:
                    yield self.loop.run_until_complete(found.__anext__())
                except StopAsyncIteration:
                    return
        finally:
            self.loop.run_until_complete(found.aclose())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.loop.run_until_complete(self.inner.close())
        self.loop.close()


@pytest.fixture(params=[Client, InLoop], ids=["sync", "async"])
def kind(request):
    return request.param


@pytest.fixture
def shop(service, kind):
    with kind(service.url) as made:
        yield made


@pytest.fixture(autouse=True)
def waits(monkeypatch):
    """How long it waited each time, in seconds; it does not."""
    waited = []

    async def later(seconds):
        waited.append(seconds)

    monkeypatch.setattr(synchronous.time, "sleep", waited.append)
    monkeypatch.setattr(asynchronous.anyio, "sleep", later)
    return waited


def keys(service):
    return [request.key for request in service.requests]


# -- what is sent, and what comes back


def test_photos_are_taught_and_predicted(service, shop, tmp_path):
    empty = shop.predict(JPEG)
    assert (empty.label, empty.class_id, empty.top, empty.seq) == (None, None, (), 0)
    taught = shop.teach(JPEG, "kiwi & co/ä", group="visit 7")
    assert (taught.label, taught.new_class, taught.warnings, taught.seq) == ("kiwi & co/ä", True, (), 1)
    assert not taught.replayed
    assert service.requests[-1].query == {"label": ["kiwi & co/ä"], "group": ["visit 7"]}
    (tmp_path / "one.bin").write_bytes(PNG + b"dark")
    assert shop.teach(tmp_path / "one.bin", "pear").warnings == ("It is dark.",)
    found = shop.predict(str(tmp_path / "one.bin"), k=1, unknown=0.05, among=["pear", "kiwi & co/ä"])
    assert (found.label, found.class_id, found.probability, found.p_known) == ("pear", "c2", 0.75, 0.5)
    assert found.top == (("pear", "c2", 0.75),)
    assert found.seq == 2
    asked = {"k": ["1"], "unknown": ["0.05"], "among": ["pear", "kiwi & co/ä"]}
    assert service.requests[-1].query == asked
    shop.predict(memoryview(JPEG))
    assert service.requests[-1].query == {}


@pytest.mark.parametrize(
    ("photo", "expected"),
    [(JPEG, "image/jpeg"), (PNG, "image/png"), (WEBP, "image/webp"), (b"GIF89a", "image/jpeg")],
)
def test_what_a_photo_is_is_told_by_its_first_bytes(service, shop, photo, expected):
    try:
        shop.predict(photo)
    except RefusedSampleError:
        assert photo.startswith(b"GIF")
    assert service.requests[-1].headers["content-type"] == expected
    assert service.requests[-1].body == photo


@pytest.mark.parametrize(("given", "sent"), [("f4", "f4"), ("f2", "f2"), ("f8", "f4"), ("i8", "f4")])
def test_embeddings_are_sent_as_float32_or_float16(service, shop, given, sent):
    X = np.arange(12).reshape(4, 3).astype(given)
    assert [(one.id, one.seq, one.top) for one in shop.predict(X)] == [(None, 0, ())] * 4
    assert service.requests[-1].headers["content-type"] == "application/x-npy"
    arrived = np.load(io.BytesIO(service.requests[-1].body), allow_pickle=False)
    assert arrived.dtype == sent
    np.testing.assert_array_equal(arrived, X)


def test_embeddings_are_taught_without_objects(service, shop):
    X = np.ones((3, 2), np.float32)
    done = shop.teach_embeddings(X, ["a", "ä longer", "a"], ["g", "g", "h"], backbone="tiny")
    assert (done.learned, done.new_classes, done.seq) == (3, ("a", "ä longer"), 1)
    assert service.requests[-1].headers["xlda-backbone"] == "tiny"
    with np.load(io.BytesIO(service.requests[-1].body), allow_pickle=False) as file:
        assert file["label"].dtype.kind == file["group"].dtype.kind == "U"
        assert file["group"].tolist() == ["g", "g", "h"]
    labels = np.array(["b", "c", "d"], dtype=object)
    assert shop.teach_embeddings(X, labels).new_classes == ("b", "c", "d")


@pytest.mark.parametrize(
    ("X", "labels", "groups"),
    [
        (np.ones((2, 3)), ["a"], None),
        (np.ones((2, 3)), ["a", "b"], ["g"]),
        (np.ones((2, 3)), ["a", 1], None),
        (np.ones(3), ["a", "b", "c"], None),
        (np.array([["a"]]), ["a"], None),
    ],
)
def test_embeddings_that_cannot_be_are_not_sent(service, shop, X, labels, groups):
    with pytest.raises(BadSampleError):
        shop.teach_embeddings(X, labels, groups)
    assert service.requests == []


CHANGES = [
    (lambda c, **k: c.relabel("s/1", "b", **k), "PATCH", "/v1/samples/s%2F1", {"label": "b"}),
    (lambda c, **k: c.relabel(["s1", "s2"], "b", **k), "POST", "/v1/samples:relabel", None),
    (lambda c, **k: c.forget("s1", **k), "DELETE", "/v1/samples/s1", None),
    (
        lambda c, **k: c.feedback("p", correct=True, **k),
        "POST",
        "/v1/predictions/p/feedback",
        {"correct": True},
    ),
    (lambda c, **k: c.feedback("p", label="b", **k), "POST", "/v1/predictions/p/feedback", {"label": "b"}),
    (lambda c, **k: c.feedback("p", not_="c1", **k), "POST", "/v1/predictions/p/feedback", {"not": "c1"}),
    (
        lambda c, **k: c.feedback("p", unknown=True, **k),
        "POST",
        "/v1/predictions/p/feedback",
        {"unknown": True},
    ),
    (lambda c, **k: c.undo(17, **k), "POST", "/v1/events/17:undo", None),
    (lambda c, **k: c.undo(seqs=[1, 2], **k), "POST", "/v1/events:undo", {"seqs": [1, 2]}),
    (lambda c, **k: c.undo(group="g", **k), "POST", "/v1/events:undo", {"group": "g"}),
    (lambda c, **k: c.add_class("ä", **k), "POST", "/v1/classes", {"label": "ä"}),
    (lambda c, **k: c.rename_class("c1", "b", **k), "PATCH", "/v1/classes/c1", {"label": "b"}),
    (lambda c, **k: c.merge_classes("c1", "c2", **k), "POST", "/v1/classes/c1:merge", {"other": "c2"}),
    (lambda c, **k: c.remove_class("c1", **k), "DELETE", "/v1/classes/c1", None),
    (
        lambda c, **k: c.review_apply(["r1"], dismiss=True, **k),
        "POST",
        "/v1/review:apply",
        {"ids": ["r1"], "dismiss": True},
    ),
]


@pytest.mark.parametrize(("change", "method", "path", "said"), CHANGES)
def test_changes(service, shop, change, method, path, said):
    done = change(shop)
    again = change(shop, key="my-key")
    last = change(shop, key="my-key")
    assert (done.seq, again.seq, last.seq) == (1, 2, 2)
    assert (done.replayed, again.replayed, last.replayed) == (False, False, True)
    first, second, third = service.requests
    assert (first.method, first.path) == (method, path)
    if said is not None:
        assert first.json == said
        assert first.headers["content-type"] == "application/json"
    assert len(first.key) == 32
    assert second.key == third.key == "my-key"


def test_one_thing_is_said_at_a_time(service, shop):
    for wrong in (
        lambda: shop.feedback("p"),
        lambda: shop.feedback("p", correct=True, label="b"),
        lambda: shop.undo(),
        lambda: shop.undo(1, group="g"),
        lambda: shop.review_apply(["r"], label="a", dismiss=True),
    ):
        with pytest.raises(TypeError, match="Give one of"):
            wrong()
    for key in ("", "a b", "ä", "a" * 256):
        with pytest.raises(ValueError, match="visible ASCII"):
            shop.forget("s1", key=key)
    assert service.requests == []


def test_feedback_needs_a_prediction_that_has_an_id(service, shop):
    with pytest.raises(TypeError, match="Predictions of embeddings have none"):
        shop.feedback(None, correct=True)
    assert service.requests == []


def test_an_etag_goes_back(service, shop):
    shop.teach(JPEG, "kiwi")
    found = shop.class_("c1")
    assert (found.label, found.etag, found.samples) == ("kiwi", '"7"', ({"id": "s1"},))
    shop.rename_class("c1", "b", if_match=found.etag)
    assert service.requests[-1].headers["if-match"] == '"7"'


def test_classes_come_page_after_page_as_they_are_used(service, shop):
    for n in range(5):
        shop.teach(JPEG + bytes([n]), f"c{n}")
    service.requests.clear()
    found = shop.classes("c", limit=2)
    assert service.requests == []
    assert [one.label for one in itertools.islice(found, 2)] == ["c0", "c1"]
    assert len(service.requests) == 1
    assert [one.label for one in found] == ["c2", "c3", "c4"]
    asked = [request.query for request in service.requests]
    assert asked == [{"q": ["c"], "limit": ["2"], **({"after": [a]} if a else {})} for a in ("", "2", "4")]


def test_pages_that_lead_in_a_circle_end(service, shop, monkeypatch):
    page = {"classes": [{"id": "c1", "label": "a", "count": 1}], "next": "same"}
    monkeypatch.setattr(service, "classes", lambda request: page)
    assert len(list(itertools.islice(shop.classes(), 9))) == 2


def test_what_is_only_read(service, shop):
    shop.teach(JPEG, "kiwi")
    model = shop.model()
    assert (model.classes, model.samples, model.seq, model.backbone) == (1, 1, 1, {"name": "tiny"})
    assert model.more["disk"] == {"used": 1}
    for name, path in (("history", "model/history"), ("confusable", "confusable"), ("review", "review")):
        assert getattr(shop, name)() == {"of": f"/v1/{path}"}
    assert shop.photo("samples", "s1", 256).startswith(b"{")
    assert service.requests[-1].path == "/v1/samples/s1/photo"
    assert service.requests[-1].query == {"size": ["256"]}
    assert all(request.key is None for request in service.requests[1:])


def test_a_sub_path_stays(service, kind):
    with kind(service.url + "/shop/") as shop:
        shop.review()
    assert service.requests[-1].path == "/shop/v1/review"


# -- again


def test_a_change_whose_answer_was_lost_is_made_once(service, shop, waits):
    service.fail = ["cut after", Refusal(503, "Full."), "cut"]
    taught = shop.teach(JPEG, "kiwi")
    assert len(service.samples) == 1
    assert taught.replayed
    assert len(service.requests) == 4
    assert len(set(keys(service))) == 1
    assert {request.body for request in service.requests} == {JPEG}
    assert len(waits) == 3
    assert shop.teach(PNG, "pear").id == "s2"
    assert service.requests[-1].key != service.requests[0].key


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_what_may_pass_is_tried_again(service, shop, status):
    service.fail = [Refusal(status, "Later.")]
    shop.predict(JPEG)
    service.fail = [Refusal(status, "Later.")]
    shop.model()
    assert len(service.requests) == 4


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 500, 507])
def test_what_will_not_pass_is_not(service, shop, status):
    service.fail = [Refusal(status, "No, and this is the cure.")]
    with pytest.raises(ServiceError, match=r"^No, and this is the cure\.$") as found:
        shop.teach(JPEG, "kiwi")
    assert (found.value.status, found.value.title) == (status, "Refused")
    assert len(service.requests) == 1
    assert not isinstance(found.value, BadSampleError)


def test_waits_grow_and_are_never_the_same(service, shop, waits):
    service.fail = [Refusal(503, "Full.")] * 99
    with pytest.raises(ServiceError, match="Full"):
        shop.model()
    assert len(service.requests) == 5
    expected = [sending.FIRST_WAIT * 2**n for n in range(4)]
    assert all(full / 2 <= wait <= full for wait, full in zip(waits, expected, strict=True))
    with pytest.raises(ServiceError):
        shop.model()
    assert waits[:4] != waits[4:]


@pytest.mark.parametrize(
    ("headers", "least"),
    [
        ({"Retry_After": "7"}, 7),
        ({"Retry_After": "Wed, 21 Oct 2015 07:28:09 GMT", "Date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 9),
        ({"Retry_After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
    ],
)
def test_a_wait_that_is_asked_for_is_kept(service, shop, waits, headers, least, monkeypatch):
    monkeypatch.setattr("fake_service.Handler.date_time_string", lambda self: headers.get("Date", "nothing"))
    service.fail = [Refusal(429, "Later.", **{n: v for n, v in headers.items() if n != "Date"})]
    shop.model()
    assert len(waits) == 1
    assert least <= waits[0] <= least + sending.FIRST_WAIT


def test_a_wait_of_an_hour_is_not_kept(service, shop, waits):
    service.fail = [Refusal(503, "In an hour.", Retry_After="3600")]
    with pytest.raises(ServiceError, match="hour"):
        shop.model()
    assert waits == []


def test_without_retries_it_tries_once(service, kind):
    service.fail = ["cut"]
    with kind(service.url, retries=0) as shop, pytest.raises(NoServiceError, match="broke off"):
        shop.model()
    assert len(service.requests) == 1


def test_a_service_that_is_slow_is_asked_again(service, kind):
    service.hold.clear()
    with kind(service.url, retries=1, timeout=0.1) as shop, pytest.raises(NoServiceError, match="in time"):
        shop.teach(JPEG, "kiwi")
    service.hold.set()
    assert len(service.requests) == 2
    assert len(set(keys(service))) == 1


def test_nobody_there(kind, waits):
    with kind("http://127.0.0.1:1", token="xlda_secret") as shop:
        with pytest.raises(NoServiceError) as found:
            shop.teach(JPEG, "kiwi")
        assert str(found.value) == (
            "No xlda service answers at http://127.0.0.1:1. Start one with `xlda serve`."
        )
        assert len(waits) == 4
        assert isinstance(found.value, ConnectionError)


def test_a_certificate_that_is_not_trusted_is_said_at_once(waits):
    def refuse(request):
        raise httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed")

    with (
        Client("https://shop", transport=httpx.MockTransport(refuse)) as shop,
        pytest.raises(NoServiceError, match="certificate that is not trusted"),
    ):
        shop.model()
    assert waits == []


# -- errors and tokens


def test_refusals_are_errors_of_xlda_where_one_fits(service, shop):
    with pytest.raises(RefusedSampleError, match="no JPEG") as found:
        shop.teach(b"GIF89a", "kiwi")
    assert isinstance(found.value, BadSampleError)
    assert found.value.status == 415
    with pytest.raises(NoSuchClassError) as other:
        shop.class_("c7")
    assert isinstance(other.value, UnknownClassError)
    copy = pickle.loads(pickle.dumps(found.value))
    assert (type(copy), str(copy), copy.status) == (RefusedSampleError, str(found.value), 415)
    assert isinstance(copy, XLDAError)


@pytest.mark.parametrize(
    ("status", "content", "said"),
    [
        (200, b"<html>", "no JSON"),
        (200, b"[]", "no object"),
        (200, b'{"label": 1}', "without"),
        (404, b"<html>", "404 Not Found"),
        (500, b"[1]", "500 Internal Server Error"),
        (307, b"", "elsewhere: at https://other/"),
    ],
)
def test_answers_that_are_no_services(status, content, said):
    def answer(request):
        return httpx.Response(status, content=content, headers={"Location": "https://other/"})

    with (
        Client("http://shop", transport=httpx.MockTransport(answer)) as shop,
        pytest.raises(ServiceError, match=said),
    ):
        shop.undo(1)


def test_tokens_are_sent_and_never_shown(service, kind):
    service.token = "xlda_secret"
    with kind(service.url, "xlda_secret") as shop:
        assert shop.model().seq == 0
        assert "secret" not in repr(shop) + repr(vars(getattr(shop, "inner", shop)))
    with kind(service.url, token="xlda_wrong_secret") as shop, pytest.raises(ServiceError) as found:
        shop.model()
    assert found.value.status == 401
    assert "secret" not in f"{found.value!r} {found.value.__cause__}"
    with pytest.raises(ValueError, match="visible") as refused:
        Client(service.url, token="xlda_sécret\n")
    assert "cret" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["", "shop", "ftp://shop", "http://", "http://a/?token=b", "http://a:b:c", None]
)
def test_addresses_that_are_none(url):
    with pytest.raises(ValueError, match="address of a service"):
        Client(url)


def test_a_password_in_an_address_is_refused_and_not_shown():
    with pytest.raises(ValueError, match="no name and password") as found:
        Client("http://me:secret@shop")
    assert "secret" not in str(found.value)


# -- events


def test_a_stream_that_breaks_is_resumed(service, shop, waits):
    service.streams = [
        [b': hello\n\nid: 3\nevent: taught\ndata: {"label": "a"}\n\n', b"id: 4\ndata: {"],
        [b"retry: 1500\nid: 4\ndata: 4\n\n", b"id: 5\ndata: 5\n\n"],
    ]
    found = list(shop.events(last_event_id=2))
    assert [(one.id, one.kind, one.data) for one in found] == [
        ("3", "taught", {"label": "a"}),
        ("4", "message", 4),
        ("5", "message", 5),
    ]
    last = [request.headers.get("last-event-id") for request in service.requests]
    assert last == ["2", "3", "5"]  # the third is told that there is no more
    assert waits[1] == 1.5


def test_a_stream_comes_back_after_a_pause_of_the_service(service, shop, waits):
    service.fail = ["cut", Refusal(503, "Starting."), "cut", None, "cut", "cut", "cut"]  # never five in a row
    service.streams = [[b"id: 1\ndata: 1\n\n"], [b"id: 2\ndata: 2\n\n"]]
    assert [one.data for one in shop.events()] == [1, 2]
    assert "last-event-id" not in service.requests[0].headers
    service.fail = ["cut"] * 5
    with pytest.raises(NoServiceError):
        list(shop.events())
    service.fail = [Refusal(403, "Not you.")]
    with pytest.raises(ServiceError, match="Not you"):
        list(shop.events())


def test_a_stream_that_is_left_is_closed(service, shop):
    service.streams = [[b"id: 1\ndata: 1\n\nid: 2\ndata: 2\n\n"]]
    stream = shop.events()
    assert next(stream).data == 1
    stream.close()
    assert len(service.requests) == 1


TEXT = (
    'id: 1\ndata: {"label": "a\u2028b\u0085c"}\r\n\r\ndata: x\rdata:y\r\r\nid\ndata\n\nid: 9\n\n:\n\n'
    "event: e\r\ndata: 1\r\n\r\n"
)


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_events_are_read_from_pieces_of_any_size(size):
    content = TEXT.encode()
    reader = EventReader()
    pieces = [content[at : at + size] for at in range(0, len(content), size)]
    found = [event for piece in pieces for event in reader.feed(piece)]
    assert [(one.id, one.data) for one in found] == [
        ("1", {"label": "a\u2028b\u0085c"}),
        ("1", "x\ny"),
        ("", ""),
        ("9", 1),
    ]
    assert [one.kind for one in found] == ["message", "message", "message", "e"]


# -- files


def test_an_export_is_written_whole(service, shop, tmp_path):
    service.cut_export = 2
    shop.export(tmp_path / "copy.xlda")
    assert (tmp_path / "copy.xlda").read_bytes() == service.export
    assert [path.name for path in tmp_path.iterdir()] == ["copy.xlda"]
    shop.export(tmp_path / "photos.zip", as_="imagefolder")
    assert service.requests[-1].query == {"as": ["imagefolder"]}


def test_a_download_that_is_cut_leaves_no_file_and_no_other(service, shop, tmp_path):
    service.cut_export = 99
    with pytest.raises(NoServiceError, match="broke off"):
        shop.export(tmp_path / "copy.xlda")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "copy.xlda").write_text("the last one")
    with pytest.raises(NoServiceError):
        shop.export(tmp_path / "copy.xlda")
    assert (tmp_path / "copy.xlda").read_text() == "the last one"
    service.fail = [Refusal(403, "Not you.")]
    with pytest.raises(ServiceError, match="Not you"):
        shop.export(tmp_path / "copy.xlda")
    n = len(service.requests)
    with pytest.raises(FileNotFoundError):
        shop.export(tmp_path / "no folder" / "copy.xlda")
    assert len(service.requests) == n


def test_an_import_is_sent_whole_each_time(service, shop, tmp_path):
    content = bytes(range(256)) * 4000
    (tmp_path / "copy.xlda").write_bytes(content)
    service.fail = ["cut after"]
    assert shop.import_(tmp_path / "copy.xlda").replayed
    assert [request.body for request in service.requests] == [content] * 2
    with pytest.raises(FileNotFoundError):
        shop.import_(tmp_path / "none.xlda")


# -- the package


def test_both_clients_have_the_same_methods():
    public = [name for name in dir(Client) if not name.startswith("_")]
    assert public == [name for name in dir(AsyncClient) if not name.startswith("_")]
    for name in public:
        one, other = getattr(Client, name), getattr(AsyncClient, name)
        if callable(one):
            there, here = inspect.signature(one), inspect.signature(other)
            assert list(there.parameters.values()) == list(here.parameters.values()), name
            assert one.__doc__ == other.__doc__


def test_it_imports_nothing_heavy():
    code = "import sys; import xlda.client; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in run.stdout.split()}
    assert not loaded & {"numpy", "scipy", "sklearn", "onnxruntime", "PIL", "pyarrow"}


def test_it_says_what_it_needs():
    code = "import sys; sys.modules['httpx'] = None; import xlda.client"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "xlda.client needs httpx: pip install" in run.stderr
    assert "[client]" in run.stderr
