"""A model and its backbone as one ONNX file: pixels in, labels and probabilities out, without xlda."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from xlda._internal.built_in import INT8
from xlda._internal.files import write_whole
from xlda._internal.third_party import THIRD_PARTY
from xlda.backbones import Backbone
from xlda.backbones.network_nodes import WholeGraph
from xlda.backbones.view_nodes import pixels_needed
from xlda.calibration.folds import BEST
from xlda.classifier import XLDA
from xlda.labels import Label
from xlda.layers.onnx_files import LABELS
from xlda.onnx_graph.exported_head import ExportedHead
from xlda.onnx_graph.graph_parts import GraphParts
from xlda.onnx_graph.probabilities import Probabilities
from xlda.photos.whole_network_check import check_answers

PIXELS, BACKBONE, LICENCE = "xlda.pixels", "xlda.backbone", "xlda.licence"  # in the metadata
USUAL_TOP_K = 5
MOST_BYTES = 2**31 - 1  # of an ONNX file


def write_whole_network(
    clf: XLDA, backbone: Backbone, source: str, path: str | os.PathLike[str], top_k: int | None = None
) -> dict[str, Any]:
    """Write the file, after its answers were compared with those of the model; gives what is in it.

    `source` says where the backbone's network is: its name, or its file.
    """
    head = ExportedHead(clf, "export")
    k = min(USUAL_TOP_K, len(head.labels)) if top_k is None else head.checked_top_k(top_k)
    whole = WholeGraph(backbone, source)
    side = pixels_needed(backbone.preprocessing)
    _add_answers(whole.parts, whole.add_embedding("pixels"), head, Probabilities(clf), k)
    n: int | str = whole.n_photos or "n"
    model = whole.finished(_inputs(n, side), _outputs(n, k, head.labels))
    _describe(model, head.labels, backbone, side)
    content = _checked_content(model)
    check_answers(content, clf, backbone, k, side, whole.n_photos)
    write_whole(Path(path), content)
    return {"classes": len(head.labels), "top_k": k, "size": side, "bytes": len(content)}


def _add_answers(
    graph: GraphParts, embedding: str, head: ExportedHead, probabilities: Probabilities, k: int
) -> None:
    """Nodes from embeddings to what is given: its names are those of the outputs."""
    n_scores = min(max(k, BEST), len(head.labels))
    logits = head.add_to(graph, embedding)
    scores, indices = graph.add_several("TopK", logits, graph.whole([n_scores]), names=[None, None], axis=1)
    shares = probabilities.add_to(graph, scores, n_scores)
    best = {
        name: graph.part(values, 0, k, 1)
        for name, values in (("scores", scores), ("indices", indices), ("probabilities", shares))
    }
    is_text = isinstance(head.labels[0], str)
    names = graph.texts(map(str, head.labels)) if is_text else graph.whole(head.labels)
    best["labels"] = graph.add("Gather", names, best["indices"], axis=0)
    graph.give(best)


def _inputs(n: int | str, side: int) -> list[Any]:
    from onnx import TensorProto, helper

    return [helper.make_tensor_value_info("pixels", TensorProto.UINT8, [n, side, side, 3])]


def _outputs(n: int | str, k: int, labels: list[Label]) -> list[Any]:
    from onnx import TensorProto, helper

    types = {
        "labels": TensorProto.STRING if isinstance(labels[0], str) else TensorProto.INT64,
        "probabilities": TensorProto.FLOAT,
        "scores": TensorProto.FLOAT,
        "indices": TensorProto.INT64,
    }
    return [helper.make_tensor_value_info(name, of, [n, k]) for name, of in types.items()]


def _describe(model: Any, labels: list[Label], backbone: Backbone, side: int) -> None:
    """Write into the metadata what the file is; what others wrote there of the network stays."""
    preprocessing = backbone.preprocessing
    crop = None if preprocessing.resize is None else preprocessing.size / int(preprocessing.resize)
    pixels = {"size": side, "crop": crop, "channels": "RGB", "interpolation": preprocessing.interpolation}
    shown = "the whole photo" if crop is None else f"the middle {crop:.4g} of its short side"
    model.producer_name = "xlda"
    model.doc_string = (
        f"{len(labels)} classes of photos by {backbone.name} and XLDA. In: {shown}, resized to "
        f"{side} x {side} pixels, RGB, uint8. Out: the best labels, and how likely each is."
    )
    kept = {prop.key: prop.value for prop in model.metadata_props if not prop.key.startswith("xlda.")}
    written = {
        LABELS: json.dumps(labels),
        PIXELS: json.dumps(pixels),
        BACKBONE: json.dumps(backbone.identity.to_json()),
    }
    for work in THIRD_PARTY:
        if work.name == backbone.name.removesuffix(INT8):
            written[LICENCE] = f"weights of {work.name}: {work.licence}, {work.authors}, {work.source}"
    del model.metadata_props[:]
    for key, value in {**kept, **written}.items():
        model.metadata_props.add(key=key, value=value)


def _checked_content(model: Any) -> bytes:
    import onnx

    if model.ByteSize() > MOST_BYTES:
        raise ValueError(
            f"With its backbone the model has {model.ByteSize():,} bytes, and an ONNX file at most "
            f"{MOST_BYTES:,}. Export the head alone."
        )
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString()
    return content
