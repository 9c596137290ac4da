"""Tokens of a service, and the command that makes them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import subprocess
import sys

import pytest

from xlda.errors import DamagedFileError, NewerFileError
from xlda.service.tokens import Token, Tokens

pytest_plugins = ("cli_shop",)


def entry(**changed):
    right = {"name": "till", "scopes": ["teach"], "sha256": "0" * 64, "created": "2026-01-01T00:00:00+00:00"}
    return {**right, **changed}


def test_a_token_is_found_by_its_text_and_kept_as_a_hash(tmp_path):
    tokens, text = Tokens().with_new("till", ["teach"])
    tokens, other = tokens.with_new("page", ["read", "read"])
    tokens.write(tmp_path / "tokens.json")
    written = (tmp_path / "tokens.json").read_text()
    assert text not in written
    assert text.removeprefix("xlda_") not in written
    stored = json.loads(written)
    assert stored["version"] == 1
    assert stored["tokens"][0]["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    again = Tokens.read(tmp_path / "tokens.json")
    assert again.of(text) == Token(
        "till", ("teach",), *(stored["tokens"][0][k] for k in ("sha256", "created"))
    )
    assert again.of(other).scopes == ("read",)
    for wrong in ("", text[:-1], text + "a", "xlda_", stored["tokens"][0]["sha256"], "\udcff"):
        assert again.of(wrong) is None
    assert re.fullmatch(r"xlda_[\w-]{43}", text)
    assert text != other
    assert stored["tokens"][0]["sha256"] not in repr(again.of(text))


@pytest.mark.parametrize(
    ("scopes", "allowed"),
    [
        (("read",), {"read"}),
        (("teach",), {"read", "teach"}),
        (("admin",), {"read", "teach", "admin"}),
        (("sync",), {"read", "sync"}),
        (("sync", "teach"), {"read", "sync", "teach"}),
    ],
)
def test_what_scopes_include(scopes, allowed):
    token = Token("one", scopes)
    assert {scope for scope in ("read", "teach", "admin", "sync", "other") if token.may(scope)} == allowed


@pytest.mark.skipif(os.name == "nt", reason="modes are of Unix")
def test_the_file_is_its_owners_from_the_start_and_again(tmp_path):
    path = tmp_path / "tokens.json"
    before = os.umask(0)
    try:
        Tokens().write(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.chmod(0o644)
        Tokens().write(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "no list"),
        ({"version": 1}, "no list"),
        ({"tokens": []}, "version"),
        ({"version": True, "tokens": []}, "version"),
        ({"version": 0, "tokens": []}, "version"),
        ({"version": 1, "tokens": ["till"]}, "token 1 has no right name"),
        ({"version": 1, "tokens": [entry(name="a b")]}, "no right name"),
        ({"version": 1, "tokens": [entry(name="a\n")]}, "no right name"),
        ({"version": 1, "tokens": [entry(scopes=[])]}, "scopes of till"),
        ({"version": 1, "tokens": [entry(scopes="teach")]}, "scopes of till"),
        ({"version": 1, "tokens": [entry(scopes=["root"])]}, "scopes of till"),
        ({"version": 1, "tokens": [entry(scopes=[["read"]])]}, "scopes of till"),
        ({"version": 1, "tokens": [entry(sha256="0" * 63)]}, "sha256 of till"),
        ({"version": 1, "tokens": [entry(), entry()]}, "same name"),
    ],
)
def test_a_file_that_is_not_right_is_refused(tmp_path, content, said):
    path = tmp_path / "tokens.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(DamagedFileError, match=said):
        Tokens.read(path)


def test_a_newer_file_is_refused_and_newer_fields_are_not(tmp_path):
    path = tmp_path / "tokens.json"
    path.write_text(json.dumps({"version": 2, "tokens": []}))
    with pytest.raises(NewerFileError):
        Tokens.read(path)
    path.write_text(json.dumps({"version": 1, "tokens": [entry(until="2030")], "more": 1}))
    assert len(Tokens.read(path)) == 1


@pytest.mark.parametrize("name", ["", "a" * 65, "a b", "ä", "a/b", "a\n"])
def test_names_that_are_not_right_are_refused(name):
    with pytest.raises(ValueError, match="name has 1 to 64"):
        Tokens().with_new(name, ["read"])


def test_the_command(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = call("token", "add", "till", "--scope", "teach").strip()
    assert Tokens.read("tokens.json").of(text).name == "till"
    assert text not in call.err
    made = call("token", "add", "page", "--scope", "read", "--scope", "sync", "--json")
    assert made["scopes"] == ["read", "sync"]
    assert Tokens.read("tokens.json").of(made["token"]).may("sync")
    assert [one["name"] for one in call("token", "list", "--json")] == ["till", "page"]
    assert "read, sync" in call("token", "list")
    call("token", "add", "till", "--scope", "read", expect=1)
    assert "already" in call.err
    call("token", "remove", "till")
    assert Tokens.read("tokens.json").of(text) is None
    call("token", "remove", "till", expect=1)
    assert "there is page" in call.err
    for wrong in (
        ("add", "x"),
        ("add", "--scope", "read"),
        ("list", "x"),
        ("list", "--scope", "read"),
        ("remove",),
        ("add", "x", "--scope", "root"),
    ):
        call("token", *wrong, expect=2)
    call("token", "list", "--token-file", "none.json", expect=1)
    call("token", "add", "x", "--scope", "read", "--token-file", "other.json")
    assert len(Tokens.read("other.json")) == 1


def test_tokens_need_the_standard_library_alone():
    code = "import sys; import xlda.service.tokens; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in run.stdout.split()}
    assert not loaded & {"numpy", "httpx", "fastapi", "uvicorn", "apsw", "filelock"}
