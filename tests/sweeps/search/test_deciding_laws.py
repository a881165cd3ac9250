"""Laws decide which cells a search asks: on a simulated family of known law, through every way of stopping."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from decisions import TRUTHS, DecisionJob, DecisionOutcome, decide, decision_gates, decision_jobs, decision_table
from simulation import Logistic, SimulatedCell

from stsq_core.configs import UserError
from sweeps.cells.expanded_sweep import ExpandedSweep
from sweeps.cells.shard import Shard
from sweeps.findings.progress import read_progress
from sweeps.findings.run_findings import read_findings
from sweeps.laws.decision import decisions_of
from sweeps.laws.formulas import LAWS
from sweeps.schema.search_spec import LawName

FAMILY = """\
name: law_of_T
hypothesis: The width grows with q ln T.
criterion: {target_loss: 0.1}
search: {cap: 32, decide: {between: [attention, attention_offset, excess_q_power], points: 400}}
trials:
  - name: transformer
    base:
      task: {kind: stsq, d: 4}
      model: {kind: transformer, positions: {kind: random_sign, redraw: per_step, query: dual}, init: zero}
      optimizer: {kind: adam, lr: 0.03}
      training: {objective: population, batch_size: 64, steps: 600}
    grid: {task.T: [8, 32, 128, 512], task.q: [1, 2, 3]}
    search: {}
"""


def trainer(law):
    """A trainer of cells whose thresholds obey a law of (T, q)."""

    def loss(config):
        log_width = math.log(law(config.task.T, config.task.q))
        curve = Logistic.through(log_width, slope=6.0, log_target=math.log(0.1))
        cell = SimulatedCell(curve, noise=0.15, shift=0.02, lapse_rate=0.0, divergence_rate=0.0, stream=config.task.T)
        return cell.relative_loss(config.width, config.seed)

    return loss


LOGARITHM = trainer(lambda T, q: 4 + 2.4 * q * math.log(T))


@pytest.fixture
def family(hunt):
    return lambda *settings, name="hunt": hunt(*settings, name=name, text=FAMILY)


def decision(one):
    (found,) = read_findings(one.run.path).decisions
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "law"),
    [
        ("attention", lambda T, q: 4 + 2.4 * q * math.log(T)),
        ("excess_q_power", lambda T, q: 4 + 3.5 * q * T**0.3),
        ("attention_offset", lambda T, q: 12 + 2.4 * q * math.log(T)),
    ],
)
def test_the_law_that_the_thresholds_obey_is_decided_for_with_few_points(family, name, law) -> None:
    one = family()
    search = one.go(trainer(law))
    assert search.finished
    found = decision(one)
    assert (found.reason, found.leader.name) == ("decided", name)
    assert found.odds >= 20
    asked = Counter((config.task.T, config.task.q) for config in one.asked)
    assert sum(asked.values()) == found.total <= 200
    assert len(asked) < 12 or max(asked.values()) > min(asked.values())
    assert "decided at 20 to 1" in found.words
    assert f"{found.leader.formula} leads" in search.progress


@pytest.mark.slow
def test_a_search_by_laws_that_is_killed_goes_on_with_the_same_points(family) -> None:
    undisturbed = family(name="undisturbed")
    undisturbed.go(LOGARITHM)
    one = family()
    for trials in (3, 30, 15):
        one.go(LOGARITHM, trials=trials)
    assert one.go(LOGARITHM).finished
    assert sorted(config.trial_id for config in one.asked) == sorted(config.trial_id for config in undisturbed.asked)
    assert one.go(LOGARITHM).finished
    assert len(one.asked) == len(undisturbed.asked)


@pytest.mark.slow
def test_workers_that_ask_while_others_train_change_nothing(family, record) -> None:
    """A worker asks as soon as it is free: a family waits for all points of its round, whichever cell ends first."""
    undisturbed = family(name="undisturbed")
    undisturbed.go(LOGARITHM)
    search = family().strategy()
    waiting, asked = list(search.ask()), []
    while waiting:
        config = waiting.pop(len(waiting) // 2)
        asked.append(config.trial_id)
        search.tell([record(config, LOGARITHM(config))])
        more = list(search.ask())
        assert not (waiting and more)
        waiting += more
    assert search.finished
    assert sorted(asked) == sorted(config.trial_id for config in undisturbed.asked)


@pytest.mark.slow
def test_without_its_studies_it_goes_on_from_the_ledger(family) -> None:
    one = family("optimizer.lr=0.03,0.06")
    one.go(LOGARITHM, trials=71)
    one.run.studies.unlink()
    assert one.go(LOGARITHM).finished
    assert set(Counter((config.task.T, config.task.q, config.seed) for config in one.asked).values()) == {2}
    assert decision(one).reason == "decided"


@pytest.mark.slow
def test_it_ends_when_its_points_or_the_points_of_all_cells_are_spent(family) -> None:
    one = family("search.decide.points=60", "search.decide.odds=100000")
    assert one.go(LOGARITHM).finished
    assert (decision(one).reason, len(one.asked)) == ("points", 56)
    few = family("search.decide.odds=1e6", "search.cap=8", "task.T=8,512", "task.q=1,2", name="few")
    assert few.go(LOGARITHM).finished
    assert (decision(few).reason, len(few.asked)) == ("cells", 32)


def test_the_first_round_of_a_later_cell_lies_about_what_the_laws_expect(family) -> None:
    one = family()
    one.go(LOGARITHM)
    cells = list(dict.fromkeys((config.task.T, config.task.q) for config in one.asked))
    for T, q in cells[4:]:
        widths = [config.width for config in one.asked if (config.task.T, config.task.q) == (T, q)][:8]
        assert 1 / 3 < np.median(widths) / (4 + 2.4 * q * math.log(T)) < 3
        assert max(widths) < 8 * min(widths)


@pytest.mark.slow
def test_status_page_and_results_agree_on_when_it_has_ended(family) -> None:
    one = family()
    one.go(LOGARITHM, trials=40)
    progress = read_progress(one.run)
    assert (progress.complete, progress.outlook.num_searching) == (False, 12)
    assert any("goes on until the odds are 20 to 1" in note for note in progress.notes)
    one.go(LOGARITHM)
    findings = read_findings(one.run.path)
    assert findings.complete
    assert read_progress(one.run).complete
    assert findings.decisions[0].words in read_progress(one.run).notes


def test_cells_that_cannot_tell_the_laws_apart_are_refused(family) -> None:
    one = family("task.T=32")
    with pytest.raises(UserError, match=r"do not determine the numbers of excess_q_power: vary T, q or d"):
        decisions_of(one.spec, ExpandedSweep.of(one.spec).searched, ())
    with pytest.raises(UserError, match="without --shard"):
        ExpandedSweep.of(one.spec).of_shard(Shard(0, 2))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (("laws.held_out={task.T: 8}",), "no cell is held out where laws decide"),
        (("search.decide.between=[attention, attention]",), "every law stands once; attention stands there twice"),
        (("search.decide.between=[attention]",), "at least 2"),
        (("search.decide.between=[attention, nonsense]",), "nonsense"),
        (("search.decide.points=3",), "points must be at least batch, the points of one round; got points=3, batch=8"),
    ],
)
def test_what_laws_cannot_decide_is_refused(family, settings, problem) -> None:
    with pytest.raises(UserError, match=problem):
        family(*settings)


@pytest.mark.slow
def test_the_benchmark_decides_a_family_of_each_law_and_judges_by_its_rule() -> None:
    outcomes = [decide(DecisionJob("laws", truth, 5)) for truth in TRUTHS]
    assert [(outcome.verdict, outcome.cells < 18) for outcome in outcomes] == [("right", True)] * 3
    jobs = decision_jobs(2)
    same = [DecisionOutcome(job, "right", 200 if job.policy == "even" else 100, 9) for job in jobs]
    assert all(holds for _, holds in decision_gates(decision_table(same)))
    worse = [replace(one, verdict="undecided", points=101) if one.job.policy == "laws" else one for one in same]
    assert [holds for _, holds in decision_gates(decision_table(worse))] == [False, False, True]


def test_a_sweep_file_names_the_laws_that_there_are() -> None:
    assert set(LawName.__args__) == {law.name for law in LAWS}
