"""The server in front: hands out the shelf and the page's own files, to those who ask for this machine by a name of its own."""

import ipaddress
import os
import re
import socket
from pathlib import Path

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from dashboards.page import asset

TYPES = {
    "html": "text/html; charset=utf-8",
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "tex": "text/plain; charset=utf-8",
    "yaml": "text/plain; charset=utf-8",
    "png": "image/png",
    "pdf": "application/pdf",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
}
"""What is served, by the ending of its name."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self'"
)
HEADERS = {
    "Content-Security-Policy": f"{POLICY}; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
WAITING = """<!doctype html>
<html lang="en"><title>stsq</title><link rel="icon" href="data:,"><meta http-equiv="refresh" content="1">
<body style="font: 18px Georgia, serif; margin: 20vh auto; max-width: 24em; color-scheme: light dark">Reading the run ...</body>
</html>
"""
NAME = re.compile(r"[A-Za-z0-9_]+[A-Za-z0-9_.-]*")


def application(shelf: Path, *, num_runs: int, host: str) -> ASGIApp:
    """The server's application for a shelf of `num_runs` runs; `host` is the name or address that it listens on."""

    def folder_of(request: Request) -> Path:
        place = request.path_params.get("place")
        if place is None:
            return shelf
        if not 1 <= place <= num_runs or num_runs == 1:
            raise HTTPException(404)
        return shelf / "runs" / str(place)

    def page(request: Request) -> Response:
        return _page(folder_of(request) / "index.html")

    def part(request: Request) -> Response:
        return _file(folder_of(request) / "parts", request.path_params["name"] + ".html")

    def state(request: Request) -> Response:
        return _file(folder_of(request), "state.json")

    def download(request: Request) -> Response:
        return _file(folder_of(request), request.path_params["name"])

    def without_slash(request: Request) -> Response:
        return RedirectResponse(f"/runs/{request.path_params['place']}/")

    def own(request: Request) -> Response:
        return _own(request.url.path.removeprefix("/"))

    of_view = [("", page), ("state", state), ("parts/{name}", part), ("{name}", download)]
    routes = [Route(f"/{name}", own) for name in ("page.css", "page.js", "live.js", "plotly.js")]
    routes += [Route("/runs/{place:int}", without_slash)]
    routes += [Route(f"{root}/{path}", answer) for root in ("", "/runs/{place:int}") for path, answer in of_view]
    return GuardedHost(Starlette(routes=routes), host)


class GuardedHost:
    """Answers only requests whose Host is an address, `localhost` or a name of this machine.

    A page elsewhere whose host name is pointed at this machine (DNS rebinding) asks under a name of its own, and gets nothing.
    """

    def __init__(self, app: ASGIApp, host: str) -> None:
        self._app = app
        self._names = {"localhost", host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._is_own(Headers(scope=scope).get("host", "")):
            refused = PlainTextResponse("Ask for this server by its address or by localhost.\n", 421)
            await refused(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_own(self, told: str) -> bool:
        name = re.sub(r":\d+$", "", told).strip("[]").lower()
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self._names
        return True


def _page(path: Path) -> Response:
    """A page; while the renderer is still at its first look, one that loads itself again."""
    if path.exists():
        return _file(path.parent, path.name)
    return Response(WAITING, media_type=TYPES["html"], headers=HEADERS)


def _file(folder: Path, name: str) -> Response:
    """A plain file of a folder; nothing behind a link, nothing with a path in its name."""
    kind = TYPES.get(name.rpartition(".")[2])
    if kind is None or not NAME.fullmatch(name):
        raise HTTPException(404)
    try:
        descriptor = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        raise HTTPException(404, "There is no such file, or it is still being drawn.") from None
    with os.fdopen(descriptor, "rb") as file:
        return Response(file.read(), media_type=kind, headers=HEADERS)


def _own(name: str) -> Response:
    """A file of the page's own, which only another version of the package changes."""
    text = _plotly() if name == "plotly.js" else asset(name)
    headers = HEADERS | ({"Cache-Control": "max-age=86400"} if name == "plotly.js" else {})
    return Response(text, media_type=TYPES[name.rpartition(".")[2]], headers=headers)


def _plotly() -> str:
    from dashboards.page import plotly_script

    return plotly_script()
