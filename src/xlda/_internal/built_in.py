"""Names of the backbones that are built in, for code that does not load them."""

from __future__ import annotations

DEFAULT_BACKBONE = "efficientnet-lite0"
BUILT_IN = (DEFAULT_BACKBONE, "efficientnet-lite1", "efficientnet-lite2")
INT8 = "-int8"  # after a name: the network is computed in whole numbers of 8 bits


def is_built_in(name: str) -> bool:
    """Whether this is the name of a built-in backbone.

    >>> is_built_in("efficientnet-lite1"), is_built_in("efficientnet-lite1-int8"), is_built_in("my-int8")
    (True, True, False)
    """
    return name.removesuffix(INT8) in BUILT_IN
