"""The page as people use it: in a browser with a camera, by what it shows; and what the service counts."""

from __future__ import annotations

import base64
import shutil
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

for module in ("apsw", "fastapi", "uvicorn", "httpx", "onnxruntime", "PIL", "typer"):
    pytest.importorskip(module)
sync_api = pytest.importorskip("playwright.sync_api", reason="needs xlda[browser]")

from browser import CHROMIUM, INSECURE, SIZES, Camera, Tab, launched, program  # noqa: E402
from products import photo  # noqa: E402

from service_under_test import SOON, running  # noqa: E402

ROOT = Path(__file__).parents[2]
NASTY = "<img src=x onerror=alert(1)>"
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")


@pytest.fixture(scope="module")
def camera(tmp_path_factory):
    return Camera(tmp_path_factory.mktemp("camera") / "film.y4m")


@pytest.fixture(scope="module")
def playwright():
    with sync_api.sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="module")
def browser(playwright, camera):
    with launched(playwright, camera) as browser:
        yield browser


@pytest.fixture
def shop(tmp_path):
    """Starts services that recognise photos; they run until the tabs are closed."""
    with ExitStack() as stack:

        def started(*options):
            options = (tmp_path / "shop.xlda", *options)
            return stack.enter_context(running(*options, backbone="efficientnet-lite0", program=program()))

        yield started


@pytest.fixture
def tab(browser, shop):
    """Opens tabs, on each of which nothing may go wrong."""
    tabs = []

    def opened(url, *more, **options):
        tabs.append(Tab(browser, url, *more, **options))
        return tabs[-1]

    yield opened
    for one in tabs:
        one.close()
    for one in tabs:
        one.check()


@pytest.fixture
def service(shop):
    return shop()


@pytest.fixture(scope="module")
def shop_files(tmp_path_factory):
    """Of a service that was taught three products, and asked for a fourth, which is to be reviewed."""
    folder = tmp_path_factory.mktemp("taught")
    with running(folder / "shop.xlda", backbone="efficientnet-lite0", program=program()) as service:
        service.post("/v1/settings", json={"keep_photos": True})
        for name in ("tea", "ball", "key"):
            for number in range(4):
                service.teach(name, photo(name, number), group=f"{name} {number // 2}")
        for number in range(5):
            assert service.predict(photo("brush", number), unknown=0.05)["label"] is None
        eventually(lambda: items_to_review(service) == 5)
        assert service.end() == 0
    return folder


@pytest.fixture
def taught(shop_files, shop, tmp_path):
    shutil.copytree(shop_files, tmp_path, dirs_exist_ok=True)
    return shop()


@pytest.fixture(scope="module")
def looked_at(shop_files, tmp_path_factory):
    """The same, for all tests that teach nothing."""
    folder = tmp_path_factory.mktemp("looked at")
    shutil.copytree(shop_files, folder, dirs_exist_ok=True)
    with running(folder / "shop.xlda", backbone="efficientnet-lite0", program=program()) as service:
        yield service


def eventually(condition):
    until = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < until, "It did not come true."
        time.sleep(0.05)


def items_to_review(service):
    groups = service.get("/v1/review")["groups"]
    return sum(group["size"] for group in groups if group["kind"] != "contradicts" and not group["solved"])


def hold(tab, least):
    """Hold the button until some more photos are taught, and until none of them is under way."""
    n = tab.page.locator(".taken > .taught").count() + least
    tab.find("hold").hover()
    tab.page.mouse.down()
    tab.until("(n) => document.querySelectorAll('.taken > .taught').length >= n", n)
    tab.page.mouse.up()
    tab.page.wait_for_timeout(300)  # a frame that was being taken
    tab.until("() => !document.querySelector('.taken > .waiting')")


def name(tab, text):
    tab.find("name").fill(text)
    tab.press("Enter")


def verdict(tab, word, label):
    """Wait for an answer of the live view, or of a photo."""
    tab.page.locator(f"xlda-answer[data-verdict={word}] [data-test=answer-label]", has_text=label).wait_for()


def test_teach_and_look_with_a_camera(tab, service, camera):
    camera.shows("tea")
    one = tab(service.url).open()
    one.answer_first()
    one.until("() => document.activeElement?.closest('[data-test=name]')")  # it has the focus by itself
    one.page.keyboard.type("tea")
    hold(one, least=3)
    camera.shows("ball")
    one.page.wait_for_timeout(300)
    name(one, "ball")
    hold(one, least=3)
    counts = service.counts()
    assert set(counts) == {"tea", "ball"}
    assert one.page.locator(".taken > .taught").count() == sum(counts.values())

    one.go("#/look")  # the camera goes on showing
    verdict(one, "sure", "ball")
    one.page.locator("xlda-answer .like li", has_text="ball").first.wait_for()
    camera.shows("tea")
    verdict(one, "sure", "tea")
    camera.shows("brush")
    verdict(one, "unknown", "I do not know this")
    assert service.counts() == counts  # looking teaches nothing

    one.press("n")
    one.page.locator("dialog [data-test=name]").fill("brush")
    one.press("Enter")
    one.says("It is “brush”")
    assert service.counts() == {**counts, "brush": 1}
    one.press("Control+z")
    one.says("Undone: It is “brush”")
    assert service.counts() == counts
    one.press("Control+Shift+z")
    one.says("Done again: It is “brush”")
    assert service.counts() == {**counts, "brush": 1}
    one.press("Control+z")
    one.says("Undone")
    one.press("Control+z")  # a burst is one undo
    one.says("photos of “ball” taught")
    assert service.counts() == {"tea": counts["tea"]}
    one.button("Redo").click()
    one.says("Done again")
    assert service.counts() == counts

    other = tab(service.url).open("#/classes")  # another tab sees changes at once
    other.page.locator(".card", has_text="ball").wait_for()
    service.teach("from afar", photo("key", 1))
    other.page.locator(".card", has_text="from afar").wait_for()


def test_a_frame_that_does_not_differ_is_not_taken(tab, service, camera):
    camera.shows("tea", is_still=True)
    one = tab(service.url).open()
    one.answer_first()
    name(one, "tea")
    one.find("hold").hover()
    one.page.mouse.down()
    one.page.locator(".taken > .taught").wait_for()
    one.page.wait_for_timeout(1000)
    one.page.mouse.up()
    assert service.counts() == {"tea": 1}
    assert one.page.locator(".taken > li").count() == 1


def test_rename_merge_and_select_many(tab, taught):
    one = tab(taught.url).open("#/classes")
    one.find("search").fill("ba")
    one.page.get_by_role("link", name="ball").click()
    one.find("rename").click()
    field = one.page.locator("dialog [data-test=name]")
    field.fill(NASTY)
    field.press("Enter")
    one.says(f"“ball” is now called “{NASTY}”")
    one.page.locator("h1", has_text=NASTY).wait_for()
    assert taught.counts() == {"tea": 4, NASTY: 4, "key": 4}

    one.find("merge").click()
    field.fill("tea")
    field.press("Enter")
    one.page.get_by_role("radio", name="tea").check()
    one.page.get_by_text(f"All photos of “{NASTY}” will belong to “tea”").wait_for()
    one.page.locator("dialog").get_by_role("button", name="Merge").click()
    one.says(f"“{NASTY}” is now part of “tea”")
    one.page.locator("h1", has_text="tea").wait_for()
    one.until("() => document.querySelectorAll('.tile').length === 8")
    assert taught.counts() == {"tea": 8, "key": 4}
    one.page.locator(".note").get_by_role("button", name="Undo").click()
    one.says("Undone")
    one.until("() => document.querySelectorAll('.tile').length === 4")
    assert taught.counts() == {"tea": 4, NASTY: 4, "key": 4}

    tiles = one.page.locator(".tile")
    tiles.nth(0).click()
    tiles.nth(2).click(modifiers=["Shift"])
    one.page.get_by_text("3 photos selected").wait_for()
    one.press("m")
    field.fill("chai")
    field.press("Enter")
    one.says("3 photos moved to “chai”")
    assert taught.counts() == {"tea": 1, "chai": 3, NASTY: 4, "key": 4}
    one.press("Control+z")
    one.says("Undone: 3 photos moved to “chai”")
    assert taught.counts() == {"tea": 4, NASTY: 4, "key": 4}

    for place in ("#/look", "#/teach", "#/classes", "#/history", "#/pairs", "#/knows", "#/review"):
        one.go(place)
        settle(one, place[2:])
        assert one.page.locator("img[src=x]").count() == 0
    one.open("#/classes")
    one.page.locator(".card", has_text=NASTY).wait_for()
    one.open("#/teach")
    one.find("name").fill("<im")
    one.page.get_by_role("option", name=NASTY).click()
    assert one.find("name").input_value() == NASTY


def test_review_by_keyboard(tab, taught):
    one = tab(taught.url).open("#/review")
    one.page.locator(".tile").first.wait_for()
    assert one.page.locator("[data-ref=toReview]").inner_text() == "5"
    one.page.locator(".tile").first.focus()
    one.press("Shift+ArrowRight")
    one.page.get_by_text("2 photos selected").wait_for()
    one.press("d")
    one.says("2 photos dismissed")
    eventually(lambda: items_to_review(taught) == 3)
    one.press("Control+z")
    one.says("Undone: 2 photos dismissed")
    eventually(lambda: items_to_review(taught) == 5)
    one.until("() => document.querySelectorAll('.tile').length === 5")

    one.page.locator(".tile").first.focus()
    one.press("Shift+ArrowRight", "n")
    one.page.get_by_text("What is on these 2 photos?").wait_for()
    one.page.keyboard.type("brush")
    one.press("Enter")
    one.says("2 photos of “brush” taught")
    assert taught.counts()["brush"] == 2
    # What was like them is known now. It waits to be seen by somebody.
    one.page.get_by_role("heading", name="Probably solved").wait_for()
    one.until("() => document.querySelectorAll('.tile').length === 3")
    one.page.locator(".tile").first.focus()
    one.press("y")
    one.says("3 photos of “brush” taught")
    one.page.get_by_text("All done.").wait_for()
    assert taught.counts()["brush"] == 5
    one.press("Control+z", "Control+z")
    one.says("Undone: 2 photos of “brush” taught")
    assert "brush" not in taught.counts()
    eventually(lambda: items_to_review(taught) == 5)


def test_a_lost_connection_loses_nothing(tab, shop, camera):
    camera.shows("tea")
    service = shop()
    one = tab(service.url).open()
    one.answer_first()
    name(one, "tea")
    hold(one, least=2)
    before = service.counts()["tea"]
    camera.shows("ball")  # or a frame might be one that was taught already, which is warned of
    one.may_be_lost = True
    one.context.set_offline(True)  # while somebody goes on teaching
    one.find("hold").hover()
    one.page.mouse.down()
    one.until("() => document.querySelectorAll('.taken > .waiting').length >= 3")
    one.page.mouse.up()
    one.page.get_by_text("The service cannot be reached").wait_for()
    one.context.set_offline(False)
    one.until("() => !document.querySelector('.taken > .waiting')")
    taught = one.page.locator(".taken > .taught").count()
    assert service.counts()["tea"] == taught > before

    service.process.kill()  # the machine of the service loses power
    service.process.wait()
    one.give(*(photo("tea", number) for number in range(20, 24)))
    one.until("() => document.querySelectorAll('.taken > .waiting').length === 4")
    one.page.get_by_text("4 photos wait here").wait_for()
    service = shop("--port", service.port)
    one.open("#/teach")  # and the tab is loaded anew, too: they were kept by the browser
    eventually(lambda: service.counts()["tea"] == taught + 4)
    one.page.locator("#bar").wait_for(state="hidden")
    one.may_be_lost = False
    for _ in range(2):
        one.open("#/classes")
        one.page.locator(".card", has_text=f"{taught + 4} photos").wait_for()
    assert service.counts() == {"tea": taught + 4}


def test_without_https_there_is_no_camera_and_all_else_works(tab, shop):
    service = shop("--allow-host", INSECURE)
    one = tab(f"http://{INSECURE}:{service.port}/", "phone").open()
    assert one.page.evaluate("() => !isSecureContext")
    one.answer_first()
    one.page.get_by_text("There is no live picture here: browsers allow that over https").wait_for()
    assert one.page.get_by_text("Hold to take photos").is_hidden()
    for product in ("tea", "ball"):
        name(one, product)
        one.page.get_by_label("Take photo").first.set_input_files(
            {"name": "a.jpg", "mimeType": "image/jpeg", "buffer": photo(product, 1)}
        )
        one.page.get_by_text(f"1 photo of “{product}” taught").wait_for()
        one.give(*(photo(product, number) for number in (2, 3)))
        one.page.get_by_text(f"2 photos of “{product}” taught").wait_for()
    assert service.counts() == {"tea": 3, "ball": 3}
    one.page.get_by_role("link", name="Look").click()
    one.give(photo("tea", 9))
    verdict(one, "sure", "tea")
    one.give(photo("brush", 9))
    verdict(one, "unknown", "I do not know this")
    one.find("no").click()
    one.page.locator("dialog [data-test=name]").fill("brush")
    one.page.get_by_role("button", name="That is it").click()
    one.says("It is “brush”")
    one.find("undo").click()
    one.says("Undone")
    assert service.counts() == {"tea": 3, "ball": 3}


def test_drop_and_paste_undo_what_was_said_and_click_twice(tab, taught):
    one = tab(taught.url).open("#/look")
    give = """([kind, bytes]) => {
        const data = new DataTransfer();
        const content = Uint8Array.from(atob(bytes), (one) => one.charCodeAt(0));
        data.items.add(new File([content], "a.jpg", {type: "image/jpeg"}));
        const more = kind === "paste" ? {clipboardData: data} : {dataTransfer: data};
        const event = kind === "paste" ? new ClipboardEvent(kind, {bubbles: true, ...more}) : null;
        const target = document.querySelector("xlda-stage");
        for (const name of event ? [] : ["dragover", "drop"]) {
            const dragged = new DragEvent(name, {bubbles: true, cancelable: true, ...more});
            if (target.dispatchEvent(dragged)) throw new Error("the browser would open the photo itself");
        }
        if (event) target.dispatchEvent(event);
    }"""
    for kind, product in (("drop", "tea"), ("paste", "ball")):
        one.page.evaluate(give, [kind, base64.b64encode(photo(product, 9)).decode()])
        verdict(one, "sure", product)
        assert one.page.locator("xlda-stage.over").count() == 0
    counts = taught.counts()
    for key, said in (("u", "It is something unknown"), ("x", "It is not “ball”")):
        one.press(key)
        one.says(said)
        one.press("Control+z")
        one.says(f"Undone: {said}")
        one.press("Control+Shift+z")
        one.says(f"Done again: {said}")
    assert taught.counts() == counts

    one.go("#/classes")  # a double click is one, and the way back closes a dialog
    one.page.get_by_role("link", name="ball").click()
    one.find("rename").dblclick()
    one.page.get_by_role("heading", name="A new name").wait_for()
    one.page.go_back()
    one.page.locator(".card", has_text="ball").wait_for()
    assert one.page.locator("dialog").count() == 0
    one.page.go_forward()
    one.find("remove").dblclick()
    one.says("“ball” removed")
    one.page.locator(".card", has_text="tea").wait_for()
    one.page.wait_for_timeout(300)
    assert one.page.locator(".note.bad").count() == 0
    assert taught.counts() == {"tea": 4, "key": 4}


def test_of_two_cameras_the_chosen_one_is_remembered(playwright, looked_at):
    flags = ["--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream=device-count=2"]
    count = """() => {
        const {mediaDevices} = navigator;
        if (!mediaDevices) return;  // of a page that is empty
        const open = mediaDevices.getUserMedia.bind(mediaDevices);
        window.opened = [];
        mediaDevices.getUserMedia = async (wish) => {
            const live = opened.filter(([track]) => track.readyState === "live").length;
            const stream = await open(wish);
            opened.push([stream.getVideoTracks()[0], live]);
            return stream;
        };
    }"""
    with launched(playwright, flags=flags) as browser:
        one = Tab(browser, looked_at.url)
        one.page.add_init_script(f"({count})()")
        one.open("#/look")
        one.find("camera-on").click()
        which = one.page.get_by_label("Which camera")
        which.wait_for()
        ids = which.evaluate("(node) => [...node.options].map(({value}) => value)")
        assert len(set(ids)) == 2
        other = next(one_id for one_id in ids if one_id != which.input_value())
        which.select_option(other)
        shown = "document.querySelector('video').srcObject.getVideoTracks()[0].getSettings().deviceId"
        one.until(f"(id) => document.querySelector('video').srcObject && {shown} === id", other)
        assert one.page.evaluate("opened.map(([track, live]) => live)") == [0, 0]  # the old one had ended
        one.page.reload()
        which.wait_for()
        assert which.input_value() == other
        assert one.page.evaluate(shown) == other
        one.find("camera-off").click()
        one.until("() => opened.every(([track]) => track.readyState === 'ended')")
        one.close()
        one.check()


SCREENS = ["look", "teach", "review", "classes", "class", "pairs", "knows", "history"]


@pytest.mark.parametrize("size", SIZES)
def test_axe_finds_nothing(tab, looked_at, size):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = []

    def judge(one, what):
        for violation in axe.run(one.page).response["violations"]:
            nodes = [node["html"][:150] for node in violation["nodes"][:3]]
            found.append(f"{what}: {violation['id']}: {nodes}")

    one = tab(looked_at.url, size).open("#/look")
    for scheme in ("light", "dark"):
        one.page.emulate_media(color_scheme=scheme)
        for screen in SCREENS:
            one.go(f"#/{screen}/{looked_at.id_of('tea')}" if screen == "class" else f"#/{screen}")
            settle(one, screen)
            judge(one, f"{screen}, {scheme}")
            if screen == "look":
                one.give(photo("brush", 7))
                verdict(one, "unknown", "I do not know")
                judge(one, f"an answer, {scheme}")
                one.find("no").click()
                one.find("name").fill("t")
                one.page.get_by_role("option", name="tea").wait_for()
                judge(one, f"asking for a name, {scheme}")
                one.press("Escape", "Escape")
            if screen in ("review", "class"):
                one.page.locator(".tile").first.click()
                one.page.get_by_text("1 photo selected").wait_for()
                judge(one, f"{screen} with a selection, {scheme}")
            if screen == "class":
                one.find("merge").click()
                name(one, "ball")
                one.page.get_by_text("Which name survives?").wait_for()
                judge(one, f"merging, {scheme}")
                one.press("Escape")
        one.find("help").click()
        one.page.get_by_role("heading", name="Keys and language").wait_for()
        judge(one, f"help, {scheme}")
        one.press("Escape")
    assert not found, "\n".join(found)


def settle(one, screen):
    """Wait until a screen shows what it has loaded."""
    one.page.locator(f"xlda-{screen}").wait_for()
    one.until("() => !document.querySelector('main').innerText.includes('One moment')")
    one.until("() => document.getAnimations().every((one) => one.playState !== 'running')")


def test_an_installed_wheel_has_all_files_of_the_page():
    if program() is None:
        pytest.skip("needs XLDA_WHEEL_BIN: the bin folder of an environment in which the wheel is")
    where = "import pathlib, xlda.service; print(pathlib.Path(xlda.service.__file__).with_name('page'))"
    python = Path(program()).with_name("python")
    said = subprocess.run([python, "-P", "-I", "-c", where], capture_output=True, text=True, check=True)
    installed = Path(said.stdout.strip())
    assert not installed.is_relative_to(ROOT / "src")
    assert contents(installed) == contents(ROOT / "src" / "xlda" / "service" / "page")


def contents(folder):
    found = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}
