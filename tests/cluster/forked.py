"""Commands in processes that are forked from one that has loaded their libraries and the engine, which takes longer than what
most of them do. Each has a pid, a session, pipes, signals and an exit code of its own, as one of `python -m cluster` has.
"""

import gc
import importlib
import json
import os
import runpy
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]
NUMBER = struct.Struct("i")
MOST_BYTES = 2**20
SIZES = {
    "transformer": {"positions": {"kind": "random_sign", "d_e": 8}},
    "fcn": {"width": 8, "tail_width": 16},
}


class Forked:
    """A process that `Forge` started, to be used as a `subprocess.Popen`."""

    def __init__(self, report: int, stdout: int, stderr: int) -> None:
        self.stdout, self.stderr = os.fdopen(stdout), os.fdopen(stderr)
        self.returncode: int | None = None
        (self.pid,) = NUMBER.unpack(os.read(report, NUMBER.size))
        self._end = _Read(os.fdopen(report, "rb"))
        self._texts: list[_Read] = []

    def poll(self) -> int | None:
        return self._ended(0.0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return code

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        self._texts = self._texts or [_Read(self.stdout), _Read(self.stderr)]
        deadline = None if timeout is None else time.monotonic() + timeout
        for text in self._texts:
            text.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
        self.wait(0.0 if any(text.is_alive() for text in self._texts) else timeout)
        out, err = (text.content for text in self._texts)
        return out, err

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        self._end.join(timeout)
        if not self._end.is_alive():
            self.returncode = os.waitstatus_to_exitcode(*NUMBER.unpack(self._end.content))
        return self.returncode


Process = Forked | subprocess.Popen[str]


class _Read(threading.Thread):
    """Reads all of a pipe."""

    def __init__(self, pipe: IO[Any]) -> None:
        super().__init__(daemon=True)
        self.content: Any = None
        self._pipe = pipe
        self.start()

    def run(self) -> None:
        with self._pipe:
            self.content = self._pipe.read()


class Forge:
    """The process that has loaded everything, and is asked for processes."""

    def __init__(self) -> None:
        self._asked, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        place = theirs.fileno()
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__, str(place)],
            stdin=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            pass_fds=[place],
            start_new_session=True,
        )
        theirs.close()

    def start(self, words: list[str], *, code: str | None, folder: Path, environment: dict[str, str]) -> Forked:
        """Run `python -m cluster` with these words, or `code`, in a folder and an environment."""
        pipes = [os.pipe() for _ in range(3)]
        asked = {"words": words, "code": code, "folder": str(folder), "environment": environment}
        socket.send_fds(self._asked, [json.dumps(asked).encode()], [end for _, end in pipes])
        for _, end in pipes:
            os.close(end)
        return Forked(*(begin for begin, _ in pipes))

    def end(self) -> None:
        self._asked.close()
        self._process.wait(30)


def interpreter(words: list[str], *, code: str | None, folder: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    """What `Forge.start` does, in an interpreter that has loaded nothing."""
    command = [sys.executable, *(("-c", code) if code else ("-m", "cluster")), *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def load() -> None:
    """Load what a run loads, but for Ray and W&B: a driver that trains has neither."""
    for module in ("cluster.commands.cli", "cluster.commands.results", "cluster.commands.session", "dashboards.page.report"):
        importlib.import_module(module)
    from dashboards.paper.figures import load_backends
    from stsq_core import TrialConfig
    from stsq_core.training import train_pack

    load_backends()
    task, rate = {"kind": "stsq", "T": 6, "q": 2, "d": 2}, {"kind": "adam", "lr": 0.01}
    for kind, size in SIZES.items():
        model, training = {"kind": kind, **size}, {"steps": 2, "batch_size": 16, "log_every": 1}
        data = {"task": task, "model": model, "optimizer": rate, "training": training, "evaluation": {"samples": 4096}}
        train_pack([TrialConfig.model_validate(data)])
    assert len(os.listdir("/proc/self/task")) == 1, "a process of several threads cannot be forked"
    gc.collect()
    gc.freeze()


def serve(asked: socket.socket) -> dict[str, Any]:
    """Fork for every request; gives the request in the process that is to do it, and never returns in the one that is asked."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait
    while True:
        message, pipes, *_ = socket.recv_fds(asked, MOST_BYTES, 3)
        if not message:
            os._exit(0)
        if os.fork() == 0:
            asked.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return _forked(json.loads(message), *pipes)
        for pipe in pipes:
            os.close(pipe)


def _forked(request: dict[str, Any], report: int, stdout: int, stderr: int) -> dict[str, Any]:
    """The request in a process with these pipes; the one between writes its pid, waits for it, and writes how it ended."""
    if pid := os.fork():
        os.close(stdout)
        os.close(stderr)
        os.write(report, NUMBER.pack(pid))
        os.write(report, NUMBER.pack(os.waitpid(pid, 0)[1]))
        os._exit(0)
    os.setsid()
    for number, pipe in enumerate((stdout, stderr), start=1):
        os.dup2(pipe, number)
        os.close(pipe)
    os.close(report)
    return request


def run(words: list[str], code: str | None, folder: str, environment: dict[str, str]) -> None:
    """What an interpreter would run that starts with these words."""
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # what an environment says of it counts
    sys.path.insert(0, folder)
    sys.argv = ["-c", *words]
    if code is None:
        runpy.run_module("cluster", run_name="__main__", alter_sys=True)
    else:
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    load()
    run(**serve(socket.socket(fileno=int(sys.argv[1]))))
