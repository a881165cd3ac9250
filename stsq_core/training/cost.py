"""What one step of one trial costs: operations and bytes counted from the formulas, for plans, packs and rooflines.

Counts are per model-step (forward, gradient and update). Two kinds are counted apart, because a device does them at different
rates: multiplications and additions of matrix products, and instructions on vectors of numbers (a fused multiply-add is one).
"""

from dataclasses import dataclass
from typing import assert_never

from stsq_core.configs import CHUNK, Fcn, Transformer, TrialConfig, padded_tokens, padded_width

NORMAL = 33
"""Vector instructions of one normal: a quarter of seven Philox rounds of eight, then half of a Box-Muller pair."""

SOFTMAX = 26
"""Vector instructions of a score's softmax: the greatest, the exponential, the sum, the share."""

UPDATE = 12
"""Vector instructions of a parameter's Adam step."""

VECTOR_EFFORT = 5.0
"""Time of a vector instruction, in operations of a matrix product (measured on CPUs: tests/benchmarks/engine.py)."""

CALL_EFFORT = 1.2e7
"""Time of calling one step's functions for a whole stack, in operations of a matrix product (measured)."""

GPU_CALL_OPERATIONS = 1.6e9
"""Time of launching one step's kernels for a whole stack, some 80 us, in the least operations that a GPU does in it (measured
on an H200: tests/benchmarks/gpu_engine.py)."""

ASSUMED_RATE = 2.0e10
"""Operations a second of one core of 2020 or later, training packs: 5e10 in width_vs_T, 4e10 in three_architectures, fewer
where models are tiny or start and compiling take most of the time."""

GPU_RATE = 3.0e13
"""Operations a second of packs on an H200, within a factor of two for every model (tests/benchmarks/gpu_engine.py)."""

GPU_FIXED_BYTES = 3 * 2.0**25
"""What a process holds on a GPU beside its stacks: a workspace of matrix products, 32 MiB on a Hopper, for each stream that it
works on (its own, that of rehearsals, that of captures; stsq_core.training.stepper)."""


@dataclass(frozen=True)
class StepCost:
    """One model-step: operations of matrix products, and instructions on vectors."""

    products: float
    vectors: float

    @property
    def least(self) -> float:
        """Operations at the matrix rate that no implementation can avoid: a vector unit that adds or multiplies where it could
        do both does one operation of two."""
        return self.products + 2 * self.vectors

    @property
    def effort(self) -> float:
        """The time that a model-step of a large pack takes, in operations of a matrix product."""
        return self.products + VECTOR_EFFORT * self.vectors


def step_cost(config: TrialConfig) -> StepCost:
    """The operations that the formulas name; three times the forward pass where autograd finds the gradient."""
    match model := config.derived_model:
        case None:
            return _network(config)
        case Transformer(extensions=(_, *_)):
            return _full(config)
        case Transformer(positions=codes) if codes.redraw == "per_sample":
            return _sample_codes(config)
        case Transformer():
            return _shared_codes(config)
        case Fcn():
            return _fcn(config, model)
        case _:
            assert_never(model)


def _network(config: TrialConfig) -> StepCost:
    """Any task and model (stsq_core.networks.network)."""
    task, model, batch = config.task, config.model, config.batch
    vectors = batch * (NORMAL * task.T * task.d + 8 * model.activations(task)) + UPDATE * model.num_parameters(task)
    return StepCost(6.0 * batch * model.multiplications(task), vectors)


def step_operations(config: TrialConfig, pack: int = 32) -> float:
    """The time of one model-step in a pack of so many trials, in operations of a matrix product."""
    return step_cost(config).effort + CALL_EFFORT / pack


def evaluation_operations(config: TrialConfig, pack: int = 32) -> float:
    """The time of all evaluations of one trial in a pack of so many, in operations of a matrix product.

    A chunk takes about half of a step of as many samples. What every trial does, its final loss and no more, counts as
    nothing.
    """
    evaluation, steps = config.evaluation, config.training.steps
    if not evaluation.has_metrics:
        return 0.0
    kinds = [_evaluated(config), *(_evaluated(config, T=T) for T in evaluation.T_test)]
    kinds += [_evaluated(config, q=q) for q in evaluation.q_test] + kinds[:1] * evaluation.describe
    times = 1 if evaluation.every is None else 1 + -(-steps // evaluation.every)
    return times * evaluation.num_chunks * sum(step_operations(kind, pack) / 2 for kind in kinds)


def _evaluated(config: TrialConfig, **numbers: int) -> TrialConfig:
    """A trial whose steps are chunks of an evaluation of this one, with another T or q where one is given."""
    training = config.training.model_copy(update={"batch_size": CHUNK})
    return config.model_copy(update={"task": config.task.model_copy(update=numbers), "training": training})


def _shared_codes(config: TrialConfig) -> StepCost:
    """The transformer whose batch shares a code book (stsq_core.programs.theorem_transformer)."""
    task, batch, D = config.task, config.batch, padded_width(config)
    q, d, P = task.q, task.d, padded_tokens(task.T)
    products, per_score = 2.0 * 2 * (P * D * D + P * P * D), 2 * q + SOFTMAX + 6
    vectors = 4.0 * P * D + 15 * batch * q + _dual(config) + UPDATE * num_parameters(config)
    if config.training.objective == "minibatch":
        products += 2 * 2 * 2 * d * D * P
        per_score += 7 * d
        vectors += NORMAL * batch * d * task.T
    return StepCost(products, vectors + batch * P * per_score)


def _sample_codes(config: TrialConfig) -> StepCost:
    """The transformer whose every sample has a code book (stsq_core.programs.sample_codes)."""
    task, batch, D = config.task, config.batch, padded_width(config)
    sampled = config.training.objective == "minibatch"
    vectors = (8.0 + 4 * sampled) * batch * task.T * D + batch * task.T * (SOFTMAX + 6) + UPDATE * num_parameters(config)
    if sampled:
        vectors += (NORMAL + 7) * batch * task.T * task.d
    return StepCost(2.0 * batch * D * (2 * D + 6 * task.d * sampled), vectors + _dual(config))


def _full(config: TrialConfig) -> StepCost:
    """The transformer in full (stsq_core.programs.full_transformer): W and V forward and backward, and Z four times."""
    task, batch, D = config.task, config.batch, padded_width(config)
    T, d, m, P = task.T, task.d, task.d + D, padded_tokens(task.T)
    products = 2.0 * batch * (2 * m * m + 3 * d * m)
    vectors = 1.0 * batch * (T * (SOFTMAX + 6 + (NORMAL + 9) * d) + NORMAL * d + 20 * m) + UPDATE * num_parameters(config)
    if _has_sample_codes(config):
        vectors += 12.0 * batch * T * D
    else:
        products += 0.0 if _is_one_hot(config) else 2.0 * 5 * batch * P * D
        vectors += 4.0 * P * D
    if _learns_codes(config):
        products += 2.0 * batch * (m * m + (5 if _asks_dually(config) else 3) * T * D)
    return StepCost(products, vectors + _dual(config))


def _dual(config: TrialConfig) -> float:
    """Inner products of the members, in float64, and conjugate gradients."""
    q = config.task.q
    return float(config.batch * (q * (q + 1) * padded_width(config) + 8 * q**3)) if _asks_dually(config) else 0.0


def _fcn(config: TrialConfig, model: Fcn) -> StepCost:
    """Forward, and backward to the weights and to every layer but the inputs; the columns of a subset are added, as q rows."""
    task, batch = config.task, config.batch
    layers, hot = layer_shapes(config), _hot_inputs(model, task.T)
    products = sum(
        2.0 * batch * units * (inputs - read) * (2 if i == 0 else 3)
        for i, ((units, inputs), read) in enumerate(zip(layers, hot, strict=True))
    )
    activations = sum(units + inputs - read for (units, inputs), read in zip(layers, hot, strict=True))
    rows = sum(2.0 * task.q * units for (units, _), read in zip(layers, hot, strict=True) if read)
    vectors = batch * (NORMAL * task.T * task.d + 4.0 * activations + rows) + UPDATE * num_parameters(config)
    return StepCost(products, vectors)


def layer_shapes(config: TrialConfig) -> list[tuple[int, int]]:
    """(units, inputs) of each layer of a fully connected net on its rung, biases not counted."""
    match config.model:
        case Fcn() as model:
            width, T, d = padded_width(config), config.task.T, config.task.d
            first = T * d + T * (model.y_enters != "second")
            second = width + T * (model.y_enters != "first")
            tail = model.tail_width
            return [(width, first), (tail, second), *[(tail, tail)] * (model.depth - 2), (d, tail)]
    raise TypeError(f"not a fully connected net: {config.model.kind}")


def _hot_inputs(model: Fcn, T: int) -> tuple[int, ...]:
    """How many inputs of each layer mark the tokens of the subset."""
    return T * (model.y_enters != "second"), T * (model.y_enters != "first"), *[0] * (model.depth - 1)


def num_parameters(config: TrialConfig) -> int:
    """Trained numbers of one padded trial."""
    task = config.task
    match model := config.derived_model:
        case None:
            return config.model.num_parameters(task)
        case Transformer(extensions=(_, *_)):
            m = task.d + padded_width(config)
            return m * m + task.d * m + task.T * (m - task.d) * _learns_codes(config)
        case Transformer():
            D = padded_width(config)
            return D * D + 1 if config.training.objective == "population" else (task.d + D) * D + task.d * (task.d + D)
        case Fcn():
            return sum(units * (inputs + 1) for units, inputs in layer_shapes(config))
        case _:
            assert_never(model)


def memory_bytes(config: TrialConfig, device: str = "cpu") -> float:
    """The most that one trial of a stack holds in tensors at a time, within 15% (tests/stsq_core/test_cost.py).

    Parameters, Adam's moments, a code book, draws and activations: gradients come when most of these are gone. On a GPU
    (`device` "cuda") the draws and the gradients at the scores are held too, which a core keeps in its cache. An evaluation on
    more tokens counts as a step on them, which holds more; it comes between steps, when a CUDA graph keeps its own memory.
    """
    longest = max(config.evaluation.T_test, default=0)
    if longest <= config.task.T:
        return _held_bytes(config, device)
    more = _held_bytes(_evaluated(config, T=longest), device)
    return max(_held_bytes(config, device), more) if device == "cpu" else _held_bytes(config, device) + more


def _held_bytes(config: TrialConfig, device: str) -> float:
    size = 8 if config.training.dtype == "float64" else 4
    subsets = 8.0 * config.batch * config.task.q
    match model := config.derived_model:
        case None:
            return size * (_network_numbers(config) + 4 * num_parameters(config)) + subsets
        case Transformer(extensions=(_, *_)):
            numbers = _full_numbers(config, device)
        case Transformer(positions=codes) if codes.redraw == "per_sample":
            numbers = _sample_codes_numbers(config)
        case Transformer():
            numbers = _shared_codes_numbers(config, device)
        case Fcn():
            numbers = _fcn_numbers(config, device)
        case _:
            assert_never(model)
    return size * (numbers + 3 * num_parameters(config)) + subsets


def _shared_codes_numbers(config: TrialConfig, device: str) -> float:
    task, batch, D, P = config.task, config.batch, padded_width(config), padded_tokens(config.task.T)
    is_sampled = config.training.objective == "minibatch"
    if device == "cpu" and not _is_one_hot(config):  # scores as an evaluation finds them, or all gradients at the end
        scored = P * P + P * D + 2 * (P + D) + (4 * task.d * P + 2 * task.d * D) * is_sampled
        return P * D + batch * (task.q + 1) + float(max(num_parameters(config), scored))
    attending = 2.0 * P * P
    if device == "cpu":
        attending += (6 * task.d * P + 2 * task.d * D) * is_sampled
        drawn = task.q + 1
    else:  # every sample's tokens and gradients at the scores are held (stsq_core.kernels.cuda), and a draw for each trial
        attending += batch * P + (batch * task.d * (task.T + 3) + 4 * task.d * P + 2 * task.d * D) * is_sampled
        drawn = task.q + 2
    book = 0 if _is_one_hot(config) else P * D
    return book + batch * drawn + max(attending, P * P + P * D + D * D)


def _sample_codes_numbers(config: TrialConfig) -> float:
    task, batch, D = config.task, config.batch, padded_width(config)
    numbers = 2.0 * batch * task.T * D + batch * (3 * task.T + (2 * task.q + 3) * D)
    return numbers + batch * task.T * task.d * 2 if config.training.objective == "minibatch" else numbers


def _full_numbers(config: TrialConfig, device: str) -> float:
    """The most of three moments: as columns are mixed, as gradients are complete, and, on a core, as W is updated."""
    task, batch, D = config.task, config.batch, padded_width(config)
    T, d, m, P = task.T, task.d, task.d + D, padded_tokens(task.T)
    line = 8 if config.training.dtype == "float64" else 16  # numbers to which stsq_core.numerics.products pads
    wide = -(-m // line) * line
    cut = m * m % line > 0 or batch * m % line > 0
    attended = 3.0 * batch * (T + _attends_query(config)) + batch * T * d + 4 * batch * m
    if _has_sample_codes(config):
        attended += batch * D * (T + task.q + 1)
        mixing = batch * T * max(D, d)
    else:
        attended += batch * (P + D) + (0 if _is_one_hot(config) else P * D)
        mixing = batch * T * (d + _attends_query(config))
    gradients = m * (wide if cut else m)
    complete = attended + batch * m + gradients + 2 * batch * m * cut
    if _learns_codes(config):
        through_query = batch * (4 * m + 3 * D + 3 * T)
        if _asks_dually(config):  # in float64
            through_query = batch * (m + line // 8 * (2 * task.q + 3) * D + 3 * (D + P))
        complete += max((m * wide + 2 * batch * m) * cut, through_query)
    updating = gradients + m * m * cut if device == "cpu" else 0
    return max(attended + mixing, complete, updating)


def _fcn_numbers(config: TrialConfig, device: str) -> float:
    T, d, layers = config.task.T, config.task.d, layer_shapes(config)
    columns = [-(-(inputs + 1) // 16) * 16 for _, inputs in layers]
    if device == "cpu" and isinstance(config.model, Fcn) and config.model.activation == "relu":
        padded = sum(units * width for (units, _), width in zip(layers, columns, strict=True))
        return float(config.batch + 4 * padded - 3 * num_parameters(config))  # a block of samples is held for the whole stack
    return float(config.batch * (T * d + T + sum(columns) + 2 * max(units for units, _ in layers)))


def _network_numbers(config: TrialConfig) -> float:
    """What autograd keeps of the forward pass, as much again for the backward pass, and a finite training set."""
    task, samples = config.task, max(config.batch, config.training.num_samples or 0)
    return 2.0 * config.batch * (task.T * task.d + config.model.activations(task)) + samples * task.T * task.d


def _has_sample_codes(config: TrialConfig) -> bool:
    return isinstance(config.model, Transformer) and config.model.positions.redraw == "per_sample"


def _learns_codes(config: TrialConfig) -> bool:
    return isinstance(config.model, Transformer) and config.model.positions.kind == "learned"


def _asks_dually(config: TrialConfig) -> bool:
    """Whether queries are solutions of equations; the sum of one-hot codes is their dual query."""
    return isinstance(config.model, Transformer) and config.model.positions.query == "dual" and not _is_one_hot(config)


def _attends_query(config: TrialConfig) -> bool:
    return isinstance(config.model, Transformer) and config.model.attend_query


def _is_one_hot(config: TrialConfig) -> bool:
    return isinstance(config.model, Transformer) and config.model.positions.kind == "one_hot"
