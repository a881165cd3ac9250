"""Decides whether W&B runs are published online, offline or not at all, without waiting for a server.

The first of the caller (`--wandb`), the environment (`WANDB_MODE`) and the sweep file decides. `auto` and `online` become
`offline` without a key; with a key and a server that does not answer within two seconds, they are `offline` until it does.
"""

import contextlib
import netrc
import os
import socket
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from stsq_core.configs import UserError

Request = Literal["auto", "offline", "online", "disabled"]
Mode = Literal["offline", "online", "disabled"]

REQUESTS: tuple[Request, ...] = ("auto", "offline", "online", "disabled")
PREFLIGHT_TIMEOUT_S = 2.0
NO_KEY = "there is no W&B key: set WANDB_API_KEY or run `wandb login`"


@dataclass(frozen=True)
class Decision:
    """The mode and the reason for it in words; `may_heal` where it is offline only until the server answers."""

    mode: Mode
    reason: str
    may_heal: bool = False


def decide_mode(
    caller: Request | None,
    sweep: Request,
    *,
    server: Callable[[], str],
    environment: Mapping[str, str] = os.environ,
    answers: Callable[[str], bool] | None = None,
) -> Decision:
    """Choose the mode; `server` gives the W&B server's URL, `answers` is the test that it can be reached.

    Raises:
        UserError: `WANDB_MODE` is not one of the modes.
    """
    request = _requested(caller, sweep, environment)
    if request in ("offline", "disabled"):
        return Decision(cast(Mode, request), f"{request} was asked for")
    # first the test that needs no server: asking W&B's client for the server's URL loads the client
    if not _may_have_key(environment) or not has_key(url := server(), environment):
        return Decision("offline", NO_KEY)
    if not (answers or can_reach)(url):
        return Decision("offline", f"the W&B server {url} does not answer", may_heal=True)
    return Decision("online", f"publishing to {url}")


def may_be_online(caller: Request | None, sweep: Request, *, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether `decide_mode` may choose to publish online, as far as it can be known without W&B's client and its server.

    Raises:
        UserError: `WANDB_MODE` is not one of the modes.
    """
    return _requested(caller, sweep, environment) in ("auto", "online") and _may_have_key(environment)


def _requested(caller: Request | None, sweep: Request, environment: Mapping[str, str]) -> Request:
    named = environment.get("WANDB_MODE", "")
    named = {"dryrun": "offline", "run": "online", "shared": "online"}.get(named, named)  # W&B's other names
    if not caller and named and named not in REQUESTS:
        raise UserError(f"WANDB_MODE must be one of {', '.join(REQUESTS)}; got {named!r}: unset it or choose one")
    return caller or cast(Request, named) or sweep


def _may_have_key(environment: Mapping[str, str]) -> bool:
    return bool(environment.get("WANDB_API_KEY")) or _netrc_path(environment).exists()


def has_key(server: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a W&B key is set in the environment or stored for this server by `wandb login`."""
    return key_for(server, environment) is not None


def key_for(server: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """The W&B key of the environment, else the one that `wandb login` stored for this server."""
    if key := environment.get("WANDB_API_KEY"):
        return key
    host = urllib.parse.urlsplit(server).hostname or ""
    try:
        stored = netrc.netrc(_netrc_path(environment)).authenticators(host)
    except (OSError, netrc.NetrcParseError):
        return None
    return stored[2] if stored else None


def _netrc_path(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("NETRC") or Path(environment.get("HOME") or Path.home()) / ".netrc")


def can_reach(server: str, timeout_s: float = PREFLIGHT_TIMEOUT_S) -> bool:
    """Whether the server, or the proxy in front of it, accepts a connection in time."""
    url = urllib.parse.urlsplit(server)
    proxy = urllib.request.getproxies().get(url.scheme)
    if proxy and url.hostname and not urllib.request.proxy_bypass(url.hostname):
        url = urllib.parse.urlsplit(proxy if "//" in proxy else f"//{proxy}", scheme=url.scheme)
    reached = threading.Event()

    def connect() -> None:
        with contextlib.suppress(OSError, ValueError):
            port = url.port or (443 if url.scheme == "https" else 80)
            socket.create_connection((url.hostname or "", port), timeout=timeout_s).close()
            reached.set()

    # in a thread, because a dead name server delays the look-up beyond the timeout of the socket
    threading.Thread(target=connect, daemon=True).start()
    return reached.wait(timeout_s)
