"""A browser that a test drives: a camera that shows drawn products, and ears for what must not happen."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import products

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
INSECURE = "shop.test"  # a name that is this machine, and gets no camera since it is not https
OURS = {"127.0.0.1", "localhost", INSECURE}
SIZES = {"wide": (1280, 800), "phone": (390, 844)}
LOST = re.compile(r"Failed to load resource: net::ERR_|.*status of 50[234]")
NOWHERE = [f"MAP {INSECURE} 127.0.0.1", "EXCLUDE 127.0.0.1", "EXCLUDE localhost", "MAP * ~NOTFOUND"]


class Camera:
    """The file that the browser takes for a camera. It reads frame by frame, so that another film shows."""

    def __init__(self, path, shows="tea", **film):
        self.path, self._film = Path(path), film
        self.path.write_bytes(products.film(shows, **film))

    def shows(self, name, is_still=False):
        """Hold another product into it."""
        with self.path.open("r+b") as file:  # the same file, of the same size: the browser has it open
            file.write(products.film(name, is_still, **self._film))


@contextmanager
def launched(playwright, camera=None, flags=()):
    """Debian's chromium, which reaches nothing but this machine."""
    flags = [f"--host-resolver-rules={','.join(NOWHERE)}", *flags]
    if camera is not None:
        flags += [
            "--use-fake-ui-for-media-stream",
            "--use-fake-device-for-media-stream",
            f"--use-file-for-fake-video-capture={camera.path}",
        ]
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
    try:
        yield browser
    finally:
        browser.close()


class Tab:
    """A page of the service, and what went wrong on it."""

    def __init__(self, browser, url, size="wide", scheme="light", language="en-GB"):
        width, height = SIZES[size]
        is_phone = size == "phone"
        self.context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            locale=language,
            has_touch=is_phone,
            is_mobile=is_phone,
        )
        self.context.set_default_timeout(10_000)
        self.url = url
        self.faults, self.elsewhere = [], []
        self.may_be_lost = False  # whether the service may be out of reach
        self.page = self.context.new_page()
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.faults.append(f"page error: {error}"))
        self.context.on("request", self._request)

    def _console(self, message):
        if message.type not in ("error", "warning"):
            return
        if not (self.may_be_lost and LOST.match(message.text)):
            self.faults.append(f"{message.type}: {message.text} ({message.location.get('url')})")

    def _request(self, request):
        found = urlsplit(request.url)
        if found.scheme not in ("blob", "data") and found.hostname not in OURS:
            self.elsewhere.append(request.url)

    def open(self, place=""):
        """Go to a screen as by a link from elsewhere."""
        self.page.goto("about:blank")
        self.page.goto(self.url + place)
        self.page.wait_for_selector("main > :not(.loading)")
        return self

    def answer_first(self):
        """Answer what a new service asks first, and wait for the screen, which is made anew after that."""
        self.find("first-yes").click()
        self.page.locator("dialog").wait_for(state="detached")

    def go(self, place):
        """Go to a screen as by a link on the page."""
        self.page.evaluate("(place) => { location.hash = place }", place)

    def find(self, name):
        """What can be seen of the parts with this name."""
        return self.page.locator(f"[data-test={name}]:visible").first

    def button(self, name):
        """A button by what it says, or by how it begins."""
        return self.page.get_by_role("button", name=name).first

    def says(self, text):
        """Wait until the note says this."""
        self.page.locator(".note p", has_text=text).wait_for()

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)

    def give(self, *contents):
        """Choose files, as by the file dialog."""
        files = [
            {"name": f"{number}.jpg", "mimeType": "image/jpeg", "buffer": content}
            for number, content in enumerate(contents)
        ]
        chooser = self.page.locator("xlda-stage [data-test=photo-file]")
        chooser.set_input_files(files)

    def until(self, condition, *given):
        """Wait until a JavaScript expression is true."""
        self.page.wait_for_function(condition, arg=given[0] if given else None)

    def check(self):
        """Nothing went wrong, and nothing was asked of anybody else."""
        assert not self.elsewhere, self.elsewhere
        assert not self.faults, "\n".join(self.faults)

    def close(self):
        self.context.close()


def program():
    """The `xlda` of an installed wheel, where XLDA_WHEEL_BIN names its folder; else None."""
    folder = os.environ.get("XLDA_WHEEL_BIN")
    return str(Path(folder) / "xlda") if folder else None
