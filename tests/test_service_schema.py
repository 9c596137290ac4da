"""The OpenAPI document of a service is true: whatever it allows or forbids is answered as it says."""

from __future__ import annotations

import os

import pytest

for module in ("apsw", "fastapi", "uvicorn", "httpx", "onnxruntime", "onnx", "PIL", "typer"):
    pytest.importorskip(module)
schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis, which the extra dev has")

from hypothesis import HealthCheck, Phase, given, settings, strategies  # noqa: E402
from hypothesis.errors import Unsatisfiable  # noqa: E402
from schemathesis import GenerationMode  # noqa: E402
from schemathesis.checks import not_a_server_error  # noqa: E402
from schemathesis.specs.openapi.checks import (  # noqa: E402
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from cli_shop import write_network  # noqa: E402
from service_under_test import JPEG, NPY, NPZ, PNG, WEBP, blobs, npy, npz, photo, running  # noqa: E402

EXAMPLES = int(os.environ.get("SCHEMA_EXAMPLES", "12"))  # of each call
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]


# What files of these kinds are; some that are none are sent as well.
X, Y = blobs(3)
FILES = {
    JPEG: photo("red", 1),
    PNG: photo("green", 2, form="PNG"),
    WEBP: photo("blue", 3, form="WEBP"),
    NPY: npy(X),
    NPZ: npz(embedding=X, label=Y),
}
for kind, content in FILES.items():
    schemathesis.openapi.media_type(kind, strategies.sampled_from([content, content, content[:50], b""]))


@schemathesis.serializer(*FILES)
def as_it_is(context, value):
    return value if isinstance(value, bytes) else repr(value).encode("utf-8", "replace")


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("schema")
    write_network(folder / "tiny.onnx", 0)
    with running(folder / "shop.xlda", backbone=folder / "tiny.onnx") as service:
        service.teach("red", photo("red", 1))
        service.learn(*blobs(12))
        yield service
        assert service.end() == 0
        assert "Traceback" not in "".join(service.lines), "".join(service.lines)[-5000:]


@pytest.fixture(scope="module")
def api(service):
    found = schemathesis.openapi.from_url(service.url + "openapi.json")
    # The stream of events has no end, an import would need a whole backup, and a fleet other services: all
    # have tests of their own.
    return found.exclude(path_regex="^/v1/(events|import|sync|contributions)$")


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_calls_are_as_the_document_says(api, mode):
    """Requests that the document allows, and such as it forbids; all calls are tried before it fails."""
    failures = []
    for found in api.get_all_operations():
        operation = found.ok()

        @settings(
            max_examples=EXAMPLES,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
            deadline=None,
            derandomize=True,
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def run(case):
            case.call_and_validate(checks=CHECKS)

        try:
            run()
        except Unsatisfiable:
            pass  # nothing that it forbids can be sent
        except (Exception, BaseExceptionGroup) as error:
            failures.append(f"{operation.label}: {explained(error)}")
    assert not failures, "\n\n".join(failures)


def explained(error):
    """What is wrong, of one failure or of a group of them."""
    parts = getattr(error, "exceptions", None)
    return "; ".join(map(explained, parts)) if parts else f"{type(error).__name__}: {error}"


def test_the_document_describes_every_call(service):
    document = service.get("/openapi.json")
    for path, methods in document["paths"].items():
        for method, call in methods.items():
            assert call["description"], path
            refused = {code: one for code, one in call["responses"].items() if code >= "400"}
            assert {"401", "403", "422", "429", "503"} <= set(refused), path
            for one in refused.values():
                assert list(one["content"]) == ["application/problem+json"], path
            if path.endswith((":undo", ":batch", ":relabel", ":merge", ":apply", "/feedback", "/session")):
                assert path == "/v1/events/{seq}:undo" or call["requestBody"]["content"], path
            if method == "patch":
                assert "application/json" in call["requestBody"]["content"]
