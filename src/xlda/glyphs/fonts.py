"""Font files: where they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from xlda._internal.extras import needs

SUFFIXES = {".ttf", ".otf", ".ttc", ".otc"}
DEFAULT = (
    "DejaVu*.ttf",
    "STIXGeneral*.ttf",
)  # its other fonts: sizes of brackets, private use, TeX's encoding
SYSTEM = (
    "/usr/share/fonts",
    "/usr/local/share/fonts",
    "~/.local/share/fonts",
    "~/.fonts",
    "/System/Library/Fonts",
    "/Library/Fonts",
    "~/Library/Fonts",
    "C:/Windows/Fonts",
)


def font_files(fonts: str | Path | Sequence[str | Path] = "default") -> list[Path]:
    """Font files in order of their names, each once, however many links lead to it.

    `fonts` is "default" for those that matplotlib carries, "system" for the folders of the operating system,
    or files and folders, which are searched with all folders in them.

    >>> [path.name for path in font_files()][:2]
    ['DejaVuSans-Bold.ttf', 'DejaVuSans-BoldOblique.ttf']
    """
    if fonts == "default":
        found = [path for pattern in DEFAULT for path in _carried_by_matplotlib().glob(pattern)]
    else:
        given = SYSTEM if fonts == "system" else [fonts] if isinstance(fonts, str | Path) else fonts
        found = [path for place in given for path in _inside(Path(place).expanduser(), fonts != "system")]
    if not found:
        raise ValueError(f"No font was found in {_named(fonts)}; fonts end in {', '.join(sorted(SUFFIXES))}.")
    return sorted({path.resolve() for path in found}, key=lambda path: (path.name, path))


def _carried_by_matplotlib() -> Path:
    # Importing matplotlib takes longer than reading its fonts, and may write to the home folder.
    spec = find_spec("matplotlib")
    if spec is None or spec.origin is None:
        raise needs("Finding the default fonts", "matplotlib", "glyphs")
    return Path(spec.origin).parent / "mpl-data" / "fonts" / "ttf"


def _inside(place: Path, must_exist: bool) -> Iterator[Path]:
    if must_exist and not place.exists():
        raise ValueError(f'{place} is neither a file nor a folder; fonts="default" needs none.')
    files = [place] if place.is_file() else place.rglob("*")
    return (path for path in files if path.suffix.lower() in SUFFIXES and path.is_file())


def _named(fonts: str | Path | Sequence[str | Path]) -> str:
    if isinstance(fonts, str | Path):
        return {"default": "matplotlib", "system": "the folders of the system"}.get(str(fonts), str(fonts))
    return ", ".join(map(str, fonts)) or "an empty list"
