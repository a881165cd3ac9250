"""The mode is decided before anything can wait: by request, key and a connection that is tried for two seconds."""

import socket
from pathlib import Path

import pytest

from dashboards.publishing.mode import can_reach, decide_mode, has_key
from stsq_core import UserError

SERVER = "https://wandb.example:8443"
KEY = {"WANDB_API_KEY": "k" * 40}


def yes(_server: str) -> bool:
    return True


def no(_server: str) -> bool:
    return False


def test_without_a_key_runs_go_offline_and_the_reason_says_how_to_change_it(tmp_path: Path) -> None:
    decision = decide_mode(None, "auto", server=lambda: SERVER, environment={"HOME": str(tmp_path)}, answers=yes)
    assert decision.mode == "offline"
    assert "WANDB_API_KEY" in decision.reason


def test_without_a_key_nobody_asks_for_the_server(tmp_path: Path) -> None:
    asked: list[str] = []
    decide_mode(None, "auto", server=lambda: asked.append("asked") or SERVER, environment={"HOME": str(tmp_path)}, answers=yes)
    assert asked == []


def test_a_key_and_a_server_make_it_online_and_a_dead_server_offline() -> None:
    assert decide_mode(None, "auto", server=lambda: SERVER, environment=KEY, answers=yes).mode == "online"
    decision = decide_mode("online", "auto", server=lambda: SERVER, environment=KEY, answers=no)
    assert (decision.mode, decision.may_heal) == ("offline", True)
    assert SERVER in decision.reason


def test_the_caller_outranks_the_environment_and_the_environment_the_sweep() -> None:
    disabled = KEY | {"WANDB_MODE": "disabled"}
    assert decide_mode("offline", "online", server=lambda: SERVER, environment=disabled, answers=yes).mode == "offline"
    assert decide_mode(None, "online", server=lambda: SERVER, environment=disabled, answers=yes).mode == "disabled"
    assert decide_mode(None, "disabled", server=lambda: SERVER, environment=KEY, answers=yes).mode == "disabled"


def test_wandbs_older_names_of_the_modes_are_understood() -> None:
    assert (
        decide_mode(None, "auto", server=lambda: SERVER, environment=KEY | {"WANDB_MODE": "dryrun"}, answers=yes).mode
        == "offline"
    )


def test_an_unknown_mode_is_refused_with_what_is_allowed() -> None:
    with pytest.raises(UserError, match=r"auto, offline, online, disabled; got 'on'"):
        decide_mode(None, "auto", server=lambda: SERVER, environment={"WANDB_MODE": "on"}, answers=yes)


def test_a_key_stored_by_login_counts_for_its_server_only(tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text("machine wandb.example login user password secret\n")
    environment = {"HOME": str(tmp_path)}
    assert has_key(SERVER, environment)
    assert not has_key("https://elsewhere.example", environment)


def test_reach_tells_a_listener_from_a_closed_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert can_reach(f"http://127.0.0.1:{port}")
    assert not can_reach(f"http://127.0.0.1:{port}", timeout_s=0.5)


def test_a_name_that_does_not_resolve_is_given_up_in_time() -> None:
    assert not can_reach("http://no-such-host.invalid", timeout_s=1.0)
