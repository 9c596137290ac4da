"""Names of the backbones that are built in, for code that does not load them."""

from __future__ import annotations

DEFAULT_BACKBONE = "efficientnet-lite0"
BUILT_IN = (DEFAULT_BACKBONE, "efficientnet-lite1", "efficientnet-lite2")
