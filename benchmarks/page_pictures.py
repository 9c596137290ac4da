"""Pictures of every screen of the page: wide and phone-sized, light and dark.

    python benchmarks/page_pictures.py --photos FOLDER --out FOLDER [--only SCREEN ...]

Photos are those of the Grocery Store Dataset, with its train.txt, val.txt and classes.csv; a dozen products
are taught, one photo of them wrongly, and photos of these and of others are asked for, so that there is
something to review.
"""

from __future__ import annotations

import argparse
import csv
import random
import tempfile
from pathlib import Path
from urllib.parse import urlencode

from page_tools import Camera, Tab, launched
from playwright.sync_api import sync_playwright
from service_client import JPEG, Line, served

PRODUCTS, OF_EACH, ASKED = 12, 12, 60
SCREENS = ["look", "answer", "unknown", "name", "teach", "taught", "review", "selected", "classes"]
SCREENS += ["class", "merge", "pairs", "knows", "history", "help", "first", "live"]


class Photos:
    """Photos of products by their names."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with (folder / "classes.csv").open() as file:
            names = {row[1]: row[0].replace("-", " ") for row in csv.reader(file)}
        self.taught: dict[str, list[Path]] = {}
        for path, number, _ in self._rows("train.txt"):
            self.taught.setdefault(names[number], []).append(path)
        self.asked = [(names[number], path) for path, number, _ in self._rows("val.txt")]
        random.Random(0).shuffle(self.asked)
        common = sorted(name for name, paths in self.taught.items() if len(paths) >= OF_EACH)
        self.known = common[:: len(common) // PRODUCTS][:PRODUCTS]

    def _rows(self, name: str) -> list[tuple[Path, str, str]]:
        lines = (line.strip().split(", ") for line in (self._folder / name).read_text().splitlines())
        return [(self._folder / path, fine, coarse) for path, fine, coarse in lines]


def fill(line: Line, photos: Photos) -> tuple[bytes, bytes]:
    """Teach and ask; gives a photo of which the answer is sure, and one that is like nothing known."""
    line.call("POST", "/v1/settings", b'{"keep_photos": true}', "application/json")
    for name in photos.known:
        for number, path in enumerate(random.Random(name).sample(photos.taught[name], OF_EACH)):
            label = photos.known[1] if (name, number) == (photos.known[0], 5) else name
            query = urlencode({"label": label, "group": f"{name} {number // 4}"})
            line.call("POST", f"/v1/samples?{query}", path.read_bytes(), JPEG)
    sure = unknown = b""
    for name, path in photos.asked[:ASKED]:
        content = path.read_bytes()
        answer = line.call("POST", "/v1/predict?unknown=0.05", content, JPEG)
        if answer["sure"] and answer["label"] == name:
            sure = content
        elif answer["label"] is None and name not in photos.known:
            unknown = content
    return sure, unknown


def prepare(tab: Tab, screen: str, photos: Photos, asked: tuple[bytes, bytes], class_id: str) -> None:
    """Have a screen on the page, with something on it."""
    places = {"answer": "look", "unknown": "look", "name": "look", "live": "look", "taught": "teach"}
    places |= {"selected": "review", "help": "look"}
    places |= dict.fromkeys(["class", "merge"], f"class/{class_id}")
    tab.open(f"#/{places.get(screen, screen)}")
    tab.page.wait_for_timeout(700)
    if screen in ("answer", "unknown", "name"):
        tab.give(asked[screen != "answer"])
        tab.page.locator("xlda-answer").wait_for()
    if screen == "live":
        tab.find("camera-on").click()
        tab.page.locator("xlda-answer").wait_for()
    if screen == "name":
        tab.find("no").click()
        tab.page.keyboard.type("a")
    if screen == "taught":
        tab.find("name").fill(photos.known[2])
        tab.press("Enter")
        known = photos.taught[photos.known[2]]
        tab.give(*(path.read_bytes() for path in known[:4]), asked[1])
        tab.page.wait_for_timeout(1500)
    if screen == "selected":
        tiles = tab.page.locator(".tile")
        tiles.nth(0).click()
        tiles.nth(2).click(modifiers=["Shift"])
    if screen == "merge":
        tab.find("merge").click()
        tab.find("name").fill(photos.known[3])
        tab.press("Enter")
    if screen == "help":
        tab.find("help").click()
    tab.page.wait_for_timeout(900)


def main() -> None:
    """Take them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=SCREENS, default=SCREENS)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    photos = Photos(arguments.photos)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        with (
            launched(playwright, Camera(folder / "film.y4m", rate=20, times=2)) as browser,
            served(folder / "shop.xlda") as service,
            served(folder / "new.xlda") as new,
        ):
            asked = fill(service.line(), photos)
            classes = service.line().call("GET", "/v1/classes")["classes"]
            class_id = next(one["id"] for one in classes if one["label"] == photos.known[1])
            for size in ("wide", "phone"):
                for scheme in ("light", "dark"):
                    for screen in arguments.only:
                        port = (new if screen == "first" else service).port
                        tab = Tab(browser, f"http://127.0.0.1:{port}/", size, scheme)
                        prepare(tab, "teach" if screen == "first" else screen, photos, asked, class_id)
                        tab.page.screenshot(path=arguments.out / f"{screen}-{size}-{scheme}.png")
                        tab.close()
                        tab.check()


if __name__ == "__main__":
    main()
