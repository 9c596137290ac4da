"""Writes the report, docs/results.md and docs/results.html, from what the benchmarks stored.

python benchmarks/results_page.py
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median
from typing import Any

import accuracy_page
import conversion_page
import edge_page
import finetune_page
import inference_page
import machine
import on_par_page
import paper_page
import peer_page
import performance_page
import race_page
from html_page import as_html
from markdown import duration, table

HERE = Path(__file__).parent
ROOT = HERE.parent
PLOTS = "results"  # folder of the plots, beside the page

Results = dict[str, Any]
SECTIONS: list[tuple[str, Callable[[Results], str]]] = [
    ("accuracy", accuracy_page.section),
    ("race", race_page.race_section),
    ("on_par", on_par_page.section),
    ("race", race_page.start_section),
    ("finetune", finetune_page.section),
    ("training", paper_page.training_section),
    ("inference", paper_page.inference_section),
    ("conversion", paper_page.conversion_section),
    ("edge", edge_page.section),
    ("peer", peer_page.section),
]
DRAWINGS: list[tuple[str, Callable[[Results, Path], None]]] = [
    ("accuracy", accuracy_page.draw),
    ("race", race_page.draw),
    ("on_par", on_par_page.draw),
    ("finetune", finetune_page.draw),
    ("training", paper_page.draw_training),
    ("inference", paper_page.draw_inference),
    ("conversion", paper_page.draw_conversion),
    ("edge", edge_page.draw),
]
BESIDE = (
    "What the default model adds where classes have few samples is on [another page](imbalanced.md), and how "
    "sure its answers are on [a third](unknown.md). A whole network starts from plain LDA alone. In streams, "
    "in the race and beside peers, rows of XLDA were added later, on a machine with more to do: their times "
    "and peaks are too large. "
)  # of the stored results; the next whole run needs only the first sentence
COMMANDS = {"standard": "make report", "quick": "make report PRESET=quick", "full": "make report PRESET=full"}


def stored(folder: Path) -> Results:
    """What each benchmark has written to the folder."""
    names = dict.fromkeys(name for name, _ in SECTIONS)
    paths = {name: folder / f"{name}.json" for name in names}
    return {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}


def page(results: Results, preset: str) -> str:
    """The whole report, in Markdown."""
    parts = [f"# Results\n\n{opening(results, preset)}", headlines(results)]
    for name, section in SECTIONS:
        if name in results:
            parts.append(section(results[name]))
    parts += [cut(preset), made_by(results)]
    text = "\n\n".join(parts) + "\n"
    if preset == "standard":
        return text
    for other in ("dozens.md", "performance.md", "conversion.md"):  # pages of the standard run only
        text = text.replace(f"]({other})", f"](../../docs/{other})")
    return text


def opening(results: Results, preset: str) -> str:
    """What this is."""
    raw = "../benchmarks/results" if preset == "standard" else "raw"
    seconds = sum(found.get("seconds", 0.0) for found in results.values())
    return (
        "What XLDA does, measured beside the paper's tables and beside other methods. **XLDA** has its "
        'default parameters, **plain LDA** is what the paper has: `model="lda", shrinkage=0.3, power=None`. '
        f"{BESIDE if preset == 'standard' else ''}"
        f"`{COMMANDS[preset]}` makes this page and every figure on it; that took {duration(seconds)} here, "
        "besides drawing the characters. "
        f"Raw results are in [{raw.removeprefix('../')}]({raw})."
    )


def headlines(results: Results) -> str:
    """Five figures, what they are compared with, and the command of each."""
    made = {
        "race": _race,
        "training": _training,
        "inference": _inference,
        "conversion": _conversion,
        "edge": edge_page.headline,
    }
    rows = []
    for name, headline in made.items():
        if name in results:
            rows.append([*headline(results[name]), f"`python benchmarks/run.py {name}`"])
    return table(["", "XLDA", "compared with", "command"], rows)


def _race(results: Results) -> list[str]:
    course = max(results["courses"], key=lambda course: course["classes"])
    head = race_page.XLDA
    same, overtaken = race_page.after_same_time(course, head), race_page.catches_up(course, head)
    best = max(course["fc"]["random"]["points"], key=lambda point: point["right"])
    end = (
        f"as good after {duration(overtaken['seconds'])}"
        if overtaken
        else f"{100 * best['right'] / course['asked']:.1f} % at its best, in "
        f"{duration(course['fc']['random']['points'][-1]['seconds'])}"
    )
    return [
        f"Accuracy among {course['classes']:,} classes of real images",
        f"**{100 * race_page.accuracy(course, head):.1f} %** after "
        f"{duration(race_page.seconds(course, head))}, one pass",
        f"plain LDA: {100 * race_page.accuracy(course, race_page.PLAIN):.1f} %; "
        f"FC layer: {100 * same['right'] / course['asked']:.1f} % after the same time, {end}",
    ]


def _training(results: Results) -> list[str]:
    of_the_paper = [shape for name, shape in results["shapes"].items() if name in performance_page.PAPER]
    shape = max(of_the_paper, key=lambda shape: shape["classes"])
    time = {method: median(values) for method, values in shape["timings"].items()}
    n = shape["samples"]
    layer = (
        f"FC layer: {duration(n * time['fc'])} ({time['fc'] / time['xlda 512']:,.0f}x); "
        if "fc" in time
        else ""
    )
    return [
        f"An epoch of {n:,} samples, {shape['classes']:,} classes",
        f"**{duration(n * time['xlda 512'])}**",
        f"{layer}published rule: {duration(n * time['published'])} "
        f"({time['published'] / time['xlda 512']:,.0f}x)",
    ]


def _inference(results: Results) -> list[str]:
    size = min(results["sizes"], key=lambda size: abs(size["classes"] - 50_000))
    ways = inference_page.ways_of(size)
    one = {name: 1e3 * median(way["seconds"]["1"]) for name, way in ways.items()}
    torch = f", {one['dense, torch']:.1f} ms in torch" if "dense, torch" in one else ""
    return [
        f"One prediction among {size['classes']:,} classes",
        f"**{one['XLDA, default']:.2f} ms**, {ways['XLDA, default']['agreement']:.1%} as if it had looked at "
        "all",
        f"all classes: {one['dense, NumPy']:.1f} ms in NumPy{torch}; the paper's LSH: "
        f"{one['LSH, as published']:.1f} ms",
    ]


def _conversion(results: Results) -> list[str]:
    data = results["data"][0]
    splits = [split["after"] for split in data["splits"]]
    share = {name: 100 * mean(split[name]["all"] for split in splits) for name in splits[0]}
    name = data["name"] if "classes" in data["name"] else f"{data['name']}, {data['classes']} classes"
    way = "17" if "17" in share else "all"
    return [
        f"A converted FC layer that learned new classes ({name})",
        f"**{share[way]:.1f} %** with {conversion_page.NAMES[way]}, unlabelled",
        f"the paper's ways: {share['identity']:.1f} and {share['weights']:.1f} %; plain LDA on all labelled "
        f"data: {share['LDA']:.1f} %",
    ]


def cut(preset: str) -> str:
    """What a shorter run leaves out."""
    import accuracy

    limited = []
    for method, streams in accuracy.METHODS.items():
        some = [
            f"{stream} {'not at all' if most == 0 else f'up to {most:,} classes'}"
            for stream, most in streams.items()
            if most < accuracy.ANY
        ]
        if some:
            limited.append(f"{method}: {', '.join(some)}")
    told = {
        "quick": "This is the quick preset: few classes, one or two seeds, one round of timings.",
        "standard": "To stay near four hours, this run leaves out some of what `PRESET=full` does: more "
        "seeds and an FC layer on 50,000 classes to convergence. The peer learns in groups only. On streams, "
        f"with more than {accuracy.FEW:,} classes, unseen fonts come in groups only and no layer is "
        "trained on them; and\n\n" + "\n".join(f"- {some}" for some in limited),
        "full": "Nothing was left out.",
    }
    return f"## What was cut\n\n{told[preset]}"


def made_by(results: Results) -> str:
    """The machine of each benchmark; mostly the same one."""
    lines = {name: machine.in_words(found["machine"]) for name, found in results.items()}
    by_machine: dict[str, list[str]] = {}
    for name, words in lines.items():
        by_machine.setdefault(words, []).append(name)
    return "## Made on\n\n" + "\n".join(
        f"- {', '.join(names)}: {words}" for words, names in by_machine.items()
    )


def write(raw: Path, folder: Path, preset: str) -> list[Path]:
    """Write page and plots; the paths of both pages."""
    results = stored(raw)
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in DRAWINGS:
        if name in results:
            draw(results[name], folder / PLOTS)
    text = page(results, preset)
    markdown, html = folder / "results.md", folder / "results.html"
    markdown.write_text(text)
    html.write_text(as_html(text, folder))
    return [markdown, html]


if __name__ == "__main__":
    write(HERE / "results", ROOT / "docs", "standard")
