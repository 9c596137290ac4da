"""Modules of the page by themselves, in a browser: the store, the keyed list, and what needs no service."""

from __future__ import annotations

import re
import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import xlda.service

PAGE = Path(xlda.service.__file__).with_name("page")
UNITS = Path(__file__).with_name("units.js")
NAMES = re.findall(r"^export async function (\w+)\(", UNITS.read_text("utf-8"), re.MULTILINE)
CHROMIUM = shutil.which("chromium")


class Files(SimpleHTTPRequestHandler):
    """The page's files, the tests, and an empty page to run them in."""

    def do_GET(self):
        name = self.path.split("?")[0]
        if name == "/":
            return self.answer(b"<!doctype html><title>tests</title><body>", "text/html")
        path = UNITS if name == "/units.js" else PAGE / name.removeprefix("/page/")
        if not path.is_file():
            return self.send_error(404)
        return self.answer(path.read_bytes(), "text/javascript")

    def answer(self, content, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *more):
        pass


@pytest.fixture(scope="module")
def page():
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(PAGE)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with playwright.sync_playwright() as started:
            browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 800, "height": 600})
            page.goto(f"http://127.0.0.1:{server.server_port}/")
            yield page
            browser.close()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_there_are_tests():
    assert len(NAMES) > 10


@pytest.mark.parametrize("name", NAMES)
def test_unit(page, name):
    page.evaluate("async (name) => (await import('/units.js'))[name]()", name)
