"""Every command in the documentation runs, and prints what the page says it does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from conftest import DATA

for needed in ("typer", "onnxruntime", "PIL", "pyarrow", "fontTools", "matplotlib", "apsw", "fastapi"):
    pytest.importorskip(needed)

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture
def run(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    import run_console

    return run_console.run


def alike(word, other):
    """Numbers may differ a little, with other fonts or another processor, and names with numbers in them."""
    numbers = [text.strip("(),%").replace(",", "") for text in (word, other)]
    try:
        one, two = map(float, numbers)
    except ValueError:
        return word == other or all(re.search(r"\d", text) for text in (word, other))
    return abs(one - two) <= max(5.0, 0.15 * abs(one))


def assert_alike(page, printed):
    lines, found = page.splitlines(), printed.splitlines()
    assert len(lines) == len(found), printed
    for line, other in zip(lines, found, strict=True):
        words, others = line.split(), other.split()
        same = len(words) == len(others) and all(map(alike, words, others))
        assert same, f"the page has {line!r}, but it is {other!r}"


def test_the_comparison_sees_differences():
    assert_alike("accuracy 95.0% (171 of 180)\nU+01E6", "accuracy 93.3% (168 of 180)\nU+0276")
    for other in (
        "accuracy 80.0% (171 of 180)",
        "accuracy 95.0% (171 of 180) or so",
        "error 95.0% (171 of 180)",
    ):
        with pytest.raises(AssertionError):
            assert_alike("accuracy 95.0% (171 of 180)", other)


@pytest.mark.skipif(shutil.which("bash") is None, reason="the commands are for a Unix shell")
def test_the_tutorial(run, tmp_path):
    page = (DOCS / "tutorial.md").read_text()
    assert_alike(page, run(page, tmp_path))


@pytest.mark.skipif(not (DATA / "grocery").is_dir(), reason="needs the photos; set XLDA_DATA to their folder")
@pytest.mark.skipif("XLDA_LONG" not in os.environ, reason="takes minutes, for 2,936 photos; set XLDA_LONG=1")
def test_the_shop(run, tmp_path):
    (tmp_path / "grocery").symlink_to(DATA / "grocery")
    page = (DOCS / "shop.md").read_text()
    assert_alike(page, run(page, tmp_path))


# -- the service

FRUITS = {"kiwi": (110, 80, 50), "lemon": (240, 220, 60), "lime": (60, 190, 60), "banana": (250, 225, 90)}
SHOP = {  # what the page calls a photo, and where it comes from
    "kiwi.jpg": ("Kiwi", 1),
    "kiwi-2.jpg": ("Kiwi", 30),
    "lime.jpg": ("Lime", 1),
    "lime-2.jpg": ("Lime", 30),
    "banana.jpg": ("Banana", 1),
    "banana-2.jpg": ("Banana", 20),
    **{
        f"photos/{name.lower()}/{number}.jpg": (name, 10 + number)
        for name in ("Kiwi", "Lemon", "Lime")
        for number in (1, 2, 3)
    },
}


def lay_out_photos(folder):
    """Photos of fruit as the page has them: from shops where they are at hand, and else drawn."""
    for file, (name, number) in SHOP.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        photo = DATA / "grocery" / "train" / "Fruit" / name / f"{name}_{number:03}.jpg"
        if photo.exists():
            shutil.copyfile(photo, folder / file)
        else:
            drawn(name.lower(), number).save(folder / file)


def drawn(name, number):
    """Something of the colour of a fruit, round or long, with stripes or without."""
    from PIL import Image, ImageDraw

    rng = np.random.default_rng(number)
    image = Image.new("RGB", (320, 320), tuple(rng.integers(180, 220, 3).tolist()))
    pen = ImageDraw.Draw(image)
    wide, high = (130, 45) if name in ("banana", "lemon") else (80, 80)
    x, y = (160 + rng.integers(-20, 20, 2)).tolist()
    pen.ellipse((x - wide, y - high, x + wide, y + high), fill=FRUITS[name], outline="black", width=3)
    step = {"kiwi": 6, "lime": 24, "lemon": 90, "banana": 45}[name]
    for place in range(x - wide, x + wide, step):
        pen.line((place, y - high, place + 9, y + high), fill="black", width=2)
    noise = rng.normal(scale=12.0, size=(320, 320, 3))
    return Image.fromarray((np.asarray(image) + noise).clip(0, 255).astype(np.uint8))


def without_what_varies(text):
    """A transcript without ids, times, sizes and last digits; warnings depend on which photo came first."""
    text = re.sub(r"^.*: looks like another class: .*\n", "", text, flags=re.M)
    text = re.sub(r'"(warnings|codes)":\[[^]]*\]', r'"\1":[]', text)
    text = re.sub(r',"other":\{[^}]*\}', "", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    text = re.sub(r"(?<=[\"/-])[0-9a-f]{16,}", "ID", text)
    text = re.sub(r"[\d,]+(?= bytes)", "SIZE", text)
    return re.sub(r"(?<=\"probability\":)[\d.e-]+", "SHARE", text)


def test_what_varies_is_little():
    answer = '{"id":"d-065a84642b6835dd","label":"lemon","probability":0.99999,"warnings":["dark"],"seq":13}'
    assert without_what_varies(answer) == (
        '{"id":"d-ID","label":"lemon","probability":SHARE,"warnings":[],"seq":13}'
    )


@pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in ("bash", "curl", "jq")), reason="needs bash, curl and jq"
)
def test_the_service(run, tmp_path):
    lay_out_photos(tmp_path)
    page = (DOCS / "serve.md").read_text()
    printed = without_what_varies(run(page, tmp_path)).splitlines()
    for line, other in zip(without_what_varies(page).splitlines(), printed, strict=True):
        assert line == other


def test_the_python_of_the_service(tmp_path, monkeypatch):
    """Its answers, where there is no shell for the rest of the page."""
    monkeypatch.syspath_prepend(DOCS)
    import run_console

    lay_out_photos(tmp_path)
    names = dict.fromkeys(("banana", "kiwi"))
    teach = "".join(f"shop.teach(Path('{name}.jpg'), '{name}')\n" for name in names)
    program = next(
        found[3] for found in run_console.BLOCK.finditer((DOCS / "serve.md").read_text()) if found[2]
    )
    with served(tmp_path) as url:
        program = program.replace("http://127.0.0.1:8765", url)
        first = f"from pathlib import Path\nfrom xlda.client import Client\nshop = Client({url!r})\n{teach}"
        subprocess.run([sys.executable, "-c", first], cwd=tmp_path, check=True)
        done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["[('banana', 2), ('kiwi', 1)]", "4 undo [3]"]


@contextmanager
def served(folder):
    """A service with a new model, as a process; gives its address."""
    command = [sys.executable, "-c", "from xlda.cli import main; main()", "serve", "shop.xlda", "--port", "0"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        said = next(line for line in process.stdout if " is served at " in line)
        yield said.split(" is served at ")[1].strip().rstrip("/")
    finally:
        process.terminate()
        process.stdout.close()
        assert process.wait(timeout=20) == 0
