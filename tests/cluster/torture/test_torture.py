"""Every file of a run directory damaged in every way: nothing ends in a traceback, nothing is changed in silence."""

import logging
import re
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from damages import FIELDS, FILES, KINDS, call, copy_of, make_base, numbers_of, path_of, with_field

from dashboards.publishing.publisher import publish
from stsq_core.configs import UserError
from sweeps.store.jsonl import warn_once
from sweeps.store.run_directory import RunDirectory

FEW = ("cut in half", "a page of NULs", "a directory", "a digit edited")


class Torn:
    """The undamaged run, and the trial of one damage to a copy of it."""

    def __init__(
        self, folder: Path, base: dict[str, Any], capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        self.folder, self._capsys, self._caplog = folder, capsys, caplog
        self.base = base
        code, self._shown, _ = self._call("show", folder / "run", "--json")
        assert code == 0
        code, said, _ = self._call("check", folder / "run")
        assert (code, "packs have ended" in said, len(said.splitlines())) == (1, True, 1), said

    def _call(self, *words: object) -> tuple[int, str, str]:
        warn_once.cache_clear()
        self._caplog.clear()
        code, out, err = call(self._capsys, *words)
        assert code in (0, 1, 2, 3), (words, err)
        assert "Traceback" not in err, (words, err)
        assert code != 2 or any(line.startswith("stsq: ") for line in err.splitlines()), (words, err)
        return code, out, err + self._caplog.text

    def try_one(self, name: str, damage: Callable[[Path], None], *, whole: bool) -> str:
        """Damage a file and give every command; returns what `stsq check` says of it, or how it was harmless."""
        run = RunDirectory(copy_of(self.folder / "run", self.folder / "torn"))
        damage(path_of(run.path, name, self.base))
        code, found, err = self._call("check", run.path)
        said = [line for line in (found + err).splitlines() if "packs have ended" not in line and "--repair`" not in line]
        for words in (("show",), ("show", "--json"), ("status",), ("status", "--json"), *([("report",)] if whole else [])):
            code, out, err = self._call(words[0], run.path, *words[1:])
            if words == ("show", "--json") and code == 0 and out != self._shown:
                assert said, "other numbers, and nothing is said"
                assert err or name == "spec.yaml", "other numbers, and `show` says nothing"
        self._call("trial", run.path, self.base["trial"])
        with suppress(UserError) if said else nullcontext():
            publish(run.path, mode="offline")
        if whole:
            self._rest(run)
            run = RunDirectory(copy_of(self.folder / "run", self.folder / "torn"))
            damage(path_of(run.path, name, self.base))
        self._call("check", run.path, "--repair")
        code, left, err = self._call("check", run.path)
        assert code == 0 or name == "spec.yaml" or "has no line" in left, left + err
        self._rest(run)
        return said[0].replace(str(run.path), "RUN") if said else "nothing: no result rests on what is gone"

    def _rest(self, run: RunDirectory) -> None:
        """Train the rest: with the numbers of the undisturbed run, bit for bit, each trial once."""
        code, _, err = self._call("run", run.path, "--inline", "--wandb", "disabled")
        if code == 2:
            words = ("run", self.folder / "sweep.yaml", "--out", run.path, "--inline", "--wandb", "disabled")
            code, _, err = self._call(*words)
        if code == 2:  # what only its user can mend: a directory in a file's place
            assert "Is a directory" in err or "is not empty and is no run" in err, err
            return
        found, wanted = numbers_of(run), self.base["numbers"]
        assert found.keys() >= set(self.base["grid"]), "trials are missing"  # a search may ask for other points meanwhile
        assert {i: found[i] for i in found.keys() & wanted.keys()} == {i: wanted[i] for i in found.keys() & wanted.keys()}


@pytest.fixture(scope="session")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, dict[str, Any]]:
    """What `make_base` gives by its folder, made by the first test that needs it."""
    return {tmp_path_factory.mktemp("torture"): {}}


@pytest.fixture
def torn(
    bases: dict[Path, dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> Torn:
    from cluster.commands import session

    monkeypatch.setattr(session, "write_page", lambda run, findings, **consoles: None)
    caplog.set_level(logging.WARNING, logger="sweeps")
    [(folder, base)] = bases.items()
    if not base:
        base |= make_base(folder, capsys)
    return Torn(folder, base, capsys, caplog)


@pytest.mark.slow
def test_every_kind_of_file_is_damaged(torn: Torn) -> None:
    """A file that is new to run directories stands in FILES, or here, where it says nothing of results."""
    run = torn.folder / "run"
    damaged = {path_of(run, name, torn.base).relative_to(run) for name in FILES}
    kinds = {(path.parent, path.suffix) for path in damaged if len(path.parts) > 1}
    found = {path.relative_to(run) for path in run.rglob("*") if path.is_file()}
    others = {path for path in found - damaged if (path.parent, path.suffix) not in kinds}
    assert {re.sub(r"run-.*", "run-ID", str(path)) for path in others} == {
        "lock",
        "wandb/publisher.lock",
        "wandb/offline-run-ID",
        "wandb/debug.log",
        "wandb/debug-internal.log",
    }


@pytest.mark.slow
@pytest.mark.parametrize("names", [FILES[:3], FILES[3:8], FILES[8:12], FILES[12:]], ids=lambda names: names[0])
def test_no_damage_ends_in_a_traceback_or_is_silent(torn: Torn, names: tuple[str, ...]) -> None:
    for name in names:
        for kind in FEW:
            torn.try_one(name, KINDS[kind], whole=False)


@pytest.mark.slow
def test_a_field_of_a_wrong_type_is_found_with_and_without_a_checksum(torn: Torn) -> None:
    for place, (field, value) in enumerate(FIELDS):
        assert "ledger.jsonl:1 is damaged" in torn.try_one(
            "ledger.jsonl", with_field(field, value, has_checksum=bool(place % 2)), whole=False
        )


@pytest.mark.torture
@pytest.mark.parametrize("name", FILES)
def test_every_damage(torn: Torn, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = {kind: torn.try_one(name, damage, whole=True) for kind, damage in KINDS.items()}
    if name == "ledger.jsonl":
        for field, value in FIELDS:
            for has_checksum in (True, False):
                kind = f"{field}={value!r}, {'with' if has_checksum else 'without'} a checksum"
                said[kind] = torn.try_one(name, with_field(field, value, has_checksum=has_checksum), whole=True)
    with capsys.disabled():
        print(f"\n{name}: {len(said)} tried")
        for kind, words in said.items():
            print(f"  {kind}: {words}")
