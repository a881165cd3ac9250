"""Which tasks, models, trainings and evaluations go together, and what is said of those that do not.

The programs whose gradients are derived by hand can do what those of any pair cannot: integrate X out, and take every subset.
"""

import math
from typing import TYPE_CHECKING

from stsq_core.configs.architecture import Fcn, Transformer
from stsq_core.configs.positions import BOUND_TO_T, OneHot
from stsq_core.configs.task import Stsq

if TYPE_CHECKING:
    from stsq_core.configs.trial import TrialConfig

MAX_SUBSETS = 20_000
"""The most subsets that `batch_size: all` may enumerate."""


def is_derived(config: "TrialConfig") -> bool:
    """Whether a program with gradients derived by hand trains this pair of task and model."""
    return type(config.task) is Stsq and type(config.model) in (Transformer, Fcn) and config.training.num_samples is None


def check_training(config: "TrialConfig") -> None:
    """Refuse an objective, a batch or a code that this pair of task and model does not have.

    Raises:
        ValueError: what does not fit, and what to do.
    """
    if config.model.needs_y and not config.task.shows_y:
        raise ValueError(
            f"the model {config.model.kind} asks for the tokens of y, and the task {config.task.kind} does not show y: "
            "use model.kind=fcn, or another task"
        )
    codes = getattr(config.model, "positions", None)
    if isinstance(codes, OneHot) and codes.d_e != config.task.T:
        raise ValueError(f"one_hot codes need d_e = T; got d_e={codes.d_e}, T={config.task.T}: leave d_e out")
    if config.training.objective == "population":
        _check_population(config)
    if config.training.batch_size == "all":
        _check_every_subset(config)


def _check_population(config: "TrialConfig") -> None:
    task, model, samples = config.task, config.model, config.training.num_samples
    if not isinstance(model, Transformer):
        raise ValueError(
            f"objective: population is defined for the transformer only; got model.kind={model.kind}: use objective: minibatch"
        )
    if type(task) is not Stsq:
        raise ValueError(
            f"objective: population is defined for the task stsq only; got task.kind={task.kind}: use objective: minibatch"
        )
    if model.extensions:
        raise ValueError(
            "objective: population is defined for the model of Theorem 1 only (init: zero, x_query: zero, "
            f"attend_query: false, codes that are not learned); got {', '.join(model.extensions)}: "
            "use objective: minibatch, or leave these out"
        )
    if samples is not None:
        raise ValueError(
            f"objective: population takes the expectation over all samples, so there is no training set; got "
            f"num_samples={samples}: use objective: minibatch, or leave num_samples out"
        )


def _check_every_subset(config: "TrialConfig") -> None:
    task, model, samples = config.task, config.model, config.training.num_samples
    if samples is not None:
        raise ValueError(
            "batch_size: all takes every subset in every step, and a finite training set holds some; "
            f"got num_samples={samples}: give batch_size a number, or leave num_samples out"
        )
    if not is_derived(config):
        raise ValueError(
            "batch_size: all is defined for the task stsq with the transformer or the fcn only; "
            f"got task.kind={task.kind}, model.kind={model.kind}: give a number"
        )
    if (subsets := math.comb(task.T, task.q)) > MAX_SUBSETS:
        raise ValueError(
            f"batch_size: all enumerates every subset and allows at most {MAX_SUBSETS}; "
            f"got C(T={task.T}, q={task.q}) = {subsets}: give a number"
        )


def check_evaluation(config: "TrialConfig") -> None:
    """Refuse numbers of tokens and subset sizes at which the task has no samples, or that the model cannot read.

    Raises:
        ValueError: what does not fit, and what to do.
    """
    T, q, told = config.task.T, config.task.q, config.evaluation
    for name, values in (("T", told.T_test), ("q", told.q_test)):
        if values:
            _check_free(config, name, values)
    if short := [T_test for T_test in told.T_test if T_test < q]:
        raise ValueError(f"T_test must be at least q; got T_test={short[0]}, q={q}: leave it out")
    if large := [q_test for q_test in told.q_test if q_test > T]:
        raise ValueError(f"q_test must be at most T; got q_test={large[0]}, T={T}: leave it out")
    codes = getattr(config.model, "positions", None)
    if isinstance(codes, BOUND_TO_T) and (beyond := [n for n in told.T_test if n > T]):
        raise ValueError(
            f"{codes.kind} codes name T={T} positions and none beyond; got T_test={beyond[0]}: "
            f"use T_test up to {T}, or random_sign codes"
        )


def check_target(config: "TrialConfig") -> None:
    """Refuse to stop at a target that is not given, and to count samples that are drawn again and again.

    Raises:
        ValueError: what does not fit, and what to do.
    """
    training, target = config.training, config.evaluation.target
    if training.stop_at_target and target is None:
        raise ValueError("stop_at_target=true needs a target to stop at: give evaluation.target, or leave it out")
    if target is not None and training.num_samples is not None:
        raise ValueError(
            f"evaluation.target={target} counts fresh samples, and num_samples={training.num_samples} makes the "
            "training set finite: leave one of the two out (criterion: {of: training.num_samples} asks how many are needed)"
        )


def _check_free(config: "TrialConfig", name: str, values: tuple[int, ...]) -> None:
    """Refuse another T or q where the task or the model has only its own."""
    own, given = f"{name}={getattr(config.task, name)}", f"{name}_test={list(values)}"
    if name not in config.task.free_sizes:
        raise ValueError(f"the task {config.task.kind} draws samples at its own {own} only; got {given}: leave {name}_test out")
    if name in config.model.free_sizes:
        return
    if isinstance(config.model, Fcn):
        raise ValueError(
            f"a fully connected net reads the {own} tokens it was made for; got {given}: "
            "leave T_test out, or use model.kind=transformer"
        )
    raise ValueError(
        f"the model {config.model.kind} reads the {own} that it was made for only; got {given}: leave {name}_test out"
    )
