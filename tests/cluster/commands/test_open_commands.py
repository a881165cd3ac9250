"""`stsq open`: the viewers as commands, each in a process of its own."""

import json
import re
import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_optuna_is_served_until_it_is_told_to_end(stsq: Any, write_sweep: Callable[..., Path], number: signal.Signals) -> None:
    ran = stsq.run("run", write_sweep(), "--inline", "--wandb", "disabled", "--out", "run")
    assert ran.code == 0, ran
    process = stsq.start("open", "optuna", "run")
    assert process.stdout is not None
    printed = process.stdout.readline()
    url = re.search(r"http://127\.0\.0\.1:\d+", printed)
    assert url, printed
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{url[0]}/api/studies", timeout=60) as answer:
        studies = json.load(answer)["study_summaries"]
    assert len(studies) == 2
    process.send_signal(number)
    ended = stsq.wait(process)
    assert (ended.code, ended.out.strip()) == (0, "ended"), ended


def test_a_run_that_is_none_and_a_missing_terminal_are_told(stsq: Any, write_sweep: Callable[..., Path]) -> None:
    for viewer in ("optuna", "leet"):
        refused = stsq.run("open", viewer, "nowhere")
        assert refused.code == 2
        assert "does not exist" in refused.err
    stsq.run("run", write_sweep(), "--inline", "--wandb", "offline", "--out", "run")
    refused = stsq.run("open", "leet", "run")
    assert refused.code == 2
    assert "this is none" in refused.err
