"""All calls as one plain page, which needs nothing from anywhere else."""

from __future__ import annotations

import html
from typing import Any

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}: all calls</title>
<style>
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem }}
h2 {{ font: 600 1rem/1.4 ui-monospace, monospace; margin: 2rem 0 0; overflow-wrap: anywhere }}
p {{ margin: .3rem 0 }} small {{ color: #555 }} code {{ font-size: .9em }}
</style>
<h1>{title}: all calls</h1>
<p>{description} The same as an <a href="openapi.json">OpenAPI document</a>.</p>
{calls}
</html>
"""


def docs_page(document: dict[str, Any]) -> str:
    """The page of an OpenAPI document."""
    calls = [
        _call(method, path, call)
        for path, methods in document["paths"].items()
        for method, call in methods.items()
    ]
    info = document["info"]
    return PAGE.format(
        title=html.escape(info["title"]), description=html.escape(info["description"]), calls="\n".join(calls)
    )


def _call(method: str, path: str, call: dict[str, Any]) -> str:
    named = [
        f"<code>{html.escape(one['name'])}</code> in the {one['in']}" for one in call.get("parameters", [])
    ]
    takes = ", ".join(html.escape(kind) for kind in call.get("requestBody", {}).get("content", {}))
    answers = ", ".join(call["responses"])
    parts = [
        f"<h2>{method.upper()} {html.escape(path)}</h2>",
        f"<p>{html.escape(call.get('description', ''))}</p>",
        f"<p><small>{', '.join(named)}</small></p>" if named else "",
        f"<p><small>Takes {takes}.</small></p>" if takes else "",
        f"<p><small>Answers {answers}.</small></p>",
    ]
    return "\n".join(part for part in parts if part)
