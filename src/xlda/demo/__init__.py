"""A demonstration that needs nothing but itself: `run_demo`. Needs the extra `cli`."""

from __future__ import annotations

from importlib import import_module

from xlda._internal.extras import needs

try:
    for _needed in ("fontTools", "matplotlib", "onnxruntime", "PIL"):
        import_module(_needed)
except ModuleNotFoundError as error:
    raise needs("xlda.demo", f"{error.name}", "cli") from None

from xlda.demo.run import run_demo

__all__ = ["run_demo"]
