"""`stsq open page`: a server of the shelf's files, and the renderer process that draws them, until Ctrl-C.

The server hands out the renderer's folder and the page's own scripts, and answers only requests that name this machine.
"""

import contextlib
import ipaddress
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from dashboards.page import asset, plotly_script
from stsq_core.configs import UserError
from sweeps.store import held_folder, holds_runs, module_command, open_run

LOOPBACK = "127.0.0.1"
RESTART_PAUSE_S = 5.0
PATIENCE_S = 10.0

TYPES = {
    "html": "text/html; charset=utf-8",
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "tex": "text/plain; charset=utf-8",
    "yaml": "text/plain; charset=utf-8",
    "png": "image/png",
    "pdf": "application/pdf",
    "svg": "image/svg+xml",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
}
"""The types of files that are served, by the ending of their names."""

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
<html lang="en"><head><meta charset="utf-8"><title>stsq</title><link rel="icon" href="data:,">
<meta http-equiv="refresh" content="1"><meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/page.css"></head>
<body><main class="reading"><h1>Reading the run</h1><p class="lead" role="status">Its page is drawn in a moment.</p>
<div class="bar large"><i></i></div></main></body></html>
"""
NAME = re.compile(r"[A-Za-z0-9_]+[A-Za-z0-9_.-]*")

Say = Callable[[str], None]


def open_page(runs: Sequence[str], *, host: str = LOOPBACK, port: int = 0, browser: bool = False, say: Say) -> None:
    """Serve the live page of a run, the comparison of several, or the list of a folder's, until Ctrl-C; `say` gets the address.

    Raises:
        UserError: a path is no run, or the address cannot be listened on.
    """
    with serving(runs, host=host, port=port, say=say) as (url, over):
        say(f"live page of {', '.join(runs)}: {url} (Ctrl-C ends it)")
        if host not in (LOOPBACK, "localhost", "::1"):
            say(f"it listens on {host}: everyone who can reach this machine can read it")
        if browser:
            webbrowser.open(url)
        with _set_by_signals(over):
            over.wait()
    say("ended")


@contextmanager
def _set_by_signals(over: threading.Event) -> Iterator[None]:
    """Ctrl-C and SIGTERM set the event, also in a shell's background job, which ignores Ctrl-C by default."""
    former = {one: signal.signal(one, lambda *_: over.set()) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in former.items():
            signal.signal(one, handler)


@contextmanager
def serving(
    runs: Sequence[str], *, host: str = LOOPBACK, port: int = 0, say: Say = lambda _text: None
) -> Iterator[tuple[str, threading.Event]]:
    """A server of these runs with its renderer: its address, and an event that is set if the server ends by itself.

    Raises:
        UserError: as `open_page`.
    """
    is_folder = len(runs) == 1 and holds_runs(runs[0])
    for run in () if is_folder else runs:
        open_run(run)
    with listening_socket(host, port) as listener, held_folder("stsq-page-") as shelf:
        shelved = application(shelf, num_runs=None if is_folder else len(runs), host=host)
        server = uvicorn.Server(uvicorn.Config(shelved, log_level="error", access_log=False, lifespan="off"))
        over = threading.Event()

        def serve() -> None:
            try:
                server.run(sockets=[listener])
            finally:
                over.set()

        thread = threading.Thread(target=serve, daemon=True)
        with Renderer(shelf, runs, say=say):
            thread.start()
            try:
                yield _url(listener, host), over
            finally:
                server.should_exit = True
                thread.join(PATIENCE_S)


class Renderer:
    """The renderer process; one that ends by itself is started again after a pause, with one message."""

    def __init__(self, shelf: Path, runs: Sequence[str], *, say: Say) -> None:
        self._command = module_command("dashboards.serving.renderer", str(shelf), *runs)
        self._say = say
        self._over = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed when the renderer is left)
        self._thread = threading.Thread(target=self._keep, daemon=True)

    @property
    def pid(self) -> int | None:
        """The id of the present process."""
        return None if self._process is None else self._process.pid

    def __enter__(self) -> "Renderer":
        self._start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if (process := self._process) is not None:
            if process.stdin is not None:
                with contextlib.suppress(OSError):
                    process.stdin.close()
            process.terminate()
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._log.close()

    def _start(self) -> None:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self._log)

    def _keep(self) -> None:
        is_reported = False
        while not self._over.wait(0.5):
            if self._process is not None and self._process.poll() is not None:
                if not is_reported:
                    self._say(f"the renderer process ended ({self._last_line()}); it is started again")
                is_reported = True
                if self._process.stdin is not None:
                    self._process.stdin.close()
                if self._over.wait(RESTART_PAUSE_S):
                    return
                self._start()

    def _last_line(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self._process and self._process.returncode}"


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that takes connections before the server has started, so that the address works once it is printed.

    Raises:
        UserError: the address cannot be listened on.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        raise UserError(f"cannot listen on port {port} of {host}: {error.strerror}; give another --port or --host") from None
    return listener


def _url(listener: socket.socket, host: str) -> str:
    port = listener.getsockname()[1]
    name = socket.gethostname() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/"


def application(shelf: Path, *, num_runs: int | None, host: str) -> ASGIApp:
    """The server's application for a shelf of `num_runs` runs, None for those of a folder; `host` is what it listens on."""

    def folder_of(request: Request) -> Path:
        place = request.path_params.get("place")
        if place is None:
            return shelf
        folder = shelf / "runs" / str(place)
        if not folder.is_dir() if num_runs is None else not 1 <= place <= num_runs or num_runs == 1:
            raise HTTPException(404)
        return folder

    def page(request: Request) -> Response:
        folder = folder_of(request)
        if (folder / "index.html").exists():
            return _file(folder, "index.html")
        if num_runs is None and folder != shelf:
            (folder / "wanted").touch()
        return Response(WAITING, media_type=TYPES["html"], headers=HEADERS)

    def part(request: Request) -> Response:
        return _file(folder_of(request) / "parts", request.path_params["name"] + ".html")

    def state(request: Request) -> Response:
        return _file(folder_of(request), "state.json")

    def download(request: Request) -> Response:
        return _file(folder_of(request), request.path_params["name"])

    def without_slash(request: Request) -> Response:
        return RedirectResponse(f"/runs/{request.path_params['place']}/")

    def own(request: Request) -> Response:
        name = request.url.path.removeprefix("/")
        text = plotly_script() if name == "plotly.js" else asset(name)
        # plotly changes with its version only; the page's own files may change with every commit
        headers = HEADERS | ({"Cache-Control": "max-age=86400"} if name == "plotly.js" else {})
        return Response(text, media_type=TYPES[name.rpartition(".")[2]], headers=headers)

    of_view = [("", page), ("state", state), ("parts/{name}", part), ("{name}", download)]
    routes = [Route(f"/{name}", own) for name in ("page.css", "figures.js", "page.js", "live.js", "plotly.js")]
    routes += [Route("/runs/{place:int}", without_slash)]
    routes += [Route(f"{root}/{path}", answer) for root in ("", "/runs/{place:int}") for path, answer in of_view]
    return GuardedHost(Starlette(routes=routes), host)


class GuardedHost:
    """Answers only requests whose Host is an address, `localhost` or a name of this machine.

    So a page elsewhere whose host name is pointed at this machine (DNS rebinding) is refused.
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

    def _is_own(self, host: str) -> bool:
        name = re.sub(r":\d+$", "", host).strip("[]").lower()
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self._names
        return True


def _file(folder: Path, name: str) -> Response:
    """A plain file of a folder: no link, and no path in its name."""
    kind = TYPES.get(name.rpartition(".")[2])
    if kind is None or not NAME.fullmatch(name):
        raise HTTPException(404)
    try:
        descriptor = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        raise HTTPException(404, "There is no such file, or it is still being drawn.") from None
    with os.fdopen(descriptor, "rb") as file:
        return Response(file.read(), media_type=kind, headers=HEADERS)
