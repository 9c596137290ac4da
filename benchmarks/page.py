"""What the page promises, measured in a browser beside a service on this machine.

    python benchmarks/page.py [--model FILE] [--only PART ...]

FILE is a model of 50,000 classes, as benchmarks/service.py makes it; without one, it is made. Photos, and
what the camera sees, are drawn products (tests/page/products.py). Times end when the browser has painted what
is waited for. All numbers go to benchmarks/results/page.json.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import machine
import numpy as np
from drawn import Drawn
from page_tools import DRAWN, Camera, Tab, frame, launched, photo
from playwright.sync_api import Browser, sync_playwright
from service import model_of
from service_client import JPEG, NPZ, Served, npz, served

import xlda.service
from xlda.backbones import load
from xlda.photos.embedding import embed_contents
from xlda.service.places import ServicePlaces
from xlda.service.small_photos import small_jpeg

RESULTS = Path(__file__).parent / "results"
PAGE = Path(xlda.service.__file__).with_name("page")
SIDE, LARGE = 1600, 4000  # pixels of the long side of photos
IN_REVIEW, IN_CLASS = 500, 5000  # photos
DIFFERENT = 200  # photos that are drawn; the others are copies of them
LIVE_SECONDS = 10.0
READS, TYPES = 1.0, 150  # seconds before each action, and milliseconds a key, of somebody who opens a page
TYPED = ["product 1234", "49876", "uct 301"]
AS_PAGE = "/v1/predict?k=3&unknown=0.05&like=3"

# `painted(note)` calls `note(milliseconds)` once what has just changed is on the screen. Who waits for the
# next is told by that, and does not ask over and over, which would keep the browser drawing.
PAINTED = """
    const painted = (note) => requestAnimationFrame(() => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = () => {
            note(performance.now());
            window.told?.();
        };
        port2.postMessage(0);
    });
    window.next = (list, n) => list.length > n ? null : new Promise((resolve) => (window.told = resolve));
"""
ANSWERS = """() => {%s
    window.answers = [];
    const look = document.querySelector("xlda-look");
    document.addEventListener("change", () => (window.givenAt = performance.now()), true);
    new MutationObserver(() => {
        const [age, at] = [Number(look.dataset.age), performance.now()];
        painted((now) => answers.push({ age: age + now - at, since: now - window.givenAt }));
    }).observe(look, { attributes: true, attributeFilter: ["data-age"] });
}"""
REQUEST = """() => {
    const { requestStart, responseEnd } = performance.getEntriesByType("resource")
        .filter(({ name }) => name.includes("v1/predict")).at(-1);
    performance.clearResourceTimings();
    return responseEnd - requestStart;
}"""
KEYS = """() => {%s
    window.waits = [];
    const list = document.querySelector("[role=listbox]");
    let keyAt = 0;
    document.addEventListener("keydown", () => (keyAt = performance.now()), true);
    new MutationObserver(() => {
        const at = keyAt;
        painted((now) => waits.push(now - at));
    }).observe(list, { childList: true });
}"""
SCROLL = """async ([speed, seconds]) => {
    const times = [];
    const begin = performance.now();
    await new Promise((done) => requestAnimationFrame(function step(now) {
        times.push(now);
        if (performance.now() - begin > 1000 * seconds) return done();
        scrollBy(0, speed / 60);
        requestAnimationFrame(step);
    }));
    const gaps = times.slice(1).map((time, at) => time - times[at]);
    return { seconds: (times.at(-1) - times[0]) / 1000, gaps, at: scrollY, tall: document.body.scrollHeight };
}"""


def large_photo(name: str, number: int, side: int) -> bytes:
    """A drawn product as a photo of a phone."""
    image = frame(name, number)
    file = io.BytesIO()
    image.resize((side, side * image.height // image.width)).save(file, "JPEG", quality=90)
    return file.getvalue()


def taught_shop(service: Served) -> None:
    """Teach drawn products, a few photos each."""
    line = service.line()
    line.call("POST", "/v1/settings", b'{"keep_photos": true}', "application/json")
    for name in DRAWN:
        for number in range(6):
            line.call("POST", f"/v1/samples?label={name}&group=visit{number // 2}", photo(name, number), JPEG)


def first_class(browser: Browser, service: Served, camera: Camera) -> dict[str, Any]:
    """From opening the page of a new service to the note that something was taught, at a person's pace."""
    camera.shows("tea")
    tab = Tab(browser, f"http://127.0.0.1:{service.port}/")
    begin = time.perf_counter()
    tab.open()
    tab.find("first-yes").wait_for()
    opened = time.perf_counter() - begin
    time.sleep(READS)
    tab.find("first-yes").click()  # one action
    time.sleep(READS)
    tab.page.keyboard.type("tea", delay=TYPES)  # the second: the field has the focus
    time.sleep(READS)
    tab.find("hold").hover()
    tab.page.mouse.down()  # the third
    tab.page.locator(".taken > .taught").first.wait_for()
    found = {"page opened, s": opened, "first class taught, s": time.perf_counter() - begin, "actions": 3}
    tab.page.mouse.up()
    return end(tab, found)


def end(tab: Tab, found: dict[str, Any]) -> dict[str, Any]:
    """What was found; anything that went wrong on the page is an error."""
    tab.page.wait_for_timeout(500)
    tab.close()
    tab.check()
    return {**found, "requests to elsewhere": len(tab.elsewhere)}


def answers(browser: Browser, service: Served) -> dict[str, Any]:
    """From choosing a photo to its answer on the screen, and what the service takes for the same."""
    line = service.line()
    tab = Tab(browser, f"http://127.0.0.1:{service.port}/").open("#/look")
    tab.page.evaluate(ANSWERS % PAINTED)
    found: dict[str, Any] = {}
    for side in (SIDE, LARGE):
        on_screen, own, requests = [], [], []
        for number in range(24):
            content = large_photo(list(DRAWN)[number % len(DRAWN)], 200 + number, side)
            begin = time.perf_counter()
            line.call("POST", AS_PAGE, content, JPEG)
            own.append(1000 * (time.perf_counter() - begin))
            time.sleep(0.2)
            n = tab.page.evaluate("() => answers.length")
            tab.give(content)
            tab.page.evaluate("(n) => next(answers, n)", n)
            on_screen.append(tab.page.evaluate("() => answers.at(-1).since"))
            requests.append(tab.page.evaluate(REQUEST))
            tab.page.wait_for_timeout(200)
        screen, service_own = np.median(on_screen[4:]), np.median(own[4:])
        found[f"{side} px"] = {
            "on screen, ms": float(screen),
            "service, ms": float(service_own),
            "the request in the browser, ms": float(np.median(requests[4:])),
            "ratio": float(screen / service_own),
        }
    return end(tab, found)


def live(browser: Browser, service: Served, camera: Camera) -> dict[str, Any]:
    """Answers a second of the live view, and how old their frames were when they were painted."""
    camera.shows("ball")
    tab = Tab(browser, f"http://127.0.0.1:{service.port}/").open("#/look")
    tab.find("camera-on").click()
    tab.page.locator("xlda-answer").wait_for()
    tab.page.wait_for_timeout(2000)
    tab.page.evaluate(ANSWERS % PAINTED)
    tab.page.wait_for_timeout(1000 * LIVE_SECONDS)
    ages = [one["age"] for one in tab.page.evaluate("() => answers")]
    found = {
        "answers a second": len(ages) / LIVE_SECONDS,
        "age, median, ms": float(np.median(ages)),
        "age, oldest, ms": float(max(ages)),
        "older than 250 ms": float(np.mean(np.array(ages) > 250)),
        "picture": tab.page.evaluate("() => document.querySelector('video').videoWidth"),
    }
    return end(tab, found)


def type_ahead(browser: Browser, service: Served) -> dict[str, Any]:
    """From each key to the list that belongs to it."""
    tab = Tab(browser, f"http://127.0.0.1:{service.port}/").open("#/teach")
    if tab.page.locator("[data-test=first-no]").count():
        tab.find("first-no").click()
        tab.page.locator("dialog").wait_for(state="detached")
    field = tab.find("name")
    field.focus()
    tab.page.evaluate(KEYS % PAINTED)
    waits: list[float] = []
    for text in TYPED:
        field.fill("")
        tab.page.wait_for_timeout(500)
        for key in text:
            n = tab.page.evaluate("() => waits.length")
            tab.page.keyboard.press(key)
            tab.page.evaluate("(n) => next(waits, n)", n)
            waits.append(tab.page.evaluate("() => waits.at(-1)"))
            tab.page.wait_for_timeout(TYPES)
    n_classes = service.line().call("GET", "/v1/model")["classes"]
    each = {text: [round(waits.pop(0)) for _ in text] for text in TYPED}
    every = [wait for some in each.values() for wait in some]
    found = {"classes": n_classes, **in_ms(every), "of each key, ms": each}
    return end(tab, found)


def in_ms(waits: list[float]) -> dict[str, float]:
    """Median, 95 %, longest."""
    return {
        "median, ms": float(np.median(waits)),
        "95 %, ms": float(np.quantile(waits, 0.95)),
        "longest, ms": float(max(waits)),
    }


def full_shop(folder: Path) -> Path:
    """A model whose review queue is full, and that has a class of 5,000 photos.

    Embeddings are taught by the service; that each has a photo, and what is to be reviewed, is written to its
    database while it does not run, since sending as many photos takes long.
    """
    model = folder / "full.xlda"
    contents = [photo(list(DRAWN)[n % len(DRAWN)], n) for n in range(DIFFERENT)]
    embeddings = embed_contents(contents, load("efficientnet-lite0"))
    contents = [small_jpeg(content) for content in contents]  # as the service keeps them
    rng = np.random.default_rng(0)
    near = lambda rows: embeddings[rows] + rng.normal(0, 0.02, (len(rows), embeddings.shape[1]))  # noqa: E731
    mine = np.arange(0, DIFFERENT, len(DRAWN))
    with served(model) as service:
        taught_shop(service)
        for _ in range(IN_CLASS // 500):
            rows = rng.choice(mine, 500)
            service.line().call(
                "POST", "/v1/samples:batch", npz(near(rows).astype(np.float32), ["many"] * 500), NPZ
            )
    places = ServicePlaces.of(model)
    names = [hashlib.sha256(str(n).encode()).hexdigest() for n in range(IN_CLASS + IN_REVIEW)]
    for n, name in enumerate(names):
        path = places.photos / name[:2] / f"{name}.jpg"
        path.parent.mkdir(exist_ok=True)
        if n < DIFFERENT:
            path.write_bytes(contents[n])
        else:
            os.link(places.photos / names[n % DIFFERENT][:2] / f"{names[n % DIFFERENT]}.jpg", path)
    with closing(sqlite3.connect(places.database)) as db, db:
        rows = db.execute("SELECT number FROM samples WHERE photo IS NULL ORDER BY number").fetchall()
        db.executemany(
            "UPDATE samples SET photo = ? WHERE number = ?",
            [(name, number) for name, (number,) in zip(names, rows, strict=False)],
        )
        judged = json.dumps({"label": None, "class_id": None, "probability": 0.4, "top": [], "sure": False})
        strange = rng.normal(size=(IN_REVIEW // 5, embeddings.shape[1]))
        db.executemany(
            "INSERT INTO review(id, time, embedding, photo, judged) VALUES (?, ?, ?, ?, ?)",
            [
                (
                    name[:32],
                    time.time() - n,
                    (strange[n // 5] + rng.normal(0, 0.02, embeddings.shape[1])).astype(np.float32).tobytes(),
                    name,
                    judged,
                )
                for n, name in enumerate(names[IN_CLASS:])
            ],
        )
    return model


def scrolling(browser: Browser, service: Served) -> dict[str, Any]:
    """Frames a second while a full review queue, and a large class, are scrolled through."""
    line = service.line()
    largest = max(line.call("GET", "/v1/classes")["classes"], key=lambda one: one["count"])
    n_review = sum(group["size"] for group in line.call("GET", "/v1/review")["groups"])
    tab = Tab(browser, f"http://127.0.0.1:{service.port}/").open("#/look")
    found: dict[str, Any] = {}
    for what, place, n in (
        ("review", "#/review", n_review),
        ("class", f"#/class/{largest['id']}", largest["count"]),
    ):
        tab.go(place)
        tab.page.locator(".tile").first.wait_for()
        tab.page.wait_for_timeout(1500)
        for speed in (1500, 4000):
            tab.page.evaluate("() => scrollTo(0, 0)")
            tab.page.wait_for_timeout(500)
            told = tab.page.evaluate(SCROLL, [speed, 5.0])
            gaps = np.array(told["gaps"])
            found[f"{what}, {n} photos, {speed} px a second"] = {
                "frames a second": float(len(gaps) / told["seconds"]),
                "longest gap, ms": float(gaps.max()),
                "gaps over 34 ms": float(np.mean(gaps > 34)),
                "scrolled, px": told["at"],
            }
    return end(tab, found)


def bytes_of_page() -> dict[str, Any]:
    """What a browser loads, uncompressed."""
    size = lambda pattern: sum(path.stat().st_size for path in PAGE.glob(pattern))  # noqa: E731
    return {
        "script": size("*.js"),
        "html": size("*.html"),
        "style": size("*.css"),
        "texts": size("texts/en.json"),
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path)
    parser.add_argument("--only", nargs="+", choices=["first", "answers", "live", "type", "scroll"])
    arguments = parser.parse_args()
    wanted = lambda part: arguments.only is None or part in arguments.only  # noqa: E731
    out = RESULTS / "page.json"
    results = json.loads(out.read_text()) if out.exists() else {}
    results |= {"machine": machine.describe(), "bytes": bytes_of_page()}

    def note(name: str, measure: Callable[[], dict[str, Any]]) -> None:
        results[name] = measure()
        print(name, json.dumps(results[name], indent=1), flush=True)

    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        camera = Camera(folder / "film.y4m", rate=20, times=2)
        with launched(playwright, camera) as browser:
            if wanted("first"):
                with served(folder / "new.xlda") as service:
                    note("first class", lambda: first_class(browser, service, camera))
            if wanted("answers") or wanted("live"):
                with served(folder / "shop.xlda") as service:
                    taught_shop(service)
                    time.sleep(3.0)
                    if wanted("answers"):
                        note("photo to answer", lambda: answers(browser, service))
                    if wanted("live"):
                        note("live view", lambda: live(browser, service, camera))
            if wanted("type"):
                model = folder / "many.xlda"
                if arguments.model is None:
                    model_of(Drawn(50_000), model)
                else:
                    shutil.copy(arguments.model, model)
                with served(model) as service:
                    time.sleep(20.0)  # what it does after starting
                    note("type-ahead", lambda: type_ahead(browser, service))
            if wanted("scroll"):
                with served(full_shop(folder)) as service:
                    time.sleep(5.0)
                    note("scrolling", lambda: scrolling(browser, service))
    out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
