"""`stsq open page`: the server and its renderer together, from the first word to Ctrl-C."""

import contextlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import uvicorn

from dashboards.serving.server import application
from stsq_core.configs import UserError
from sweeps.store import open_run

LOOPBACK = "127.0.0.1"
RESTART_PAUSE_S = 5.0
PATIENCE_S = 10.0

Say = Callable[[str], None]


def open_page(runs: Sequence[str], *, host: str = LOOPBACK, port: int = 0, browser: bool = False, say: Say) -> None:
    """Serve the live page of a run, or the comparison of several, until Ctrl-C; `say` is told the address.

    Raises:
        UserError: what is no run, or an address that cannot be listened on.
    """
    with serving(runs, host=host, port=port, say=say) as (url, over):
        say(f"live page of {', '.join(runs)}: {url} (Ctrl-C ends it)")
        if host not in (LOOPBACK, "localhost", "::1"):
            say(f"it listens on {host}: whoever reaches this machine can read it")
        if browser:
            webbrowser.open(url)
        with _set_by_signals(over):
            over.wait()
    say("ended")


@contextmanager
def _set_by_signals(over: threading.Event) -> Iterator[None]:
    """Ctrl-C and an order to end set the event, also where the shell made this process deaf to Ctrl-C."""
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
    """A server of these runs with its renderer: its address, and an event that is set should the server end by itself.

    Raises:
        UserError: as `open_page`.
    """
    for run in runs:
        open_run(run)
    with listening_socket(host, port) as listener, tempfile.TemporaryDirectory(prefix="stsq-page-") as folder:
        shelf = Path(folder)
        server = uvicorn.Server(
            uvicorn.Config(
                application(shelf, num_runs=len(runs), host=host), log_level="error", access_log=False, lifespan="off"
            )
        )
        over = threading.Event()
        thread = threading.Thread(target=_serve, args=(server, listener, over), daemon=True)
        with Renderer(shelf, runs, say=say):
            thread.start()
            try:
                yield _url(listener, host), over
            finally:
                server.should_exit = True
                thread.join(PATIENCE_S)


class Renderer:
    """The process that draws; one that ends by itself is started again after a pause, and that is said once."""

    def __init__(self, shelf: Path, runs: Sequence[str], *, say: Say) -> None:
        self._command = [sys.executable, "-m", "dashboards.serving.renderer", str(shelf), *runs]
        self._say = say
        self._over = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed when the renderer is left)
        self._thread = threading.Thread(target=self._keep, daemon=True)

    @property
    def pid(self) -> int | None:
        """The process that draws now."""
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
        told = False
        while not self._over.wait(0.5):
            if self._process is not None and self._process.poll() is not None:
                if not told:
                    self._say(f"the process that draws ended ({self._last_words()}); it is started again")
                told = True
                if self._process.stdin is not None:
                    self._process.stdin.close()
                if self._over.wait(RESTART_PAUSE_S):
                    return
                self._start()

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self._process and self._process.returncode}"


def _serve(server: uvicorn.Server, listener: socket.socket, over: threading.Event) -> None:
    try:
        server.run(sockets=[listener])
    finally:
        over.set()


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that takes connections already, so that whoever is told the address is not refused.

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
