"""The page's files as text: every text is there in every language, and nothing comes from elsewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import xlda.service

PAGE = Path(xlda.service.__file__).with_name("page")
SCRIPTS = {path.name: path.read_text("utf-8") for path in sorted(PAGE.glob("*.js"))}
HTML = (PAGE / "index.html").read_text("utf-8")
TEXTS = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(PAGE.glob("texts/*.json"))}
MOST_SCRIPT = 60_000  # bytes

KEY = r"[a-z]+(?:\.[a-z0-9_]+)*"
IN_HTML = re.compile(rf'data-(?:text|label|alt|name)="({KEY})"')
PLAIN_CALL = re.compile(rf'\bt\("({KEY})"')
LITERAL = re.compile(rf'"({KEY})"')
BEGINNING = re.compile(r"\bt\(`([a-z.]+\.)\$\{")


def used():
    """Keys that are named, and beginnings of keys that are put together."""
    keys, beginnings = set(IN_HTML.findall(HTML)), set()
    for script in SCRIPTS.values():
        keys |= {key for key in LITERAL.findall(script) if "." in key}
        keys |= set(PLAIN_CALL.findall(script))
        beginnings |= set(BEGINNING.findall(script))
    return keys, beginnings


def placeholders(text):
    one = text if isinstance(text, str) else text["other"]
    return set(re.findall(r"\{(\w+)\}", one))


def test_every_text_that_is_used_is_there():
    keys, beginnings = used()
    assert len(keys) > 100
    assert not keys - TEXTS["en"].keys()
    for beginning in beginnings:
        assert any(key.startswith(beginning) for key in TEXTS["en"]), beginning


def test_every_text_is_used():
    keys, beginnings = used()
    assert not {key for key in TEXTS["en"].keys() - keys if not key.startswith(tuple(beginnings))}


def test_there_are_four_languages():
    assert set(TEXTS) == {"en", "de", "fr", "es"}


@pytest.mark.parametrize("language", ["de", "fr", "es"])
def test_all_languages_say_the_same(language):
    english, other = TEXTS["en"], TEXTS[language]
    assert list(other) == list(english)
    for key, text in english.items():
        assert type(other[key]) is type(text), key
        assert placeholders(other[key]) == placeholders(text), key
        assert text if isinstance(text, str) else set(other[key]) == {"one", "other"}, key


def test_texts_that_differ_by_language_are_translated():
    """A handful of words are the same in two languages; a language that was not translated has many."""
    for language in ("de", "fr", "es"):
        alike = [key for key, text in TEXTS["en"].items() if TEXTS[language][key] == text]
        assert len(alike) < 10, alike


def test_script_is_small():
    assert sum(len(script.encode()) for script in SCRIPTS.values()) <= MOST_SCRIPT


def test_nothing_comes_from_elsewhere():
    for name, content in {
        **SCRIPTS,
        "index.html": HTML,
        "style.css": (PAGE / "style.css").read_text(),
    }.items():
        for address in re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"']*", content):
            assert address.startswith("http://www.w3.org/"), (
                f"{name}: {address}"
            )  # the name of SVG, not fetched


def test_text_enters_as_text():
    for name, script in SCRIPTS.items():
        for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("):
            assert way not in script, f"{name} has {way}"
    assert not re.search(r"<[^>]*\son\w+=|<[^>]*\sstyle=|<style|javascript:", HTML)


def test_addresses_are_relative():
    for name, script in SCRIPTS.items():
        assert not re.search(r"""["'`]/(?:v1|page|healthz)""", script), name
    assert not re.search(r"""(?:href|src)="/""", HTML)


def test_what_is_referred_to_is_there():
    templates = set(re.findall(r'<template id="t-([a-z-]+)"', HTML))
    icons = set(re.findall(r'<symbol id="i-(\w+)"', HTML))
    assert set(re.findall(r'data-icon="(\w+)"', HTML)) <= icons
    for script in SCRIPTS.values():
        assert set(re.findall(r'\b(?:made|ask|define)\("([a-z-]+)"', script)) <= templates
        assert set(re.findall(r'\bicon\("(\w+)"', script)) <= icons


def test_files_are_small():
    for name, script in SCRIPTS.items():
        lines = script.splitlines()
        assert len(lines) <= 200, name
        assert max(map(len, lines)) <= 110, name
