"""Backbones by name or from ONNX files, with their preprocessing."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from xlda._internal.built_in import BUILT_IN, DEFAULT_BACKBONE, INT8, is_built_in
from xlda._internal.files import write_whole
from xlda.backbones import efficientnet_lite, quantised
from xlda.backbones.cache import cached
from xlda.backbones.network import Backbone, only_input, open_session
from xlda.backbones.onnx_bytes import files_beside
from xlda.backbones.preprocessing import Preprocessing
from xlda.backbones.sessions import kept_session

METADATA = "xlda.preprocessing"  # in the metadata of an ONNX file: a Preprocessing in JSON


def load(
    source: str | os.PathLike[str] = DEFAULT_BACKBONE,
    *,
    size: int | None = None,
    resize: int | None = None,
    mean: Any = None,
    std: Any = None,
    layout: str | None = None,
    interpolation: str | None = None,
    views: int | Sequence[float] | None = None,
    version: int | None = None,
    precision: str | None = None,
    cut_head: bool = False,
    threads: int | None = None,
) -> Backbone:
    """Open "efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2", or the network in an ONNX file.

        backbone = load("network.onnx", cut_head=True)
        batch = np.stack([backbone.prepare(PIL.Image.open(path)) for path in paths])
        embeddings = backbone.embed(batch)

    Preprocessing is what is given here; else what `describe` wrote into the file; else the size and layout of
    the file's input, with the mean and standard deviation of ImageNet. `Preprocessing` says what `views` of a
    photo and `version` are. `precision="int8"`, or "-int8" after its name, is a built-in network in whole
    numbers of 8 bits: faster, and with embeddings of its own. `cut_head` leaves out the linear layer that the
    network ends with. `threads` are all cores unless said.
    """
    given = {
        "size": size,
        "resize": resize,
        "mean": mean,
        "std": std,
        "layout": layout,
        "interpolation": interpolation,
        "views": views,
        "version": version,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    if name := _built_in(source, precision):
        if cut_head:
            raise ValueError(f"{name} has no head to cut: it gives embeddings already.")
        return _open_built_in(name, changes, threads)
    path = _existing(source)
    session = _session(path, cut_head, threads)
    preprocessing = _preprocessing(session, path, changes).changed(**changes)
    return Backbone(session, path.stem, preprocessing, f"{_sha256(path)} {cut_head}", cut_head)


def _built_in(source: str | os.PathLike[str], precision: str | None) -> str | None:
    """The name of the built-in network that is meant, None for a file."""
    if precision not in (None, "float32", "int8"):
        raise ValueError(f'precision is "float32" or "int8"; got {precision!r}.')
    name = os.fspath(source)
    if not isinstance(source, str) or not is_built_in(name) or (precision == "float32" and INT8 in name):
        if precision is not None:
            raise ValueError(f"precision is for {', '.join(BUILT_IN)}; {name} has its own.")
        return None
    return name if precision != "int8" else f"{name.removesuffix(INT8)}{INT8}"


def _open_built_in(name: str, changes: dict[str, Any], threads: int | None) -> Backbone:
    graph, network, content = _of_built_in(name)
    opened = partial(kept_session, graph, network, name)
    preprocessing = efficientnet_lite.VARIANTS[name.removesuffix(INT8)].preprocessing.changed(**changes)
    width, of_one_thread = efficientnet_lite.WIDTH, partial(opened, 1)
    return Backbone(
        opened(threads), name, preprocessing, content, n_features=width, of_one_thread=of_one_thread
    )


def _of_built_in(name: str) -> tuple[str, Callable[[], bytes], str]:
    """Of a built-in network: which graph it is, its ONNX file's content, and which network it is."""
    variant = efficientnet_lite.VARIANTS[name.removesuffix(INT8)]
    if not name.endswith(INT8):
        return variant.graph, partial(efficientnet_lite.network, variant), variant.identity
    graph = f"{name}-{efficientnet_lite.GRAPH_VERSION}-{quantised.VERSION}"
    network = partial(cached, f"{graph}.onnx", partial(_in_whole_numbers, variant))
    return graph, network, f"{variant.identity} int8 {quantised.VERSION}"


def open_network(source: str, cut_head: bool = False) -> Any:
    """The network that `load` runs, as onnx has it: a built-in one by its name, or that of a file."""
    import onnx

    from xlda.layers.onnx_files import open_model

    if is_built_in(source):
        return onnx.load_from_string(_of_built_in(source)[1]())
    return onnx.load_from_string(_without_head(Path(source))) if cut_head else open_model(source)


def _in_whole_numbers(variant: efficientnet_lite.Variant) -> bytes:
    weights = efficientnet_lite.read_weights(variant)
    return quantised.build(weights, efficientnet_lite.blocks(variant.repeats), efficientnet_lite.EPSILON)


def describe(
    path: str | os.PathLike[str], preprocessing: Preprocessing, to: str | os.PathLike[str] | None = None
) -> None:
    """Write a preprocessing into the metadata of an ONNX file, or of a copy of it at `to`.

    The network stays as it is; the file written holds all of its weights.

        describe("network.onnx", Preprocessing(size=384, resize=384))
    """
    from xlda.layers.onnx_files import open_model

    if not isinstance(preprocessing, Preprocessing):
        raise TypeError(f"describe takes a Preprocessing; got {type(preprocessing).__name__}.")
    model = open_model(path)
    kept = [(prop.key, prop.value) for prop in model.metadata_props if prop.key != METADATA]
    del model.metadata_props[:]
    for key, value in [*kept, (METADATA, json.dumps(preprocessing.to_json()))]:
        model.metadata_props.add(key=key, value=value)
    write_whole(Path(path if to is None else to), model.SerializeToString())


def _existing(source: str | os.PathLike[str]) -> Path:
    path = Path(source)
    if not path.suffix and not path.exists():
        names = ", ".join(map(repr, BUILT_IN))
        raise FileNotFoundError(
            f"No backbone {os.fspath(source)!r}: give {names}, each perhaps with {INT8}, "
            "or the path of an .onnx file."
        )
    with path.open("rb"):
        pass  # a missing or forbidden file is the system's own error, with its name
    return path


def _session(path: Path, cut_head: bool, threads: int | None) -> Any:
    return open_session(_without_head(path) if cut_head else str(path), str(path), threads)


def _without_head(path: Path) -> bytes:
    """The ONNX file's content without the linear layer that it ends with."""
    from xlda.layers.onnx_files import split

    with tempfile.TemporaryDirectory() as folder:
        backbone = Path(folder) / "backbone.onnx"
        split(path, backbone)
        return backbone.read_bytes()


def _preprocessing(session: Any, path: Path, changes: dict[str, Any]) -> Preprocessing:
    """What the file says, or its input's shape."""
    written = session.get_modelmeta().custom_metadata_map.get(METADATA)
    if written is not None:
        try:
            return Preprocessing.from_json(json.loads(written))
        except ValueError as error:
            raise ValueError(
                f"{path} has metadata {METADATA} that cannot be read: {error} `describe` writes them anew."
            ) from error
    shape = only_input(session, str(path)).shape
    layout = changes.get("layout") or ("NHWC" if shape[3] == 3 and shape[1] != 3 else "NCHW")
    height, width = shape[2:] if layout == "NCHW" else shape[1:3]
    if isinstance(height, int) and isinstance(width, int) and height != width:
        raise ValueError(f"{path} takes photos of {height} x {width} pixels; expected a square.")
    side = next((length for length in (height, width) if isinstance(length, int)), 224)
    return Preprocessing(size=side, layout=layout)


def _sha256(path: Path) -> str:
    """Of the file, and of the files beside it where it keeps weights."""
    digest = hashlib.sha256()
    for file in (path, *(path.parent / name for name in sorted(files_beside(path)))):
        with file.open("rb") as opened:
            digest.update(hashlib.file_digest(opened, "sha256").digest())
    return digest.hexdigest()
