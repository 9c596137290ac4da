"""What to say where a package is missing that only a part of xlda needs."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path


def needs(what: str, package: str, extra: str) -> ImportError:
    """The error to raise where `what` lacks a package of one of the extras in pyproject.toml.

    >>> print(needs("Opening photos", "pillow", "images"))  # doctest: +ELLIPSIS
    Opening photos needs pillow: pip install ...[images]...
    """
    return ImportError(f"{what} needs {package}: {install_line(extra)}")


def install_line(extra: str) -> str:
    """The command that installs an extra from where this xlda came from: a checkout, a file, or an index."""
    checkout = _checkout()
    if checkout is not None:
        return f"pip install --editable {_quoted(f'{checkout}[{extra}]')}"
    return f"pip install {_quoted(_requirement(extra))}"


def _checkout() -> Path | None:
    """The folder with the pyproject.toml of this code, where it is not a copy that was installed."""
    import tomllib

    sources = Path(__file__).resolve().parents[2]
    project = sources.parent / "pyproject.toml"
    if sources.name != "src" or not project.is_file():
        return None
    name = tomllib.loads(project.read_text("utf-8")).get("project", {}).get("name")
    return project.parent if name == "xlda" else None


def _requirement(extra: str) -> str:
    """What to ask pip for: the place that it noted when it installed xlda, or the name alone."""
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    named = f"xlda[{extra}]"
    try:
        noted = distribution("xlda").read_text("direct_url.json")
    except PackageNotFoundError:
        return named
    if noted is None:
        return named
    origin = json.loads(noted)
    url = str(origin["url"])
    if urlsplit(url).scheme == "file":
        place = Path(url2pathname(urlsplit(url).path))
        return f"{place}[{extra}]" if place.exists() else named
    version_control = origin.get("vcs_info")
    if version_control:
        url = f"{version_control['vcs']}+{url}@{version_control['commit_id']}"
    return f"{named} @ {url}"


def _quoted(text: str) -> str:
    return f'"{text}"' if os.name == "nt" else shlex.quote(text)
