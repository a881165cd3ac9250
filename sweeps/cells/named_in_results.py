"""What criterion, claims and drawings name of a sweep's results: metrics that an evaluation gives, values of some cell."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from stsq_core.configs import BitAttention, Fcn, Ffn, OneHot, Rnn, StreamTransformer, TransformerMlp, TrialConfig, shown
from sweeps.cells.cell import Cell
from sweeps.cells.searched import SearchedCell
from sweeps.schema import (
    TARGET,
    Bound,
    Compare,
    Curves,
    Path,
    PlacedError,
    Profile,
    Selection,
    SweepSpec,
    ThresholdOrder,
    ThresholdRatio,
    fields_of,
    listed,
    metric_at,
    suggestion,
)

AnyCell = Cell | SearchedCell

SHOWN_VALUES = 20
"""The most values of a field that a message lists."""


def check_metric(spec: SweepSpec, cells: Sequence[AnyCell]) -> None:
    """Refuse a criterion by a metric that some cell's trials do not give.

    Raises:
        PlacedError: the cell, and what to ask for.
    """
    for cell in cells:
        sample = _sample(cell)
        metric, given = metric_at(spec.criterion.metric, sample.task.T), sample.evaluation.metric_names
        if metric not in given:
            name, _, number = metric.partition("@")[2].partition("=")
            ask = f"{name}_test: [{number}]" if name else "describe: true"
            has = f"gives no {metric} (it gives {listed(given)})"
            problem = f"the evaluation of {cell.label} {has}: ask for it, evaluation: {{{ask}}}"
        elif reason := _not_of_the_model(sample, metric):
            problem = f"{reason} in {cell.label}, whose trials give no {metric}: use metric: loss, or another model"
        else:
            continue
        raise PlacedError(("criterion", "metric"), problem)


def _not_of_the_model(sample: TrialConfig, metric: str) -> str | None:
    """Why a described metric is none of a built-in model's."""
    model = sample.model
    is_direction = metric.startswith("cosine_")
    if isinstance(model, Fcn | Ffn | Rnn) and (is_direction or metric == "attention_mass"):
        return f"model.kind={model.kind} has no attention"
    if is_direction and (
        isinstance(model, TransformerMlp | BitAttention | StreamTransformer) or getattr(model, "heads", 1) > 1
    ):
        return f"model.kind={model.kind} has no single W and V"
    if metric == "cosine_W_centred" and not isinstance(codes := getattr(model, "positions", None), OneHot):
        return f"model.positions.kind={getattr(codes, 'kind', None)} is not one_hot"
    return None


def check_names(spec: SweepSpec, cells: Sequence[AnyCell]) -> None:
    """Refuse a claim or a drawing that no trial of the sweep can meet, which would end as "not enough data".

    Raises:
        PlacedError: a metric that no selected trial measures, or a value that no cell has, with the path from the top.
    """
    for where, selections in (("claims", spec.claims), ("drawings", spec.drawings)):
        for place, selection in enumerate(selections):
            _check(selection, (where, place), cells, spec.criterion.targets)


def _check(selection: Selection, path: Path, cells: Sequence[AnyCell], targets: Sequence[float]) -> None:
    for name, wanted in selection.where.items():
        _check_value(name, wanted, (*path, "where", name), cells, targets)
    fields = {name: wanted for name, wanted in selection.where.items() if name != TARGET}
    chosen = [cell for cell in cells if all(_has(cell, name, wanted) for name, wanted in fields.items())]
    if not chosen:
        raise PlacedError((*path, "where"), f"no cell of this sweep meets {shown(selection.where)} as a whole: select fewer")
    for name, value, place in _values_named(selection):
        _check_value(name, value, (*path, *place), chosen, targets)
    given = dict.fromkeys(metric for cell in chosen for metric in _sample(cell).evaluation.metric_names)
    for metric, place in _metrics_named(selection):
        if metric not in given:
            raise PlacedError(
                (*path, *place),
                f"no evaluation of the trials that it selects gives the metric {shown(metric)}{suggestion(metric, given)} "
                f"(they give {listed(given)}): name one of these, or ask for it under evaluation (T_test, q_test, describe)",
            )


def _check_value(name: str, wanted: object, path: Path, cells: Sequence[AnyCell], targets: Sequence[float]) -> None:
    """Refuse a value, or one of several, that a field has in no cell, or the criterion among its targets."""
    for one in wanted if isinstance(wanted, list | tuple) else [wanted]:
        if not (one in targets if name == TARGET else any(_has(cell, name, one) for cell in cells)):
            present = list(targets) if name == TARGET else _present(name, cells)
            near = suggestion(one, [str(value) for value in present]) if isinstance(one, str) else ""
            raise PlacedError(
                path, f"no cell of this sweep has {name} = {shown(one)}{near}; {name} is {_some(present)}: name one of those"
            )


def _values_named(selection: Selection) -> Iterator[tuple[str, object, Path]]:
    """The fields whose values a claim compares, each value with its place in the claim."""
    match selection:
        case Compare(field=field, smaller=smaller, than=than):
            yield field, smaller, ("smaller",)
            yield field, than, ("than",)
        case ThresholdOrder(by=by, order=order):
            yield from ((by, value, ("order", place)) for place, value in enumerate(order))
        case ThresholdRatio(by=by, of=of, over=over):
            yield by, of, ("of",)
            yield by, over, ("over",)


def _metrics_named(selection: Selection) -> Iterator[tuple[str, Path]]:
    match selection:
        case Bound(metric=metric) | Profile(metric=metric):
            yield metric, ("metric",)
        case Compare(metrics=metrics) | Curves(metrics=metrics):
            yield from ((metric, ("metrics", place)) for place, metric in enumerate(metrics))


def _has(cell: AnyCell, name: str, wanted: object) -> bool:
    """Whether a trial of the cell has the value, or one of several; a field that its search chooses may have any."""
    values = _cell_values(cell, name)
    if values is None:
        return True
    return any(value in wanted if isinstance(wanted, list | tuple) else value == wanted for value in values)


def _cell_values(cell: AnyCell, name: str) -> Sequence[Any] | None:
    """The values of a field in the trials of a cell; None where a search chooses them."""
    if name == "optimizer.lr":
        return cell.rates
    sample = _sample(cell)
    family = cell.family if isinstance(cell, SearchedCell) else cell.trials.families[0]
    if name in family.size.fields(sample):
        if isinstance(cell, SearchedCell):
            return None
        return [fields_of(family.member(size, sample.optimizer.lr, sample.seed)).get(name) for size in cell.widths]
    return [fields_of(sample).get(name)]


def _sample(cell: AnyCell) -> TrialConfig:
    return cell.family.sample if isinstance(cell, SearchedCell) else cell.trials.families[0].sample


def _present(name: str, cells: Iterable[AnyCell]) -> list[Any]:
    """The values of a field in all cells, each once."""
    found = (value for cell in cells for value in _cell_values(cell, name) or () if value is not None)
    return list({repr(value): value for value in found}.values())


def _some(values: Sequence[Any]) -> str:
    more = f" and {len(values) - SHOWN_VALUES} more" if len(values) > SHOWN_VALUES else ""
    return f"{listed(values[:SHOWN_VALUES])}{more}"
