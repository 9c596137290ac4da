"""From a photo to the numbers that a network takes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from PIL import Image

from xlda._internal.arrays import Array
from xlda._internal.upright import check_usable, upright_rgb
from xlda.errors import BadSampleError

INTERPOLATIONS = {way.name.lower(): way for way in Image.Resampling}
LAYOUTS = ("NCHW", "NHWC")
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
NEWEST = 2  # version: to be raised when a photo with the same settings gives other numbers
VIEWS = {1: (1.0,), 2: (1.0, 0.7), 3: (1.0, 0.7, 0.5)}  # by their number
DEFAULT_VIEWS = 2
MOST = 8192  # pixels a side: more is a slip of the keyboard
MOST_VIEWS = 16


@dataclass(frozen=True)
class Preprocessing:
    """How photos become the input of a network: resized, cropped in the centre, normalised.

    The short side becomes `resize` pixels, and the central `size` x `size` pixels are kept. "auto" is 256 for
    224 and in proportion for others; None stretches the whole photo to `size` x `size`. Values v of 0 to 255
    become (v / 255 - mean) / std, for red, green and blue.

    A photo is looked at in several `views`, each the central share of that crop, enlarged to `size` x `size`:
    (1, 0.7) are the crop itself and the middle 70 % of its width and height. Of 1, 2 or 3, by their number,
    the last ones are the middle 70 % and 50 %; "auto" is 2 of them. Their embeddings are averaged.

    `version` is that of the code: 1 is for models of old, with one view. From 2 on, a photo that is many
    times as large as needed is first scaled down by 2, 4, 8 ..., for which JPEG files have a fast way.

    >>> Preprocessing(size=96).resize
    110
    >>> Preprocessing(views=3).views
    (1.0, 0.7, 0.5)
    >>> Preprocessing(size=4).normalise(np.zeros((1, 4, 4, 3), np.uint8)).shape
    (1, 3, 4, 4)
    """

    size: int = 224
    resize: int | Literal["auto"] | None = "auto"
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD
    layout: str = "NCHW"
    interpolation: str = "bilinear"
    views: int | tuple[float, ...] | Literal["auto"] = "auto"
    version: int = NEWEST

    def __post_init__(self) -> None:
        if type(self.version) is not int or not 1 <= self.version <= NEWEST:
            raise ValueError(
                f"version of a preprocessing is 1 to {NEWEST}; got {self.version!r}. "
                "A higher one is of a newer xlda."
            )
        object.__setattr__(self, "views", _shares(self.views, self.version))
        _check_pixels("size", self.size, 1)
        if self.resize == "auto":
            object.__setattr__(self, "resize", round(self.size * 256 / 224))
        if self.resize is not None:
            _check_pixels("resize", self.resize, int(self.size))
            object.__setattr__(self, "resize", int(self.resize))
        object.__setattr__(self, "size", int(self.size))
        for name in ("mean", "std"):
            object.__setattr__(self, name, _three_numbers(name, getattr(self, name)))
        if min(self.std) <= 0:
            raise ValueError(f"std is three numbers above 0; got {self.std}.")
        if self.layout not in LAYOUTS:
            raise ValueError(f"layout is 'NCHW' or 'NHWC'; got {self.layout!r}.")
        if self.interpolation not in INTERPOLATIONS:
            raise ValueError(f"interpolation is one of {tuple(INTERPOLATIONS)}; got {self.interpolation!r}.")

    def changed(self, **changes: Any) -> Preprocessing:
        """The same with other values; a new `size` alone takes `resize` along in proportion.

        A new `version` alone comes with its own views.

        >>> Preprocessing(size=384, resize=384).changed(size=192).resize
        192
        """
        if "version" in changes and "views" not in changes:
            changes["views"] = "auto"
        if "size" in changes and "resize" not in changes and self.resize is not None:
            _check_pixels("size", changes["size"], 1)
            changes["resize"] = round(int(self.resize) * changes["size"] / self.size)
        return dataclasses.replace(self, **changes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a prepared photo: (size, size, 3) with one view, (views, size, size, 3) with several."""
        one = (self.size, self.size, 3)
        return one if len(self.shares) == 1 else (len(self.shares), *one)

    @property
    def shares(self) -> tuple[float, ...]:
        """Of the crop, one for each view."""
        assert isinstance(self.views, tuple)
        return self.views

    @property
    def least_side(self) -> int | None:
        """Pixels of a photo's short side with which no view is enlarged; None: it is taken as it is."""
        whole = self.size if self.resize is None else int(self.resize)
        return None if self.version == 1 else math.ceil(whole / min(self.shares))

    @property
    def scale_and_shift(self) -> tuple[Array, Array]:
        """What pixels of red, green and blue are multiplied with, and what is added then: float32, (3,)."""
        mean, std = np.array(self.mean), np.array(self.std)
        return (1 / (255 * std)).astype(np.float32), (-mean / std).astype(np.float32)

    def to_json(self) -> dict[str, Any]:
        """The values as a dict that JSON can hold, without `version`, for which an identity has a place.

        >>> Preprocessing.from_json(Preprocessing(size=96).to_json()) == Preprocessing(size=96)
        True
        """
        values = dataclasses.asdict(self)
        del values["version"]
        if self.version == 1:  # which has no views
            del values["views"]
        return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}

    @classmethod
    def from_json(cls, values: Any) -> Preprocessing:
        """What `to_json` gave; values left out are the defaults.

        >>> Preprocessing.from_json({"size": 384, "resize": 384}).layout
        'NCHW'
        """
        names = [field.name for field in dataclasses.fields(cls)]
        if not isinstance(values, dict) or not set(values) <= set(names):
            raise ValueError(f"A preprocessing is a JSON object of {', '.join(names)}; got {values!r}.")
        return cls(**values)

    def prepare(self, image: Image.Image) -> Array:
        """Pixels of a photo as in `shape`, uint8, upright as its EXIF data say; transparency becomes white.

        >>> Preprocessing(size=96).prepare(Image.new("L", (640, 480))).shape
        (2, 96, 96, 3)
        >>> Preprocessing(size=96, views=1).prepare(Image.new("L", (640, 480))).shape
        (96, 96, 3)
        """
        view_of = self.views_of(image)
        return np.stack([view_of(share) for share in self.shares]).reshape(self.shape)

    def views_of(self, image: Image.Image) -> Callable[[float], Array]:
        """What gives the pixels (size, size, 3) of a view of the photo by its share, in any thread."""
        upright = _scaled_down(_checked_upright(image), self.least_side)
        box = (0.0, 0.0, float(upright.width), float(upright.height))
        if self.resize is not None:
            box = _box_of_crop(upright.width, upright.height, int(self.resize), self.size)
        way = INTERPOLATIONS[self.interpolation]
        # Only what the crop keeps is computed, from the same neighbours as if all were.
        return lambda share: np.asarray(upright.resize((self.size, self.size), way, _middle(box, share)))

    def normalise(self, batch: Array) -> Array:
        """Pixels (n, height, width, 3), uint8, as the network's float32 input in its layout."""
        if batch.dtype != np.uint8 or batch.ndim != 4 or batch.shape[3] != 3:
            raise ValueError(
                f"normalise got {batch.dtype} of shape {batch.shape}; expected uint8 (n, height, width, 3)."
            )
        scale, shift = self.scale_and_shift
        if self.layout == "NCHW":
            batch, scale, shift = batch.transpose(0, 3, 1, 2), scale[:, None, None], shift[:, None, None]
        values: Array = np.empty(batch.shape, np.float32)
        np.multiply(batch, scale, out=values)
        values += shift
        return values


def _box_of_crop(width: int, height: int, resize: int, size: int) -> tuple[float, float, float, float]:
    """What part of a photo the crop shows; sides and offsets are rounded as torchvision rounds them."""
    short = min(width, height)
    new_width, new_height = int(resize * width / short), int(resize * height / short)
    x, y = width / new_width, height / new_height
    left, top = round((new_width - size) / 2), round((new_height - size) / 2)
    return left * x, top * y, min((left + size) * x, width), min((top + size) * y, height)


def _middle(box: tuple[float, float, float, float], share: float) -> tuple[float, float, float, float]:
    """The central part of a box, whose sides are `share` of its own."""
    if share == 1:
        return box
    left, top, right, bottom = box
    x, y = (right - left) * (1 - share) / 2, (bottom - top) * (1 - share) / 2
    return left + x, top + y, right - x, bottom - y


def _scaled_down(image: Image.Image, least_side: int | None) -> Image.Image:
    """The picture scaled down by 2, 4, 8 ..., as far as its short side keeps `least_side` pixels."""
    times = 1 if least_side is None else min(image.size) // least_side
    return image if times < 2 else image.reduce(1 << (times.bit_length() - 1))


def _checked_upright(image: Any) -> Image.Image:
    if not isinstance(image, Image.Image):
        raise TypeError(f"prepare takes a PIL image; got {type(image).__name__}. PIL.Image.open reads one.")
    try:
        check_usable(image)
    except ValueError as error:
        raise BadSampleError(f"prepare got an image that {error}") from None
    return upright_rgb(image)


def _check_pixels(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) <= MOST:
        raise ValueError(f"{name} is a whole number of pixels from {least} to {MOST}; got {value!r}.")


def _three_numbers(name: str, values: Any) -> tuple[float, ...]:
    numbers = tuple(values) if isinstance(values, (tuple, list, np.ndarray)) else ()
    if len(numbers) != 3 or not all(isinstance(v, Real) and math.isfinite(v) for v in numbers):
        raise ValueError(f"{name} is three numbers, for red, green and blue; got {values!r}.")
    return tuple(float(v) for v in numbers)


def _shares(views: Any, version: int) -> tuple[float, ...]:
    """Views as shares of the crop."""
    if isinstance(views, str) and views == "auto":
        views = 1 if version == 1 else DEFAULT_VIEWS
    if isinstance(views, Integral) and not isinstance(views, bool):
        views = VIEWS.get(int(views), ())
    shares = tuple(views) if isinstance(views, (tuple, list, np.ndarray)) else ()
    if not 1 <= len(shares) <= MOST_VIEWS or not all(
        isinstance(v, Real) and 0 < float(v) <= 1 for v in shares
    ):
        raise ValueError(
            f"views are 1, 2 or 3, or a list of at most {MOST_VIEWS} shares of a photo's middle, "
            f"above 0 and up to 1; got {views!r}."
        )
    if version == 1 and shares != (1,):
        raise ValueError(f"Version 1 of the preprocessing has one view of a photo, 1; got {views!r}.")
    return tuple(float(v) for v in shares)
