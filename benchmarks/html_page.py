"""A Markdown page with its plots as one HTML file."""

from __future__ import annotations

import base64
import re
from html import escape
from pathlib import Path

from markdown_it import MarkdownIt

CSS = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; color: #1f2937; background: #fff;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; }
main { max-width: 1100px; margin: 0 auto; padding: 2rem 1.25rem 3rem; }
h1 { font-size: 2rem; line-height: 1.2; }
h2 { font-size: 1.4rem; border-top: 1px solid #e5e7eb; margin-top: 2.5rem; padding-top: 1.5rem; }
h3 { font-size: 1.05rem; margin-top: 1.75rem; }
p, li { max-width: 52rem; }
p:has(img) { max-width: none; }
img { display: block; max-width: 100%; height: auto; margin: 1rem 0; }
code { font: .875em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; background: #f3f4f6;
  padding: .1em .3em; border-radius: 3px; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .35rem 1.1rem .35rem 0;
  border-bottom: 1px solid #e5e7eb; }
th { font-size: .8125rem; color: #4b5563; vertical-align: bottom; }
a { color: #1d4ed8; }
"""


def as_html(text: str, folder: Path) -> str:
    """The page; plots are looked up in `folder`."""
    body = MarkdownIt("commonmark").enable("table").render(text)
    body = body.replace("<table>", '<div class="scroll"><table>').replace("</table>", "</table></div>")
    body = re.sub(r'src="([^"]+\.svg)"', lambda match: f'src="{_data(folder / match[1])}"', body)
    body = re.sub(r"(?<=\d) (?=(?:h|min|s|ms|MB|MiB|GB)\b|[±%])", "\u00a0", body).replace("± ", "±\u00a0")
    title = escape(text.splitlines()[0].lstrip("# "))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>XLDA: {title}</title><style>{CSS}</style></head>\n"
        f"<body><main>\n{body}</main></body></html>\n"
    )


def _data(path: Path) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"
