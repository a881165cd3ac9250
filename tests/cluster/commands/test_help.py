"""The help of every command, read as text: every option with its explanation and its default, in plain English."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
import typer.rich_utils
from typer.testing import CliRunner

from cluster.commands.cli import COMMANDS as IN_ORDER, app


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group, by its words."""
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, (*path, name))


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.fixture
def help_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The help of a command with single spaces, by default on a terminal that is wide enough for every line."""
    monkeypatch.setattr(typer.rich_utils, "COLOR_SYSTEM", None)

    def read(path: tuple[str, ...], width: int = 400) -> str:
        monkeypatch.setattr(typer.rich_utils, "MAX_WIDTH", width)
        shown = CliRunner().invoke(app, [*path, "--help"], terminal_width=width)
        assert shown.exit_code == 0, shown.output
        return " ".join(re.sub(r"[│╭╮╰╯─]", " ", shown.output).split())

    return read


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: " ".join(("stsq", *path)))
def test_every_option_is_shown_with_its_explanation_and_its_default(path: tuple[str, ...], help_of: Any) -> None:
    text = help_of(path)
    for option in COMMANDS[path].params:
        if option.name in ("help", "context"):
            continue
        assert option.help, f"{option.name} has no explanation"
        assert " ".join(option.help.split()) in text
        assert option.help.endswith((".", ")")) or option.param_type_name == "argument", option.help
        if isinstance(option.show_default, str):
            assert f"[default: ({option.show_default})]" in text
        elif option.default not in (None, False, ()) and not option.required and not callable(option.default):
            assert f"[default: {getattr(option.default, 'value', option.default)}]" in text, option.name


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: " ".join(("stsq", *path)))
def test_no_word_is_folded_at_80_columns(path: tuple[str, ...], help_of: Any) -> None:
    words, whole = Counter(help_of(path, 80).split()), Counter(help_of(path).split())
    assert whole - words == Counter()


def test_commands_are_listed_in_the_order_of_use(help_of: Any) -> None:
    listed = list(COMMANDS[()].commands)
    assert set(listed) <= set(IN_ORDER)
    text = help_of(())
    places = [text.index(f" {name} {COMMANDS[name,].help.split()[0]}") for name in IN_ORDER if name in listed]
    assert places == sorted(places)


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: " ".join(("stsq", *path)))
def test_every_help_is_sentences_without_markup(path: tuple[str, ...], help_of: Any) -> None:
    command, text = COMMANDS[path], help_of(path)
    first = (command.help or "").strip()
    assert re.match(r"[A-Z].*\.$", first, flags=re.DOTALL), first
    assert " ." not in text.replace("[default: .]", "")
    for option in command.params:
        assert "[" not in (getattr(option, "help", None) or ""), "Rich reads [...] as markup: use show_default"


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("run",), "--out RUN The run directory. [default: (runs/NAME)]"),
        (("plan",), "--workers N [x>=1] Number of packs that train at once. [default: (all cores, or all GPUs)]"),
        (("run",), "--max-workers N [x>=1] Upper limit on workers."),
        (("run",), "GPU fraction per worker; with 0.25 four workers share a GPU. [default: 1.0]"),
        (("run",), "--wait-for-gpus MINUTES [x>=0] Wait up to MINUTES for a GPU node."),
        (
            ("run",),
            "--address <str> Join the Ray cluster at this address. [default: (RAY_ADDRESS, else a new Ray on this machine)]",
        ),
        (("run",), "[default: (WANDB_PROJECT, else the sweep's, else stsq)]"),
        (("run",), "0 never ends one. [default: (300, or ten times the longest pause measured)]"),
        (("wandb", "sync"), "--wandb-tags TAG,TAG W&B tags. [default: (WANDB_TAGS, else the sweep's)]"),
    ],
)
def test_help_reads_so(path: tuple[str, ...], line: str, help_of: Any) -> None:
    assert line in help_of(path)
