"""What programs that drive the page share with its tests: the browser, and drawn products."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "page"))

from browser import Camera, Tab, launched
from products import DRAWN, frame, photo

__all__ = ["DRAWN", "Camera", "Tab", "frame", "launched", "photo"]
