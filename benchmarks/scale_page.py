"""Writes docs/scale.md from what benchmarks/scale.py measured.

python benchmarks/scale_page.py
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import machine
from markdown import duration, table

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "scale.md"
STORED = HERE / "results" / "scale.json"
MB, GB = 10**6, 10**9

CLASSES, PER_CLASS, MACHINES = 10**8, 10, (1, 10, 100)  # on paper
MEMORY, NETWORK = 64 * GB, 1.25 * GB  # of each machine, assumed: bytes, and bytes a second (10 Gbit)
CORES = 2  # of each machine
PATIENCE = 1.0  # seconds for an answer

INTRODUCTION = """\
# Beyond one machine

Moments are sums, so any number of machines can learn apart, and what they have learned adds up exactly.
Embedding photos takes most of the time, and needs no more than sharing them out. An existing engine does the
distributing: Ray, with the extra `ray` (`pip install './xlda[ray]'`), or any other, by bytes.

```python
import ray
from xlda.extras.ray import embed, evaluate, fit, predict

ray.init("auto")  # the cluster that this machine is a part of
embed("photos", "embeddings", on_error="skip")  # a folder of Parquet files; given again, it goes on
clf = fit("embeddings")  # an XLDA, as from fit_source
clf.save("shop.xlda")
print(evaluate("held-out", "shop.xlda")["accuracy"])
predict("new", "shop.xlda").write_parquet("answers")
```

The commands are `xlda embed photos --out embeddings --ray auto` and `xlda fit embeddings --out shop.xlda
--ray auto`. With `local` in the place of `auto`, it is this machine. Every machine has xlda installed and
sees the same folders.

- **Embedding.** An actor opens photos and has the network, with as many threads as it has CPUs. No pixels
  travel; paths go out, and a Parquet file a part is written, whole or not at all. Photos come as folders,
  lists and patterns, in Parquet files (`bytes`, or `image`), or as a dataset of Ray. What cannot be opened is
  told by name.
- **Learning.** Every worker learns a stretch of the samples and gives its model as bytes; these are merged
  four at a time. Nothing is shuffled. A worker that is lost has its stretch done again by another. A dataset
  of Ray is learned as its blocks come; `fit(dataset, backbone=...)` says what made its embeddings, as files
  say themselves, and without it the model has no backbone to recognise photos by.
- **The same.** Counts are those of a local run exactly, means and covariance to rounding; `tests/test_ray.py`
  holds it to that, also with a worker killed in the middle."""
HEADING = """\
## What Ray costs

The start of Ray and of its workers is not counted, and is in rows of its own."""
SHARDS = """\
## More classes than one machine can hold

`xlda.shards.ShardedXLDA` has its classes in shards, by label. It is one model all the same, made by three
sums over the shards, none of which grows with the number of classes:

1. the scatter within classes, d x d, which gives the covariance and the whitening;
2. for each number of samples that classes have (near ones are taken for the same where they are many): how
   many classes, the sum of their whitened means k, and of |k|². These give t, how far class means vary, and
   m, where they lie;
3. the sum of w D D', d x d, over the means D about m, weighted by what each is worth. It gives the directions
   in which classes differ.

Then each shard makes the weights of its own classes in the coordinates that all have in common. A query goes
to every shard; the best candidates of all are merged by their scores. Shards take
no lift and no second look."""
RECIPES = """\
## Other engines

`XLDA.to_bytes` and `XLDA.from_bytes` are all that an engine needs: safetensors with a checksum, no pickle.
The power is given, since every part would choose its own. This one is run by `tests/test_dask.py`:

```python
# Dask
from functools import reduce
from pathlib import Path

import dask

from xlda import XLDA


@dask.delayed
def learned(file):
    return XLDA(power=None).fit_source(file, progress=False).to_bytes()


@dask.delayed
def merged(models):
    return reduce(XLDA.merge, map(XLDA.from_bytes, models)).to_bytes()


models = [learned(str(file)) for file in sorted(Path("embeddings").glob("*.parquet"))]
while len(models) > 1:
    models = [merged(models[at : at + 4]) for at in range(0, len(models), 4)]
clf = XLDA.from_bytes(models[0].compute())
```

And the same for Spark, which no test runs:

```python
# Spark
import pyarrow as pa
from pyspark.sql import SparkSession

from xlda import XLDA


def learned(batches):
    clf = XLDA(power=None)
    for batch in batches:
        X = batch.column("embedding").flatten().to_numpy().reshape(len(batch), -1)
        clf.partial_fit(X, batch.column("label").to_numpy(zero_copy_only=False))
    if hasattr(clf, "classes_"):
        yield pa.RecordBatch.from_pydict({"model": [clf.to_bytes()]})


def merged(one, other):
    return XLDA.from_bytes(one).merge(XLDA.from_bytes(other)).to_bytes()


spark = SparkSession.builder.getOrCreate()
rows = spark.read.parquet("embeddings")
models = rows.mapInArrow(learned, "model binary").rdd.map(lambda row: bytes(row.model))
clf = XLDA.from_bytes(models.treeReduce(merged))
```"""


def page(stored: dict[str, Any]) -> str:
    """The whole page; what was not measured is left out."""
    parts = [INTRODUCTION]
    if {"embed", "fit"} & set(stored):
        parts.append(HEADING)
    parts += [section(stored[name]) for name, section in SECTIONS.items() if name in stored]
    parts += [RECIPES, _made(stored)]
    return "\n\n".join(parts) + "\n"


def _embed(found: dict[str, Any]) -> str:
    one, two = found["embed_ray_1"], found["embed_ray_2"]
    local = {n: found[f"embed_local_{n}"] for n in (1, 2)}
    apart = found["embed_apart_2"]
    overheads = [
        f"{100 * (_speed(beside) / _speed(with_ray) - 1):.1f} %"
        for beside, with_ray in ((local[1], one), (apart, two), (local[2], two))
    ]
    rows = [
        ["without Ray, one thread", _rate(local[1])],
        ["Ray, one worker of one thread", _rate(one)],
        ["without Ray, two processes of one thread", _rate(apart)],
        ["without Ray, two threads", _rate(local[2])],
        ["Ray, two workers of one thread", _rate(two)],
        ["two workers against one", f"{_speed(two) / _speed(one):.2f} x"],
        ["Ray's overhead, one worker", overheads[0]],
        ["Ray's overhead, two workers beside two processes", overheads[1]],
        ["the same, beside two threads of one process", overheads[2]],
        ["start of Ray; of two workers", f"{two['start_of_ray']:.0f} s; {two['start_of_workers']:.0f} s"],
    ]
    return f"{one['photos']:,} photos by `efficientnet-lite0`:\n\n" + table(
        ["embedding", "photos a second"], rows
    )


def _speed(found: dict[str, Any]) -> float:
    return float(found["photos"] / found["seconds"])


def _rate(found: dict[str, Any]) -> str:
    return f"{_speed(found):.1f}"


def _fit(found: dict[str, Any]) -> str:
    local, ray = found["fit_local"], found["fit_ray"]
    model, peak = local[0]["model_bytes"], max(one["peak"] for one in ray)
    seconds = [median(one["seconds"] for one in runs) for runs in (local, ray)]
    rows = [
        ["`fit_source`, two threads", f"{seconds[0]:.1f} s"],
        ["`xlda.extras.ray.fit`, two workers", f"{seconds[1]:.1f} s"],
        ["Ray against that", f"{seconds[1] / seconds[0]:.2f} x"],
        ["processor time of both", "; ".join(f"{one[0]['processor']:.0f} s" for one in (local, ray))],
        ["a model, in bytes", f"{model / MB:.0f} MB"],
        ["most memory of the driver", f"{peak / MB:.0f} MB"],
        ["that, less two models", f"{(peak - 2 * model) / MB:.0f} MB"],
        ["driver before it began", f"{ray[0]['before'] / MB:.0f} MB"],
        [
            "start of Ray; of the workers",
            f"{ray[0]['start_of_ray']:.0f} s; {ray[0]['start_of_workers']:.0f} s",
        ],
        ["counts", "the same" if found["same_counts"] else "not the same"],
        [
            "means; covariance differ by",
            f"{found['means_differ']:.0e}; {found['covariance_differs']:.0e}",
        ],
        ["same predictions", f"{100 * found['same_predictions']:.1f} %"],
    ]
    said = f"{local[0]['samples']:,} samples of {local[0]['classes']:,} classes{_busy(found)}:"
    return f"{said}\n\n" + table(["learning", ""], rows)


def _busy(found: dict[str, Any]) -> str:
    """What to say where other work was done on the machine."""
    load = found.get("load", 0.0)
    return f", while other work went on there (a load of {load:.0f} on 2 cores)" if load > 2 * CORES else ""


def _groupby(found: dict[str, Any]) -> str:
    return (
        f"Counts and means alone by `groupby`, which shuffles: {duration(found['groupby'])} for "
        f"{found['samples']:,} samples of {found['classes']:,} classes. `fit` makes the whole model in "
        f"{duration(found['fit'])}, {found['groupby'] / found['fit']:.1f} times as fast."
    )


def _costs(found: dict[str, Any]) -> str:
    compared = (
        f"{found['shards']} shards beside one model: {100 * found['same_answers']:.2f} % of "
        f"{found['compared']:,} answers are the same, scores differ by {found['scores_differ']:.1g}."
    )
    per = found["classes"]
    measured = [
        ["learning", f"{1e6 * found['learning'] / found['samples']:.0f} µs a sample"],
        ["a model to bytes", f"{1e6 * found['to_bytes'] / per:.0f} µs a class"],
        ["a model from bytes", f"{1e6 * found['from_bytes'] / per:.0f} µs a class"],
        ["merging a model", f"{1e6 * found['merging'] / per:.0f} µs a class"],
        ["first sum", f"{1e3 * found['first']:.0f} ms"],
        ["second sum", f"{1e6 * found['second'] / per:.0f} µs a class"],
        ["third sum", f"{1e6 * found['third'] / per:.0f} µs a class"],
        ["all sums, the whitening and the heads", f"{1e6 * found['heads'] / per:.0f} µs a class"],
        ["a query", f"{1e3 * found['query']:.1f} ms"],
    ]
    intro = f"What steps cost, measured on a shard of {per:,} classes, 1280 features, in time of a core:"
    return "\n\n".join([SHARDS, compared, intro, table(["step", ""], measured), on_paper(found)])


def on_paper(found: dict[str, Any]) -> str:
    """A hundred million classes, from measured costs."""
    plans = [plan(found, n) for n in MACHINES]
    names = [name for name in plans[0] if name != "breaks"]
    rows = [[name, *(str(one[name]) for one in plans)] for name in names]
    rows.append(["what breaks first", *(str(one["breaks"]) for one in plans)])
    said = (
        f"### On paper: {CLASSES:,} classes\n\nWith {PER_CLASS} samples each, in half precision, on machines "
        f"as the measured one (2 cores), but with {MEMORY // GB} GB of memory and 10 Gbit/s each: that is "
        "assumed, as is that costs grow with the number of classes on a machine; those of a search grow less."
    )
    return f"{said}\n\n" + table(["machines", *(str(n) for n in MACHINES)], rows)


def plan(found: dict[str, Any], machines: int) -> dict[str, str]:
    """Bytes, seconds and network of so many machines."""
    d, share = found["features"], CLASSES / machines
    samples = CLASSES * PER_CLASS / machines
    memory = share * (2 * 2 * d + 16) + 3 * 8 * d * d
    routed = samples * 4 * d * (machines - 1) / machines
    sums = 2 * 8 * d * d + 8 * found["groups"] * (d + 2)
    learning = samples * found["learning"] / found["samples"] / CORES
    heads = (share * found["heads"] / found["classes"] + found["inverting"]) / CORES
    query = share * found["query"] / found["classes"]
    late = {"memory": memory > MEMORY, "an answer takes too long": query > PATIENCE}
    broken = [what for what, is_so in late.items() if is_so]
    return {
        "memory of each": f"{memory / GB:,.0f} GB",
        "learning": duration(learning),
        "samples to their shards, each": f"{routed / GB:,.0f} GB, {duration(routed / NETWORK) or '0 s'}",
        "the three sums": f"{machines * sums / MB:,.0f} MB, {duration(machines * sums / NETWORK)}",
        "sums, whitening and heads": duration(heads),
        "a query, at most": f"{query:.2g} s",
        "of a query, over the network": f"{machines * (4 * d + 200) / 1000:,.0f} kB",
        "breaks": broken[0] if broken else "nothing of these",
    }


def _made(stored: dict[str, Any]) -> str:
    samples = stored["fit"]["fit_local"][0]["samples"]
    there = [name for name in SECTIONS if name in stored]
    commands = "\n".join(f"python benchmarks/scale.py {_command(name, samples)}" for name in there)
    measured = machine.in_words(stored["fit"]["machine"])
    return f"## Made by\n\n```\n{commands}\npython benchmarks/scale_page.py\n```\n\n{measured}."


def _command(name: str, samples: int) -> str:
    options = {"embed": "--photos grocery/train", "fit": f"--samples {samples}"}
    return f"{name} {options.get(name, '')}".strip()


SECTIONS = {"embed": _embed, "fit": _fit, "groupby": _groupby, "costs": _costs}


def write() -> None:
    """Write the page."""
    PAGE.write_text(page(json.loads(STORED.read_text())))


if __name__ == "__main__":
    write()
