"""What a service promises, measured from a second process, with learning going on.

    python benchmarks/service.py --photos FOLDER [--classes 50000] [--minutes 10] [--calls 200000]

A model of drawn classes (benchmarks/drawn.py) is served by `xlda serve`, with the built-in backbone.
Photos of FOLDER are scaled to 1,600 pixels. The network's own time is that of all views of a photo that is
open and resized already, in this process while the service idles; `xlda embed` is `embed_photos` in this
process. Waits of single calls stand beside the longest gap of a thread that only reads the clock. All
numbers go to benchmarks/results/service.json.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import machine
import numpy as np
from drawn import Drawn
from PIL import Image
from service_client import JPEG, NPY, NPZ, Served, npy, npz, served
from waits import Clock, timed

from xlda import XLDA, backbones
from xlda.photos.embedding import embed_contents, opened

RESULTS = Path(__file__).parent / "results"
SIDE = 1600
TAUGHT_A_SECOND = 100


def model_of(drawn: Drawn, path: Path) -> None:
    """Write a model of all drawn classes."""
    clf = XLDA()
    for embeddings, rows in drawn.batches():
        clf.partial_fit(embeddings, [f"product {row:05}" for row in rows])
    clf.backbone_ = backbones.load("efficientnet-lite0").identity
    clf.calibrate(progress=False)
    clf.save(path)


def settle(service: Served) -> None:
    """Wait until a service that has just started has measured how good its model is, which takes a core."""
    line, until = service.line(), time.perf_counter() + 120
    while line.call("GET", "/v1/model")["expected_accuracy"] is None and time.perf_counter() < until:
        time.sleep(1.0)
    time.sleep(5.0)


def photos_of(folder: Path, n: int) -> list[bytes]:
    """Some photos, scaled so that their long side has 1,600 pixels."""
    files = sorted(folder.rglob("*.jpg"))
    found = []
    for file in files[:: max(1, len(files) // n)][:n]:
        with Image.open(file) as image:
            scale = SIDE / max(image.size)
            size = (round(image.width * scale), round(image.height * scale))
            content = io.BytesIO()
            image.convert("RGB").resize(size).save(content, "JPEG", quality=90)
            found.append(content.getvalue())
    return found


def spread(seconds: list[float]) -> dict[str, float]:
    """Median, 95 %, longest."""
    return {
        "median": float(np.median(seconds)),
        "95 %": float(np.quantile(seconds, 0.95)),
        "longest": float(max(seconds)),
        "n": len(seconds),
    }


class Teaching(threading.Thread):
    """Teaches embeddings at a steady rate, one a request, some of them of new classes."""

    def __init__(self, service: Served, drawn: Drawn, rate: float) -> None:
        super().__init__(daemon=True)
        rows = drawn.rng.integers(0, len(drawn.counts), 512)
        samples = drawn.samples(rows)
        self._bodies = [
            npz(sample[None], [f"new {number}" if number % 10 == 0 else f"product {row:05}"])
            for number, (sample, row) in enumerate(zip(samples, rows, strict=True))
        ]
        self._line, self._rate, self._ends = service.line(), rate, False
        self.n_taught = 0

    def run(self) -> None:
        """Until it is ended."""
        begin = time.perf_counter()
        while not self._ends:
            self._line.call("POST", "/v1/samples:batch", self._bodies[self.n_taught % len(self._bodies)], NPZ)
            self.n_taught += 1
            time.sleep(max(0.0, begin + self.n_taught / self._rate - time.perf_counter()))

    def end(self) -> None:
        """No more."""
        self._ends = True
        self.join()


def network_seconds(photos: list[bytes], times: int) -> list[float]:
    """The network's own time for single photos: all views, with all cores."""
    backbone = backbones.load("efficientnet-lite0")
    prepared = [backbone.prepare(opened(photo, backbone)) for photo in photos[:8]]
    for pixels in prepared:
        backbone.embed(pixels[None])
    return [timed(lambda n=n: backbone.embed(prepared[n % len(prepared)][None])) for n in range(times)]


def single_photos(service: Served, photos: list[bytes], drawn: Drawn, times: int) -> dict[str, Any]:
    """One photo at a time: the network alone, predicted, taught, and predicted while others teach."""
    line = service.line()
    ask = lambda n: line.call("POST", "/v1/predict?unknown=0.05", photos[n % len(photos)], JPEG)  # noqa: E731
    for n in range(10):
        ask(n)
    network, alone = [], []
    for part in range(5):
        network += network_seconds(photos, times // 5)
        alone += [timed(lambda n=n: ask(n)) for n in range(part, part + times // 5)]
    taught, n_known = [], 0
    for n in range(times):
        label, photo = f"thing {n % len(photos)}", photos[n % len(photos)]
        begin = time.perf_counter()
        answer = line.call("POST", f"/v1/samples?label={label.replace(' ', '%20')}", photo, JPEG)
        taught.append(time.perf_counter() - begin)
        found = line.call("POST", "/v1/predict", photo, JPEG)
        n_known += found["label"] == label and found["seq"] >= answer["seq"]
    teaching = Teaching(service, drawn, TAUGHT_A_SECOND)
    teaching.start()
    beside = [timed(lambda n=n: ask(n)) for n in range(2 * times)]
    teaching.end()
    return {
        "network": spread(network),
        "predict": spread(alone),
        "teach": spread(taught),
        "known by the next": f"{n_known} of {times}",
        "predict while taught": spread(beside),
        "taught meanwhile, a second": teaching.n_taught / sum(beside),
    }


def throughput(service: Served, photos: list[bytes], times: int) -> dict[str, float]:
    """Photos a second by many callers at once, and by `xlda embed`, taking turns."""
    backbone = backbones.load("efficientnet-lite0")
    embed_contents(photos[:8], backbone)
    ours, theirs = [], []
    with ThreadPoolExecutor(16) as pool:
        lines = [service.line() for _ in range(16)]

        def work(number: int) -> None:
            for n in range(number, len(photos), 16):
                lines[number].call("POST", "/v1/predict", photos[n], JPEG)

        list(pool.map(work, range(16)))
        for _ in range(times):
            theirs.append(timed(lambda: embed_contents(photos, backbone)))
            ours.append(timed(lambda: list(pool.map(work, range(16)))))
    n = len(photos)
    return {"service": n / float(np.median(ours)), "xlda embed": n / float(np.median(theirs))}


def syncs_a_second(folder: Path, seconds: float) -> float:
    """How often the disk takes a page and says that it has it."""
    path = folder / "syncs"
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR)
    os.write(descriptor, bytes(8_000_000))
    os.fsync(descriptor)
    n, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        os.pwrite(descriptor, bytes(4096), 4096 * (n % 1900))
        os.fdatasync(descriptor)
        n += 1
    taken = time.perf_counter() - begin
    os.close(descriptor)
    path.unlink()
    return n / taken


def embeddings_learned(service: Served, drawn: Drawn, folder: Path, seconds: float) -> dict[str, float]:
    """Samples a second that are on disk: in batches of 32 from 8 clients, and one a request from one."""

    def many(n_clients: int, size: int) -> float:
        rows = drawn.rng.integers(0, len(drawn.counts), (16, size))
        bodies = [npz(drawn.samples(some), [f"product {row:05}" for row in some]) for some in rows]
        counts, until = [0] * n_clients, time.perf_counter() + seconds

        def work(number: int) -> None:
            line = service.line()
            while time.perf_counter() < until:
                line.call("POST", "/v1/samples:batch", bodies[(counts[number] + number) % 16], NPZ)
                counts[number] += 1

        with ThreadPoolExecutor(n_clients) as pool:
            list(pool.map(work, range(n_clients)))
        return size * sum(counts) / seconds

    batches = many(8, 32)
    singles, syncs = [], []
    for _ in range(3):
        syncs.append(syncs_a_second(folder, seconds / 5))
        singles.append(many(1, 1))
    return {
        "32 a request, 8 clients": batches,
        "1 a request, 1 client": float(np.median(singles)),
        "syncs of the disk": float(np.median(syncs)),
    }


def waits(service: Served, drawn: Drawn, minutes: float) -> dict[str, Any]:
    """How long single predictions of embeddings wait while others teach, renewals included."""
    rows = drawn.rng.integers(0, len(drawn.counts), 256)
    bodies = [npy(sample[None]) for sample in drawn.samples(rows)]
    line, clock, teaching = service.line(), Clock(), Teaching(service, drawn, TAUGHT_A_SECOND)
    clock.start()
    teaching.start()
    seconds, until = [], time.perf_counter() + 60 * minutes
    while time.perf_counter() < until:
        body = bodies[len(seconds) % len(bodies)]
        seconds.append(timed(lambda body=body: line.call("POST", "/v1/predict?unknown=0.05", body, NPY)))
    teaching.end()
    gap = clock.stop()
    return {
        **spread(seconds),
        "99.9 %": float(np.quantile(seconds, 0.999)),
        "gap": gap,
        "taught": teaching.n_taught,
    }


def memory(service: Served, photos: list[bytes], drawn: Drawn, calls: int) -> list[int]:
    """Resident bytes after every tenth of so many calls, most of them predictions; no sample comes twice."""
    bodies = [npy(sample[None]) for sample in drawn.samples(drawn.rng.integers(0, len(drawn.counts), 256))]
    lines, turn = [service.line() for _ in range(4)], threading.Lock()

    def batch() -> bytes:
        with turn:
            some = drawn.rng.integers(0, len(drawn.counts), 8)
            return npz(drawn.samples(some), [f"product {row:05}" for row in some])

    def work(number: int, n: int) -> None:
        for call in range(n):
            if call % 200 == 0:
                lines[number].call("POST", "/v1/predict", photos[call // 200 % len(photos)], JPEG)
            elif call % 100 == 50:
                lines[number].call("POST", "/v1/samples:batch", batch(), NPZ)
            else:
                lines[number].call("POST", "/v1/predict", bodies[call % 256], NPY)

    found = [service.resident()]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(10):
            list(pool.map(lambda number: work(number, calls // 40), range(4)))
            found.append(service.resident())
    return found


def steps(
    service: Served, photos: list[bytes], drawn: Drawn, folder: Path, arguments: argparse.Namespace
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What is measured, by name."""
    yield "photos", lambda: single_photos(service, photos, drawn, arguments.times)
    yield "throughput", lambda: throughput(service, photos, 3)
    yield "learned", lambda: embeddings_learned(service, drawn, folder, 10.0)
    yield "waits", lambda: waits(service, drawn, arguments.minutes)
    yield "memory", lambda: memory(service, photos, drawn, arguments.calls)


def main() -> None:
    """Measure, store, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--classes", type=int, default=50_000)
    parser.add_argument("--model", type=Path, help="a model of these classes that was made before")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--calls", type=int, default=200_000)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--only", nargs="+", help="photos, throughput, learned, waits, memory")
    parser.add_argument("--out", type=Path, default=RESULTS / "service.json")
    arguments = parser.parse_args()
    drawn, photos = Drawn(arguments.classes), photos_of(arguments.photos, 64)
    results: dict[str, Any] = {"machine": machine.describe(), "classes": arguments.classes}
    results["options"] = (
        f"--minutes {arguments.minutes:g} --times {arguments.times} --calls {arguments.calls}"
    )
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        path = Path(folder) / "shop.xlda"
        if arguments.model is None:
            model_of(drawn, path)
        else:
            path.write_bytes(arguments.model.read_bytes())
        with served(path) as service:
            results["first start"] = service.seconds_to_ready
        starts = []
        for _ in range(3):
            with served(path) as service:
                starts.append(service.seconds_to_ready)
        results["start"] = spread(starts)
        with served(path) as service:
            results["resident at start"] = service.resident()
            settle(service)
            for name, measure in steps(service, photos, drawn, Path(folder), arguments):
                if arguments.only is None or name in arguments.only:
                    results[name] = measure()
                    results[f"resident after {name}"] = service.resident()
                    arguments.out.write_text(json.dumps(results, indent=1) + "\n")  # of what is done so far
                    print(name, json.dumps(results[name], indent=1), service.resident() / 1e6, flush=True)
    arguments.out.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
