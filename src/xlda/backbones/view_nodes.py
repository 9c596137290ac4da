"""Views of a photo as nodes of an ONNX graph: from pixels to what a network takes.

Resizing along one side is a product with a matrix, which Pillow itself is asked for. So a view is Pillow's
up to a grey level or two here and there, whichever the interpolation, and wherever its edges lie between
pixels. ONNX has a node for resizing, but its edges are whole pixels, and not every runtime can do all of it.
"""

from __future__ import annotations

import math

import numpy as np
from PIL import Image

from xlda._internal.arrays import Array
from xlda.backbones.preprocessing import INTERPOLATIONS, MOST, Preprocessing
from xlda.onnx_graph.graph_parts import GraphParts

PIECES = 4  # of a side, resized one by one: most of the matrix of a whole side is zeros


def pixels_needed(preprocessing: Preprocessing) -> int:
    """Pixels a side of the whole crop, so that no view of it is enlarged."""
    side = math.ceil(preprocessing.size / min(preprocessing.shares) - 1e-9)
    if side > MOST:
        raise ValueError(
            f"A view of {min(preprocessing.shares):g} of a photo would need {side:,} pixels a side to cut it "
            f"from; {MOST:,} are the most. Its model cannot be exported with its backbone."
        )
    return side


def add_views(graph: GraphParts, pixels: str, preprocessing: Preprocessing) -> str:
    """Nodes from `pixels` (n, side, side, 3), uint8, to float32 input of the network, (views * n, ...).

    First the first view of all photos, then the second of all.
    """
    side, size = pixels_needed(preprocessing), preprocessing.size
    values = graph.add("Cast", graph.add("Transpose", pixels, perm=[0, 3, 1, 2]), to=_float_type())
    views = []
    for share in preprocessing.shares:
        margin = side * (1 - share) / 2
        matrix = resizing(side, size, margin, side - margin, preprocessing.interpolation)
        first, last = np.flatnonzero(matrix.any(axis=0))[[0, -1]].tolist()
        view, matrix = values, matrix[:, first : last + 1]
        if last + 1 - first < side:
            view = graph.part(graph.part(view, first, last + 1, 2), first, last + 1, 3)
        if not np.array_equal(matrix, np.eye(len(matrix))):  # along rows first, as Pillow does it
            view = _add_resized(graph, _add_resized(graph, view, matrix, 3), matrix, 2)
        views.append(view)
    together = views[0] if len(views) == 1 else graph.add("Concat", *views, axis=0)
    return _add_normalised(graph, together, preprocessing)


def resizing(side: int, size: int, start: float, stop: float, interpolation: str) -> Array:
    """What makes `size` pixels of those from `start` to `stop` of a side, (size, side), float32.

    >>> resizing(4, 2, 0, 4, "box").tolist()
    [[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]]
    """
    each_alone = Image.fromarray(np.eye(side, dtype=np.float32))
    resized = each_alone.resize((size, side), INTERPOLATIONS[interpolation], (start, 0, stop, side))
    return np.asarray(resized).T


def _add_resized(graph: GraphParts, last: str, matrix: Array, axis: int) -> str:
    """Nodes that resize along an axis, 2 or 3, and round to whole numbers of 0 to 255, as Pillow does."""
    pieces = []
    for rows in np.array_split(matrix, min(PIECES, len(matrix))):
        first, end = np.flatnonzero(rows.any(axis=0))[[0, -1]].tolist()
        some, weights = graph.part(last, first, end + 1, axis), rows[:, first : end + 1]
        if axis == 3:
            pieces.append(graph.add("MatMul", some, graph.floats(weights.T)))
        else:
            pieces.append(graph.add("MatMul", graph.floats(weights), some))
    whole = graph.add("Concat", *pieces, axis=axis)
    rounded = graph.add("Floor", graph.add("Add", whole, graph.floats(0.5)))
    return graph.add("Clip", rounded, graph.floats(0.0), graph.floats(255.0))


def _add_normalised(graph: GraphParts, last: str, preprocessing: Preprocessing) -> str:
    scale, shift = preprocessing.scale_and_shift
    scaled = graph.add("Mul", last, graph.floats(scale[:, None, None], "scale"))
    moved = graph.add("Add", scaled, graph.floats(shift[:, None, None], "shift"))
    return moved if preprocessing.layout == "NCHW" else graph.add("Transpose", moved, perm=[0, 2, 3, 1])


def _float_type() -> int:
    from onnx import TensorProto

    return int(TensorProto.FLOAT)
