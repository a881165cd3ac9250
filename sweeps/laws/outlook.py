"""What the searches of a sweep are expected to ask for: of each cell alone, or of the cells among which laws decide."""

import math
from collections.abc import Collection, Mapping, Sequence

from sweeps.laws.decision import Decision
from sweeps.schedule import Ahead, Outlook, shares
from sweeps.thresholds import SearchPlan


def decided_plans(plans: Sequence[SearchPlan], decisions: Sequence[Decision]) -> tuple[SearchPlan, ...]:
    """The plans where laws decide: the points left to a family are spread evenly, as nobody knows where they go."""
    found = []
    for decision in decisions:
        left = 0 if decision.reason else decision.settings.points - decision.total
        own = [one for one in plans if one.cell.cell_id in decision.cell_ids]
        most, expected = (shares(points, len(own)) for points in (left, decision.points_ahead))
        found += [one.scaled(*points) for one, *points in zip(own, most, expected, strict=True)]
    return tuple(found)


def outlook_of(
    plans: Sequence[SearchPlan],
    decisions: Sequence[Decision],
    *,
    unfinished: Collection[str],
    in_flight: Mapping[str, int],
    more: Mapping[str, int],
) -> Outlook:
    """The outlook of searches.

    Args:
        plans: of every searched cell.
        decisions: those of the laws, where they decide.
        unfinished: cells that may be asked for more points, or wait for some that they asked for.
        in_flight: points asked for that have not ended, by cell.
        more: points expected after those, where a search has said so itself.
    """
    if decisions:
        ahead = [_of_family(plans, decision, in_flight) for decision in decisions if not decision.reason]
    else:
        ahead = [
            one.ahead(more[cell_id] if cell_id in more else max(0, one.num_expected - in_flight.get(cell_id, 0)))
            for one in plans
            if (cell_id := one.cell.cell_id) in unfinished
        ]
    return Outlook(len(plans), len(unfinished), tuple(one for one in ahead if one.num_trials))


def _of_family(plans: Sequence[SearchPlan], decision: Decision, in_flight: Mapping[str, int]) -> Ahead:
    """The rounds of a family, each in some of its cells at once."""
    own = [one for one in plans if one.cell.cell_id in decision.cell_ids]
    num = max(0, decision.points_ahead - sum(in_flight.get(cell_id, 0) for cell_id in decision.cell_ids))
    parts = [one.ahead(part) for one, part in zip(own, shares(num, len(own)), strict=True)]
    num_rounds = math.ceil(num / (decision.batch * decision.settings.cells))
    num_trials, operations = sum(one.num_trials for one in parts), sum(one.operations for one in parts)
    return Ahead(decision.cell_ids, num_trials, num_rounds, operations)
