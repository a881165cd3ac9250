"""`stsq open`: the viewers as commands, each in a process of its own."""

import json
import re
import shutil
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_optuna_is_served_until_it_is_told_to_end(stsq: Any, ran: Path, number: signal.Signals) -> None:
    shutil.copytree(ran, stsq.folder / "run")
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


def test_a_run_that_is_none_and_a_missing_terminal_are_told(stsq: Any, ran: Path) -> None:
    for viewer in ("optuna", "leet"):
        refused = stsq.run("open", viewer, "nowhere")
        assert refused.code == 2
        assert "does not exist" in refused.err
    shutil.copytree(ran, stsq.folder / "run")
    refused = stsq.run("open", "leet", "run")
    assert refused.code == 2
    assert "this is none" in refused.err
