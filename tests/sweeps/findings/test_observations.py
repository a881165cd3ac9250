"""Observations from a run directory: newest results, fields, selections and cells."""

from pathlib import Path

from stsq_core import TrialResult
from sweeps.findings.observations import cells_of, differing, read_observations, selected
from sweeps.schema.claims import Selection
from sweeps.store.ledger import Ledger, record_of_failure, record_of_result
from sweeps.store.run_directory import create_or_open


def test_finished_trials_of_the_sweep_are_seen_with_their_metrics(spec, tmp_path: Path, transformer) -> None:
    run = create_or_open(tmp_path / "run", spec)
    configs = [
        transformer(d_e, seed=seed, redraw=redraw) for d_e in (8, 16) for redraw in ("never", "per_step") for seed in (0, 1)
    ]
    results = [TrialResult(c, "finished", 0.25, 0.01, 600, 1.0, metrics={"cosine_W": 0.5}) for c in configs]
    results[0] = TrialResult(configs[0], "diverged", None, None, 10, 1.0)
    Ledger(run.ledger).append(record_of_result(result, pack_id="0" * 16, device="cpu") for result in results)
    declared = [config.trial_id for config in configs[:-1]]
    observations = read_observations(run, declared)
    assert [one.config for one in observations] == configs[:-1]
    assert observations[0].metrics == {}
    assert observations[1].metrics == {"loss": 0.25, "loss_stderr": 0.01, "cosine_W": 0.5}
    assert observations[0].fields["m"] == 8 + 4
    assert "seed" not in observations[0].fields
    assert differing(observations) == ("model.positions.d_e", "model.positions.redraw")
    assert [len(cell) for cell in cells_of(observations)] == [2, 2, 2, 1]
    fixed = selected(observations, Selection(where={"model.positions.redraw": "never"}))
    assert {one.config.model.positions.redraw for one in fixed} == {"never"}
    both = selected(observations, Selection(where={"model.positions.d_e": [8, 16]}))
    assert len(both) == len(observations)


def test_a_failed_trial_is_no_observation(spec, tmp_path: Path, transformer) -> None:
    """It says nothing of its cell: a claim rests on the others as if it had never been declared."""
    run = create_or_open(tmp_path / "run", spec)
    ended, failed = transformer(8, seed=0), transformer(8, seed=1)
    result = TrialResult(ended, "finished", 0.25, 0.01, 600, 1.0)
    Ledger(run.ledger).append(
        [
            record_of_result(result, pack_id="0" * 16, device="cpu"),
            record_of_failure(failed, "out of memory", pack_id="0" * 16, device="cpu"),
        ]
    )
    assert [one.config for one in read_observations(run, [ended.trial_id, failed.trial_id])] == [ended]
