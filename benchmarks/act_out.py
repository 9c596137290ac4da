"""Somebody who has nothing but the page and a few photos, acted out by what can be seen and read on it.

    python benchmarks/act_out.py

A new service, and drawn products as files. Three things are taught, one answer is corrected, and that is
undone. Parts of the page are found by their roles and names alone. Clicks, texts that are typed and choices
of files are counted; before each somebody reads for a second, and a key takes 150 ms.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from re import Pattern, compile
from typing import Any

from page_tools import Tab, launched, photo
from playwright.sync_api import Locator, sync_playwright
from service_client import served

READS, KEY = 1.0, 150  # seconds, and milliseconds


class Person:
    """Clicks, types and chooses files, at a person's pace, and counts that."""

    def __init__(self, tab: Tab, folder: Path) -> None:
        self._tab, self._folder, self._acts = tab, folder, 0
        self._page = tab.page

    @contextmanager
    def does(self, what: str) -> Iterator[None]:
        """Print what a part took."""
        begin, self._acts = time.perf_counter(), 0
        yield
        print(f"| {what} | {self._acts} | {time.perf_counter() - begin:.1f} |", flush=True)

    def _one(self, found: Locator) -> Locator:
        seen = found.locator("visible=true").first
        seen.wait_for()
        time.sleep(READS)
        self._acts += 1
        return seen

    def click(self, role: Any, name: str | Pattern[str]) -> None:
        """Click something by what it is called."""
        self._one(self._page.get_by_role(role, name=name)).click()

    def type(self, name: str, text: str, then: str | None = None) -> None:
        """Type into the field of this name; one act."""
        field = self._one(self._page.get_by_role("combobox", name=name))
        field.click()
        field.press_sequentially(text, delay=KEY)
        if then:
            field.press(then)

    def choose(self, name: str, product: str, numbers: range) -> None:
        """Click on what opens the dialog for files, and choose some."""
        files = []
        for number in numbers:
            files.append(self._folder / f"{product} {number}.jpg")
            files[-1].write_bytes(photo(product, number))
        label = self._one(self._page.locator("label").filter(has_text=name))
        with self._page.expect_file_chooser() as chooser:
            label.click()
        time.sleep(READS)
        self._acts += 1
        chooser.value.set_files(files)

    def reads(self, text: str | Pattern[str]) -> None:
        """Wait until the page says this."""
        self._page.get_by_text(text).locator("visible=true").first.wait_for()


def main() -> None:
    """Act it out."""
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        with launched(playwright) as browser, served(folder / "shop.xlda") as service:
            tab = Tab(browser, f"http://127.0.0.1:{service.port}/")
            person = Person(tab, folder)
            print("| what | acts | seconds |\n|---|---|---|")
            with person.does("open the page, and answer its question"):
                tab.open()
                person.click("button", "Yes, keep small copies")
            for product in ("tea", "ball", "key"):
                with person.does(f"teach “{product}” by three photos"):
                    person.type("What is it called?", product, then="Enter")
                    person.choose("Choose photo", product, range(3))
                    person.reads(f"3 photos of “{product}” taught")
            with person.does("ask for a photo of “tea”"):
                person.click("link", "Look")
                person.choose("Choose photo", "tea", range(7, 8))
                person.reads(compile("^Sure$"))
            with person.does("ask for a brush, which nobody has taught"):
                person.choose("Choose photo", "brush", range(7, 8))
                person.reads("I do not know this")
            with person.does("correct that: it is a brush"):
                person.click("button", compile("^(No, it is|It is|Say what)"))
                person.type("Name", "brush")
                person.click("button", "That is it")
                person.reads("It is “brush”")
            with person.does("undo the correction"):
                person.click("button", "Undo")
                person.reads("Undone: It is “brush”")
            labels = service.line().call("GET", "/v1/classes")["classes"]
            assert {one["label"]: one["count"] for one in labels} == {"tea": 3, "ball": 3, "key": 3}, labels
            tab.close()
            tab.check()


if __name__ == "__main__":
    main()
