"""A frozen network from photos to embeddings, run by onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from PIL import Image

from xlda._internal.arrays import Array
from xlda._internal.threads import in_parallel, n_threads
from xlda.backbones.preprocessing import Preprocessing
from xlda.identity import BackboneIdentity

AT_ONCE = 3  # pictures in one run: more take more memory, and more time each
ENOUGH = 4  # pictures for each thread: then it matters little that some have one more than others
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


class Backbone:
    """A network with its preprocessing: photos in, embeddings out. `load` opens one.

    `name` is for people. `identity` is what a model or a file of embeddings keeps of it: embeddings of equal
    `identity.identity` can be compared, others cannot. A backbone can be shared by threads.
    """

    def __init__(
        self,
        session: Any,
        name: str,
        preprocessing: Preprocessing,
        content: str,
        cut_head: bool = False,
        n_features: int | None = None,
        of_one_thread: Callable[[], Any] | None = None,
    ) -> None:
        self.name = name
        self.preprocessing = preprocessing
        self._session = session
        self._threads: int = session.get_session_options().intra_op_num_threads
        # A session of the same network for threads with pictures of their own, opened when it is needed.
        self._of_one_thread = cache(of_one_thread) if of_one_thread and self._threads > 1 else None
        self._input = only_input(self._session, name)
        self._check_input()
        n_fixed = self._input.shape[0]
        self._n_fixed = n_fixed if isinstance(n_fixed, int) else None
        size = preprocessing.size
        # Of a file from anywhere, it is tried out.
        if n_features is None:
            n_features = self._run(np.zeros((1, size, size, 3), np.uint8), self._session).shape[1]
        self.n_features = n_features
        self.identity = BackboneIdentity.of(
            name,
            content,
            preprocessing.to_json(),
            preprocessing_version=preprocessing.version,
            width=self.n_features,
            cut_head=cut_head,
        )

    def __repr__(self) -> str:
        return f"Backbone({self.name!r}, n_features={self.n_features}, size={self.preprocessing.size})"

    def prepare(self, image: Image.Image) -> Array:
        """A photo as one row of the batch that `embed` takes: uint8, of the preprocessing's `shape`."""
        return self.preprocessing.prepare(image)

    @property
    def least_side(self) -> int | None:
        """Pixels that the short side of a photo should have at least; None: all that there are."""
        return self.preprocessing.least_side

    def embed(self, batch: Array) -> Array:
        """Embeddings (n, n_features), float32, of n prepared photos: averages over their views."""
        views = self._views(batch)
        of_views = np.empty((len(views), self.n_features), np.float32)
        if self._is_shared_out(len(views)):
            session = self._for_one_thread()
            in_parallel(
                lambda start, stop, _: self._fill(of_views[start:stop], views[start:stop], session),
                len(views),
                self._threads,
            )
        else:
            self._fill(of_views, views, self._session)
        return self._averaged(of_views, len(batch))

    def embed_here(self, batch: Array) -> Array:
        """The same by the calling thread alone, for whoever has several threads with photos of their own."""
        views = self._views(batch)
        of_views = np.empty((len(views), self.n_features), np.float32)
        self._fill(of_views, views, self._for_one_thread())
        return self._averaged(of_views, len(batch))

    def embed_one(self, image: Image.Image) -> Array:
        """The embedding (n_features,) of one photo. Threads share out its views, where that is faster."""
        shares = self.preprocessing.shares
        if not self._is_shared_out(len(shares)):
            alone: Array = self.embed(self.prepare(image)[None])[0]
            return alone
        view_of, session = self.preprocessing.views_of(image), self._for_one_thread()
        of_views = np.empty((len(shares), self.n_features), np.float32)

        def resize_and_embed(start: int, stop: int, _: int) -> None:
            views = np.stack([view_of(share) for share in shares[start:stop]])
            self._fill(of_views[start:stop], views, session)

        in_parallel(resize_and_embed, len(shares), self._threads)
        embedding: Array = self._averaged(of_views, 1)[0]
        return embedding

    def _views(self, batch: Array) -> Array:
        """All views of prepared photos, one after the other."""
        batch = np.asarray(batch)
        shape = self.preprocessing.shape
        if batch.dtype != np.uint8 or batch.shape[1:] != shape:
            raise ValueError(
                f"embed got {batch.dtype} of shape {batch.shape}; expected uint8 "
                f"(n, {', '.join(map(str, shape))}). `prepare` makes one row from a photo."
            )
        return batch.reshape(-1, *shape[-3:])

    def _averaged(self, of_views: Array, n: int) -> Array:
        """Embeddings of n photos from those of their views."""
        embeddings = of_views
        if len(of_views) > n:
            embeddings = of_views.reshape(n, -1, self.n_features).mean(axis=1)
        if not np.isfinite(embeddings).all():
            row = int(np.flatnonzero(~np.isfinite(embeddings).all(axis=1))[0])
            raise ValueError(
                f"{self.name} gave NaN or infinite numbers for photo {row} of the batch. "
                "Check the network, and mean and std of its preprocessing."
            )
        return embeddings

    def _is_shared_out(self, n: int) -> bool:
        """Whether each thread embeds pictures of its own; else all of them work on the same one."""
        if self._of_one_thread is None or not n:
            return False
        return n % self._threads == 0 or n >= ENOUGH * self._threads

    def _for_one_thread(self) -> Any:
        return self._session if self._of_one_thread is None else self._of_one_thread()

    def _fill(self, embeddings: Array, views: Array, session: Any) -> None:
        for start in range(0, len(views), self._n_fixed or AT_ONCE):
            part = slice(start, start + (self._n_fixed or AT_ONCE))
            embeddings[part] = self._run(views[part], session)

    def _run(self, batch: Array, session: Any) -> Array:
        """Embeddings of at most as many pictures as go into one run."""
        n = len(batch)
        if self._n_fixed is not None and n < self._n_fixed:
            batch = np.concatenate([batch, np.repeat(batch[-1:], self._n_fixed - n, axis=0)])
        return self._pooled(self._raw(batch, session), len(batch))[:n]

    def _raw(self, batch: Array, session: Any) -> Array:
        """What the network gives for just as many photos as it takes."""
        values = self.preprocessing.normalise(batch).astype(TYPES[self._input.type], copy=False)
        try:
            output = session.run([session.get_outputs()[0].name], {self._input.name: values})[0]
        except Exception as error:  # onnxruntime's own errors have no class in common
            raise ValueError(
                f"{self.name} cannot embed photos of size {self.preprocessing.size}: {first_line(error)}"
            ) from error
        return np.asarray(output)

    def _pooled(self, output: Array, n: int) -> Array:
        """The output as (n, n_features): a map of features is averaged over its height and width.

        Photos are square, so the two axes of equal length are height and width, and the third is the
        channels'. Where all three are equal, they are ordered as in the input.
        """
        shape = output.shape
        if output.dtype.kind != "f" or len(shape) not in (2, 4) or shape[0] != n or 0 in shape:
            raise ValueError(
                f"{self.name} gave {output.dtype} values of shape {shape} for {n} photos; expected floats "
                "(n, n_features), or a map of features with 4 axes. Export it with its pooling."
            )
        output = output.astype(np.float32, copy=False)
        if len(shape) == 2:
            return output
        pooled: Array = output.mean(axis=self._map_axes(shape))
        return pooled

    def _map_axes(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Height and width of maps of this shape."""
        is_first, is_last = shape[2] == shape[3], shape[1] == shape[2]
        if not is_first and not is_last:
            raise ValueError(
                f"{self.name} gave maps of shape {shape}: which axis is the channels' is not clear."
            )
        if is_first and is_last:
            is_first = self.preprocessing.layout == "NCHW"
        return (2, 3) if is_first else (1, 2)

    def _check_input(self) -> None:
        """Refuse a preprocessing that the network's input cannot be."""
        size, layout = self.preprocessing.size, self.preprocessing.layout
        expected = [3, size, size] if layout == "NCHW" else [size, size, 3]
        for found, wanted in zip(self._input.shape[1:], expected, strict=True):
            if isinstance(found, int) and found != wanted:
                raise ValueError(
                    f"{self.name} takes input of shape {self._input.shape}; size {size} and layout {layout} "
                    f"give (n, {', '.join(map(str, expected))}). Set one of them, or export it for that size."
                )


def open_session(source: str | bytes, name: str, threads: int | None, keep: Path | None = None) -> Any:
    """A session of the file or its content; threads are all cores unless said.

    Where `keep` is given, the graph is written there as it was optimised.
    """
    if threads is not None and (type(threads) is not int or threads < 1):
        raise ValueError(f"threads is a whole number from 1, or None for all cores; got {threads!r}.")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or n_threads()
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    # A waiting thread sleeps: spinning takes the cores that decode the next photos.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if keep is not None:
        options.optimized_model_filepath = str(keep)
    options.log_severity_level = 4  # errors are raised; warnings are about the exporter's business
    try:
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own errors have no class in common
        raise ValueError(
            f"{name} is not a complete ONNX file that onnxruntime can run: {first_line(error)}"
        ) from error


def only_input(session: Any, name: str) -> Any:
    """The one input of a network of photos."""
    inputs = session.get_inputs()
    found = [f"{value.name} {value.type} {value.shape}" for value in inputs]
    if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].type not in TYPES:
        raise ValueError(
            f"{name} takes {', '.join(found) or 'nothing'}; "
            "expected one input, of floats with 4 axes: a batch of photos."
        )
    return inputs[0]


def first_line(error: Exception) -> str:
    """What an error says first, without what onnxruntime puts before it."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0].removeprefix("[ONNXRuntimeError] : ")
