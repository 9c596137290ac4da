"""A text as a picture that a phone reads."""

from __future__ import annotations

import io


def qr_svg(text: str) -> str | None:
    """An SVG document; None where the package for it is not there.

    >>> (qr_svg("http://192.168.1.5:8765/") or "<svg>").startswith("<svg")
    True
    """
    try:
        import segno
    except ImportError:
        return None
    file = io.BytesIO()
    code = segno.make(text, error="m", micro=False)
    code.save(
        file, kind="svg", xmldecl=False, svgclass=None, lineclass=None, scale=8, light="white", nl=False
    )
    return file.getvalue().decode()
