"""Embedding, learning and predicting on many machines, by Ray. Needs the extra `ray`.

    import ray
    from xlda.extras.ray import embed, fit

    ray.init("auto")
    embed("photos", "embeddings")
    clf = fit("embeddings")

Every machine has xlda installed, and sees the same folders. Where Ray was not started, this machine is used.
`docs/scale.md` has figures.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from xlda._internal.built_in import DEFAULT_BACKBONE
from xlda._internal.progress import Progress
from xlda.classifier import XLDA
from xlda.extras._ray_cluster import connect, ray_module
from xlda.extras._ray_embed import EmbedOrder, embedded, n_photos
from xlda.extras._ray_fit import fitted
from xlda.extras._ray_predict import ModelOrFile, evaluated, predicted
from xlda.identity import BackboneIdentity
from xlda.photos.embedding import OnError
from xlda.photos.parquet import Summary

__all__ = ["connect", "embed", "evaluate", "fit", "predict"]


def embed(
    source: Any,
    out: str | os.PathLike[str],
    *,
    backbone: str = DEFAULT_BACKBONE,
    workers: int | None = None,
    cpus: int = 1,
    on_error: OnError = "stop",
    half: bool = False,
    overwrite: bool = False,
    progress: bool | Callable[[int], object] = True,
    **options: Any,
) -> Summary:
    """Embed photos into a folder of Parquet files, as `fit` and `XLDA.fit_source` read them.

    Given again, the same call makes the files that are missing, and no others. `workers` actors, as many as
    there is room for unless said, have `cpus` each: so many threads open photos and run the network. A photo
    that cannot be opened is an error that names it, or with `on_error="skip"` left out and in the summary.

    Parameters
    ----------
    source
        Folders, lists, patterns or files of photos, as `find_photos` takes them; or Parquet files with photos
        in a column "bytes" or "image"; or a dataset of Ray with such columns, or with paths alone in a column
        "path". Columns "label" and "path" are kept. Pixels of `ray.data.read_images` are taken too; with
        paths, they never leave the actor that opens them.
    out
        A folder that all machines see. Files of something else in it are an error, or with `overwrite`
        removed.
    backbone, options
        As `xlda.backbones.load` takes them.
    half
        Store float16.
    progress
        Whether to show how far it is on a terminal, or what to call with how many photos are done.
    """
    wanted = EmbedOrder(
        os.path.abspath(out),  # noqa: PTH100  (workers have other folders)
        backbone if not os.path.exists(backbone) else os.path.abspath(backbone),  # noqa: PTH100, PTH110
        options,
        cpus,
        on_error,
        "float16" if half else "float32",
        overwrite,
    )
    if callable(progress):
        return embedded(source, wanted, workers, progress)
    with Progress(lambda: n_photos(source), progress) as bar:
        return embedded(source, wanted, workers, bar.advance)


def fit(
    source: Any,
    *,
    backbone: BackboneIdentity | None = None,
    workers: int | None = None,
    cpus: int = 1,
    batch_size: int = 4096,
    progress: bool = True,
    **params: Any,
) -> XLDA:
    """A classifier that has learned all samples of a source, to rounding as `XLDA(**params).fit_source` has.

    `source` is what `xlda.open_source` takes, files that all machines see; or a dataset of Ray with columns
    "embedding" and "label". `workers` with `cpus` each learn a stretch of it, and their models are merged, a
    few at once. This process holds one model, and its bytes while they are read.

    Files that `embed` made say by which backbone, and the model remembers it; a dataset does not. `backbone`
    says it instead: the `identity` of a loaded one, or what `xlda.photos.embedding_info` says of a file.
    """
    return fitted(source, backbone, workers, cpus, batch_size, progress, params)


def predict(source: Any, model: ModelOrFile, *, k: int = 1, workers: int | None = None, cpus: int = 1) -> Any:
    """A dataset of Ray with the labels in a column "predicted", and "score", in the place of embeddings.

    It is made as it is read; its `write_parquet` stores it. With `k`, both columns have the `k` best.
    `source` are Parquet files or a dataset with a column "embedding"; all other columns are kept. `model` is
    a classifier, or a file. Files of another backbone than the model's, or of another width, are refused at
    once; what is wrong in a row is an error of Ray's, when that row is read.
    """
    return predicted(source, model, k, workers, cpus)


def evaluate(
    source: Any, model: ModelOrFile, *, k: int = 5, workers: int | None = None, cpus: int = 1
) -> dict[str, Any]:
    """How often the label of a sample is the best, or among the `k` best: samples, accuracy, and by class.

    `source` and `model` are as in `predict`; there is a column "label", which all rows have.
    """
    return evaluated(source, model, k, workers, cpus)


ray_module()  # an ImportError that says what to install, rather than one at the first call
