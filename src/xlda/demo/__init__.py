"""A demonstration that needs nothing but itself: `run_demo`. Needs `pip install 'xlda[cli]'`."""

from __future__ import annotations

from importlib import import_module

try:
    for _needed in ("fontTools", "matplotlib", "onnx", "onnxruntime", "PIL"):
        import_module(_needed)
except ModuleNotFoundError as error:
    raise ImportError(f"xlda.demo needs {error.name}: pip install 'xlda[cli]'") from None

from xlda.demo.run import run_demo

__all__ = ["run_demo"]
