"""Searches that decide between laws, on simulated families of cells whose law is known.

A family has 18 cells, T = 8 to 256 and q = 1 to 3 at d = 4, and one of three laws, about which its thresholds scatter by 2%:

    log      m = d + b q ln T              b even on 2..3
    power    m = d + b q ln 45 (T/45)^g    g even on 0.2..0.35
    offset   m = b q ln T + d + c          c even on 3..8

Its cells are smooth ones of module `simulation`, all of one slope (1, 3 or 10). The policies ask rounds of 8 points and stop by
one rule, when a law is 20 times as probable as the next: `laws` asks the cells that `sweeps.laws.decision` names and may
spend 600 points, `random` asks as many cells a round at random, and `even` asks all cells in every round and may spend twice as
much. `few` asks six cells in every round, T = 8, 32, 256 and q = 1, 3, and is in no gate.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from simulation import SimulatedCell, smooth_cell

from sweeps.laws.cells import FOUND, spread_of
from sweeps.laws.decision import Decision, NextRound
from sweeps.laws.formulas import ATTENTION, ATTENTION_OFFSET, EXCESS_Q_POWER, Tasks
from sweeps.laws.rivals import Candidates
from sweeps.sampler.posterior import ThresholdPosterior
from sweeps.schema.search_spec import DecideSettings

TARGET, D, BATCH, CAP, POINTS = 0.1, 4, 8, 96, 600
TRUTHS = {"log": ATTENTION, "power": EXCESS_Q_POWER, "offset": ATTENTION_OFFSET}
POLICIES = ("laws", "even", "random", "few")
FEW_CELLS = (0, 2, 6, 8, 15, 17)
SCATTER = 0.02


@dataclass(frozen=True)
class DecisionJob:
    policy: str
    truth: str
    stream: int


@dataclass(frozen=True)
class DecisionOutcome:
    """What a policy said in the end: `right`, `wrong` or `undecided`."""

    job: DecisionJob
    verdict: str
    points: int
    cells: int


class Family:
    """The cells of a family, and what is known of them."""

    def __init__(self, truth: str, stream: int) -> None:
        draws = np.random.default_rng((stream, 7))
        T, q = (letter.ravel() for letter in np.meshgrid([8.0, 16, 32, 64, 128, 256], [1.0, 2, 3]))
        self.tasks = Tasks(T, q, np.full(len(T), float(D)), TARGET)
        slope, b, power, const = draws.choice([1.0, 3, 10]), *draws.uniform([2, 0.2, 3], [3, 0.35, 8])
        widths = {
            "log": D + b * q * np.log(T),
            "power": D + b * q * math.log(45) * (T / 45) ** power,
            "offset": b * q * np.log(T) + D + const,
        }[truth]
        places = np.log(widths) + draws.normal(scale=SCATTER, size=len(T))
        self.cells = [self._cell(stream, place, at, float(slope)) for place, at in enumerate(places.tolist())]
        expected = 2.5 * q * np.log(T)
        self.low, self.high = D + np.maximum(1, expected // 4).astype(int), D + np.ceil(8 * expected).astype(int)
        self.points: list[list[tuple[int, float]]] = [[] for _ in self.cells]
        self.posteriors: dict[int, ThresholdPosterior] = {}
        self.y, self.sd = np.zeros(len(T)), np.full(len(T), math.inf)

    @staticmethod
    def _cell(stream: int, place: int, log_width: float, slope: float) -> SimulatedCell:
        width = math.exp(log_width)
        return smooth_cell(100 * stream + place, slope=slope, log_target=math.log(TARGET), low=width, high=width * (1 + 1e-9))

    def ask(self, one: NextRound) -> None:
        """A round of a cell: even widths at first, then quantiles of its posterior."""
        own, low, high = self.points[one.cell], int(self.low[one.cell]), int(self.high[one.cell])
        if own:
            shift = np.random.default_rng((one.cell, len(own))).uniform(-0.25, 0.25)
            widths = self.posteriors[one.cell].next_widths(BATCH, shift=shift)
        else:
            ends = (low, high) if one.span is None else np.clip(np.exp(one.span), low, high)
            widths = [round(width) for width in np.geomspace(*ends, BATCH).tolist()]
        for width in widths:
            loss = self.cells[one.cell].relative_loss(width, len(own))
            own.append((width, math.inf if math.isnan(loss) else math.log(loss)))
        posterior = self.posteriors[one.cell] = self._posterior(one.cell)
        self.y[one.cell], self.sd[one.cell] = 0.0, math.inf
        if math.isfinite(posterior.median):
            self.y[one.cell] = posterior.median
            self.sd[one.cell] = spread_of(posterior.samples(2000, one.cell) - posterior.median) or 1.0

    def _posterior(self, place: int) -> ThresholdPosterior:
        widths, losses = zip(*self.points[place], strict=True)
        low, high = int(self.low[place]), int(self.high[place])
        return ThresholdPosterior(widths, losses, low=low, high=high, log_target=math.log(TARGET))

    def decision(self, settings: DecideSettings) -> Decision:
        num = np.array([len(own) for own in self.points])
        side = np.full(len(num), FOUND)
        known = Candidates(self.tasks, self.y.copy(), side, self.sd.copy(), num / BATCH)
        return Decision(settings, tuple(TRUTHS.values()), known, num, num < CAP, BATCH)


def decide(job: DecisionJob) -> DecisionOutcome:
    """Ask until the rule ends it."""
    family, stream = Family(job.truth, job.stream), np.random.default_rng(job.stream)
    settings = DecideSettings(points=POINTS * (2 if job.policy == "even" else 1))
    while not (decision := family.decision(settings)).reason:
        rounds: Sequence[NextRound] = decision.next_rounds()
        if job.policy in ("even", "few"):
            rounds = [NextRound(place, None) for place in (FEW_CELLS if job.policy == "few" else range(len(family.cells)))]
        elif job.policy == "random" and decision.standoff is not None:
            places = stream.choice(np.flatnonzero(decision.is_open), len(rounds), replace=False).tolist()
            rounds = [NextRound(place, decision.standoff.span(place)) for place in places]
        for one in rounds:
            family.ask(one)
    verdict = "undecided"
    if decision.reason == "decided":
        verdict = "right" if decision.leader is TRUTHS[job.truth] else "wrong"
    return DecisionOutcome(job, verdict, decision.total, int((decision.num_points > 0).sum()))


def decision_jobs(families: int) -> list[DecisionJob]:
    """So many families of each law, each for every policy."""
    streams = [(truth, 1000 * place + i) for place, truth in enumerate(TRUTHS) for i in range(families)]
    return [DecisionJob(policy, truth, stream) for policy in POLICIES for truth, stream in streams]


def decision_table(outcomes: Sequence[DecisionOutcome]) -> dict[str, dict[str, float | str]]:
    """A row for each policy and law, and for each policy over all."""
    rows: dict[str, dict[str, float | str]] = {}
    for policy in POLICIES:
        for truth in (*TRUTHS, "all"):
            own = [o for o in outcomes if o.job.policy == policy and truth in (o.job.truth, "all")]
            shares = {f"{said}": float(np.mean([o.verdict == said for o in own])) for said in ("right", "wrong", "undecided")}
            points = [o.points for o in own]
            rows[f"{policy}, {truth}"] = {
                "families": len(own),
                "points": float(np.mean(points)),
                "points_median": float(np.median(points)),
                "cells": float(np.mean([o.cells for o in own])),
            } | shares
    return rows


def decision_gates(rows: dict[str, dict[str, float | str]]) -> list[tuple[str, bool]]:
    """Half of the points of an even grid, at its errors or within two standard errors of the difference above them."""
    ours, even = ({name: float(value) for name, value in rows[f"{policy}, all"].items()} for policy in ("laws", "even"))
    points, (own, other) = ours["points"] / even["points"], (1 - ours["right"], 1 - even["right"])
    allowed = other + 2 * math.sqrt((own * (1 - own) + other * (1 - other)) / ours["families"])
    return [
        (f"deciding laws: points of those of an even grid: {points:.2f} (allowed 0 to 0.5)", points <= 0.5),
        (f"deciding laws: part without the right verdict: {own:.3f} (allowed 0 to {allowed:.3f})", own <= allowed),
        (f"deciding laws: part with a wrong verdict: {ours['wrong']:.3f} (allowed 0 to 0.05)", ours["wrong"] <= 0.05),
    ]
