"""How a phone or a computer comes to trust this service's own authority: a page, and the certificate."""

from __future__ import annotations

import html
from collections.abc import Callable

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from xlda.service.gate import Answered, Hosts
from xlda.service.problems import Problem
from xlda.service.qr import qr_svg
from xlda.service.shapes import refusals

KIND = "application/x-x509-ca-cert"
FILE = "xlda-authority.crt"
STEPS = {
    "iPhone and iPad": (
        "Open this page in Safari, tap the certificate above, and allow the download.",
        "Settings: Profile Downloaded (or General, VPN &amp; Device Management): Install.",
        "Settings: General, About, Certificate Trust Settings: switch it on. It needs this step too.",
    ),
    "Android": (
        "Download the certificate above.",
        "Settings: Security, More security settings, Encryption &amp; credentials, Install a certificate, CA "
        "certificate, Install anyway; choose the file. A search for “CA certificate” finds it.",
    ),
    "Windows": (
        "Open the file: Install Certificate, Current User, “Place all certificates in the following store”, "
        "Trusted Root Certification Authorities.",
        "Start the browser again.",
    ),
    "macOS": (
        "Open the file: the Keychain Access app takes it. Double-click it there, and under Trust choose "
        "Always Trust.",
    ),
    "Linux": (
        "Chrome and Chromium: Settings, Privacy and security, Security, Manage certificates, Authorities: "
        "Import.",
        "Firefox, on any system: Settings, Privacy &amp; Security, Certificates, View Certificates, "
        "Authorities: Import.",
        "Programs, on Debian and Ubuntu: copy the file to <code>/usr/local/share/ca-certificates/</code>, "
        "then <code>sudo update-ca-certificates</code>.",
    ),
}
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Trust this xlda service</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 42rem; margin: 2rem auto; padding: 0 1rem }}
svg {{ width: 12rem; height: auto; background: white }} code {{ overflow-wrap: anywhere }}
a.file {{ display: inline-block; padding: .6rem 1rem; border: 1px solid; border-radius: .4rem }}
</style>
<h1>Trust this xlda service</h1>
<p>A browser gives the camera to a page only where the connection is safe. This service has made a
certificate of its own for that, which your device does not know yet. Install it once:</p>
<p><a class="file" href="v1/authority">The certificate of this service</a></p>
<p>It can vouch for this machine and for addresses of local networks, and for nothing else on the internet.
Compare its fingerprint (SHA-256) with the one that the service has printed where it was started:</p>
<p><code>{fingerprint}</code></p>
{qr}
{steps}
<h2>Then</h2>
<p>{then}</p>
</html>
"""


class Trust:
    """What there is to trust, and where: a certificate (PEM), its fingerprint, and links to the service."""

    def __init__(
        self,
        certificate: Callable[[], bytes],
        fingerprint: str,
        places: Callable[[], list[str]],
        plain_places: Callable[[], list[str]],
    ) -> None:
        self.certificate, self.fingerprint = certificate, fingerprint
        self._places, self._plain_places = places, plain_places

    def page(self) -> str:
        """The page of now."""
        plain, then = self._plain_places(), self._places()
        code = qr_svg(f"{plain[0]}trust") if plain else None
        scan = (
            ""
            if code is None
            else f"<p>On another device, open this page by scanning this:</p>\n<p>{code}</p>"
        )
        steps = "\n".join(
            f"<h2>{name}</h2>\n<ol>" + "".join(f"<li>{step}</li>" for step in some) + "</ol>"
            for name, some in STEPS.items()
        )
        links = [f'<a href="{html.escape(url)}">{html.escape(url)}</a>' for url in then]
        return PAGE.format(
            fingerprint=html.escape(self.fingerprint),
            qr=scan,
            steps=steps,
            then=f"Open {' or '.join(links)}." if links else "Open the page of the service.",
        )


def add_trust(app: FastAPI) -> None:
    """Serve the page and the certificate, to anybody: it holds no secret."""

    @app.get("/trust", include_in_schema=False)
    async def trust(request: Request) -> Response:
        return HTMLResponse(_of(request).page())

    @app.get(
        "/v1/authority",
        responses={
            **refusals(404),
            200: {"content": {KIND: {"schema": {"type": "string"}}}, "description": "A certificate, PEM."},
        },
    )
    async def authority(request: Request) -> Response:
        """The certificate of this service's own authority (`--tls auto`), for devices to trust."""
        return _certificate(_of(request))


def _of(request: Request) -> Trust:
    found: Trust | None = getattr(request.app.state, "trust", None)
    if found is None:
        raise Problem(404, "This service has no authority of its own. Start it with --tls auto.")
    return found


def _certificate(trust: Trust) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{FILE}"'}
    return Response(trust.certificate(), media_type=KIND, headers=headers)


def plain_app(trust: Trust, hosts: Hosts) -> ASGIApp:
    """The page and the certificate alone, for who cannot use https before he has them."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        named = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        response: Response = PlainTextResponse("There is nothing here but /trust.\n", 404)
        if len(named) != 1 or not hosts.allows(named[0], scope):
            response = PlainTextResponse("This service does not go by that host name.\n", 403)
        elif scope["method"] not in ("GET", "HEAD"):
            response = PlainTextResponse("This address is for looking alone.\n", 405, {"Allow": "GET, HEAD"})
        elif scope["path"] in ("/", "/trust"):
            response = HTMLResponse(trust.page())
        elif scope["path"] == "/v1/authority":
            response = _certificate(trust)
        await response(scope, receive, Answered(send).send)

    return app
