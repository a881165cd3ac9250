"""Which tasks, models, trainings and evaluations go together, and what is said of those that do not.

The programs whose gradients are derived by hand can do what those of any pair cannot: integrate X out, and take every subset.
"""

import math

from stsq_core.configs.architecture import Architecture, Fcn, Transformer
from stsq_core.configs.positions import OneHot, PositionalCode
from stsq_core.configs.task import Stsq, TokenTask
from stsq_core.configs.training import Evaluation, Training

MAX_SUBSETS = 20_000
"""The most subsets that `batch_size: all` may enumerate, where none stands for all."""


def derived_model(task: TokenTask, model: Architecture, training: Training) -> Transformer | Fcn | None:
    """The model, if a program with gradients derived by hand trains this pair of task and model."""
    if type(task) is not Stsq or training.num_samples is not None:
        return None
    # A plugin's subclass of ours may compute something else: it has the gradient that autograd finds.
    return model if isinstance(model, Transformer | Fcn) and type(model) in (Transformer, Fcn) else None


def one_stands_for_all(task: TokenTask, model: Architecture, training: Training) -> bool:
    """Whether a step on every subset is taken on one: with one-hot codes from zero the population loss is the same for each,
    and its gradient differs by the order of the tokens only. Where they are few they are enumerated all the same.
    """
    is_same = training.objective == "population" and isinstance(getattr(model, "positions", None), OneHot)
    return training.batch_size == "all" and is_same and math.comb(task.T, task.q) > MAX_SUBSETS


def check_training(task: TokenTask, model: Architecture, training: Training) -> None:
    """Refuse an objective, a batch or a code that this pair of task and model does not have.

    Raises:
        ValueError: what does not fit, and what to do.
    """
    if model.needs_y and not task.shows_y:
        raise ValueError(
            f"the model {model.kind} asks for the tokens of y, and the task {task.kind} does not show y: "
            "use model.kind=fcn, or another task"
        )
    codes = getattr(model, "positions", None)
    if isinstance(codes, OneHot) and codes.d_e != task.T:
        raise ValueError(f"one_hot codes need d_e = T; got d_e={codes.d_e}, T={task.T}: leave d_e out")
    if training.objective == "population":
        _check_population(task, model, training.num_samples)
    if training.batch_size == "all":
        _check_every_subset(task, model, training)


def _check_population(task: TokenTask, model: Architecture, samples: int | None) -> None:
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
            f"objective: population takes the expectation over X and fresh subsets, so there is no training set; got "
            f"num_samples={samples}: use objective: minibatch, or leave num_samples out"
        )


def _check_every_subset(task: TokenTask, model: Architecture, training: Training) -> None:
    if training.num_samples is not None:
        raise ValueError(
            "batch_size: all takes every subset in every step, and a finite training set holds some; "
            f"got num_samples={training.num_samples}: give batch_size a number, or leave num_samples out"
        )
    if derived_model(task, model, training) is None:
        raise ValueError(
            "batch_size: all is defined for the task stsq with the transformer or the fcn only; "
            f"got task.kind={task.kind}, model.kind={model.kind}: give a number"
        )
    subsets = math.comb(task.T, task.q)
    if subsets > MAX_SUBSETS and not one_stands_for_all(task, model, training):
        codes = getattr(model, "positions", None)
        own = "" if codes is None else f", positions.kind={codes.kind}"
        raise ValueError(
            f"batch_size: all enumerates every subset and allows at most {MAX_SUBSETS}; "
            f"got C(T={task.T}, q={task.q}) = {subsets}. Only with objective: population and one_hot codes is the loss of "
            f"every subset the same, so that one stands for all; got objective={training.objective}, "
            f"model.kind={model.kind}{own}: give a number"
        )


def check_evaluation(task: TokenTask, model: Architecture, evaluation: Evaluation) -> None:
    """Refuse numbers of tokens and subset sizes at which the task has no samples, or that the model cannot read.

    Raises:
        ValueError: what does not fit, and what to do.
    """
    T, q = task.T, task.q
    for name, values in (("T", evaluation.T_test), ("q", evaluation.q_test)):
        if values:
            _check_free(task, model, name, values)
    if short := [T_test for T_test in evaluation.T_test if T_test < q]:
        raise ValueError(f"T_test must be at least q; got T_test={short[0]}, q={q}: leave it out")
    if large := [q_test for q_test in evaluation.q_test if q_test > T]:
        raise ValueError(f"q_test must be at most T; got q_test={large[0]}, T={T}: leave it out")
    codes = getattr(model, "positions", None)
    if isinstance(codes, PositionalCode) and codes.is_bound_to_T and (beyond := [n for n in evaluation.T_test if n > T]):
        raise ValueError(
            f"{codes.kind} codes name T={T} positions and none beyond; got T_test={beyond[0]}: "
            f"use T_test up to {T}, or random_sign codes"
        )


def check_target(task: TokenTask, model: Architecture, training: Training, evaluation: Evaluation) -> None:
    """Check that `stop_at_target` has a target, and that the samples counted up to a target are drawn, and fresh.

    Raises:
        ValueError: what does not fit, and what to do.
    """
    target = evaluation.target
    if training.stop_at_target and target is None:
        raise ValueError("stop_at_target=true needs a target to stop at: give evaluation.target, or leave it out")
    if target is not None and one_stands_for_all(task, model, training):
        raise ValueError(
            f"evaluation.target={target} counts samples, and a step on all of C(T={task.T}, q={task.q}) subsets draws none: "
            "leave target out, or give batch_size a number"
        )
    if target is not None and training.num_samples is not None:
        raise ValueError(
            f"evaluation.target={target} counts fresh samples, and num_samples={training.num_samples} makes the "
            "training set finite: leave one of the two out (criterion: {of: training.num_samples} asks how many are needed)"
        )


def _check_free(task: TokenTask, model: Architecture, name: str, values: tuple[int, ...]) -> None:
    """Refuse another T or q where the task or the model has only its own."""
    own, given = f"{name}={getattr(task, name)}", f"{name}_test={list(values)}"
    if name not in task.free_sizes:
        raise ValueError(f"the task {task.kind} draws samples at its own {own} only; got {given}: leave {name}_test out")
    if name in model.free_sizes:
        return
    if isinstance(model, Fcn):
        raise ValueError(
            f"a fully connected net reads the {own} tokens it was made for; got {given}: "
            "leave T_test out, or use model.kind=transformer"
        )
    raise ValueError(f"the model {model.kind} reads the {own} that it was made for only; got {given}: leave {name}_test out")
