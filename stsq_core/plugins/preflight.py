"""Tries what a plugin brings before anything is trained: one batch and one step, alone and in a pack of two.

What is checked is what a worker would stumble over hours later, or never tell: shapes, types, finite numbers, and the law of
the pack, that a trial's numbers do not depend on who shares its stack.
"""

import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from stsq_core.configs import PositionalCode, TrialConfig, UserError
from stsq_core.kernels import kernels_for
from stsq_core.networks import ModuleNetwork, Network, NetworkProgram, network_of
from stsq_core.numerics import Purpose, Streams
from stsq_core.plugins.loading import used_plugins
from stsq_core.plugins.plugin import Plugin, described
from stsq_core.programs import Codes, PluginCode, Tensors
from stsq_core.tasks import Batch, Examples, examples_of
from stsq_core.training import Descent, UpdateRule, one_thread, rule_of

DTYPES = {"float32": torch.float32, "float64": torch.float64}
ANOTHER_SEED = 1
COMPANY = (
    "others in a pack of two than alone, so that its numbers would depend on its company: draw from the given source only, and "
    "multiply stacks with stsq_core.plugins.product"
)


def try_pairs(configs: Iterable[TrialConfig]) -> None:
    """Try the first and the last trial of every combination of kinds of which one is a plugin's.

    Raises:
        UserError: as `try_pair`.
    """
    ends: dict[tuple[str, ...], list[TrialConfig]] = {}
    for config in configs:
        codes = codes_of(config)
        kinds = (config.task.kind, config.model.kind, config.optimizer.kind, codes.kind if codes else "")
        ends.setdefault(kinds, []).append(config)
    for own in ends.values():
        for config in dict.fromkeys((own[0], own[-1])):
            try_pair(config)


def try_pair(config: TrialConfig) -> None:
    """Try a trial of which a part is a plugin's, at its own batch size, on the CPU.

    Raises:
        UserError: what a plugin's code raised or got wrong, with the file and line to look at.
    """
    plugins = used_plugins([config])
    if not plugins:
        return
    trial = _Trial(config, plugins)
    with one_thread("cpu"), torch.no_grad():
        trial.check_examples()
        trial.check_codes()
        alone = trial.first_step(1)
        together = trial.first_step(2)
        for what, owner, name in (
            ("samples", trial.examples_type, "batch"),
            ("parameters", trial.network_type, "initial"),
            ("outputs", trial.network_type, "outputs"),
            ("gradients", trial.network_type, "outputs"),
            ("moved parameters", trial.rule_type, "move"),
        ):
            if not all(torch.equal(a[0], b[-1]) for a, b in zip(alone[what], together[what], strict=True)):
                raise trial.wrong(owner, name, f"the {what} of a trial are {COMPANY}")


def codes_of(config: TrialConfig) -> PositionalCode | None:
    """The codes of a trial's model, where it has some."""
    codes = getattr(config.model, "positions", None)
    return codes if isinstance(codes, PositionalCode) else None


class _Trial:
    """One trial of a plugin's kinds, tried."""

    def __init__(self, config: TrialConfig, plugins: tuple[Plugin, ...]) -> None:
        self.config = config
        self.plugins = plugins
        with self._located(type(config.task), "examples"):
            self.examples: Examples[Any] = examples_of(config.task)
        self.examples_type = type(self.examples)
        with self._located(type(config.model), "network"):
            self.network_type: type[Any] = network_of(config.model)
        with self._located(type(config.optimizer), "rule"):
            self.rule_type: type[Any] = rule_of(config.optimizer)
        self.dtype = DTYPES[config.training.dtype]

    def check_examples(self) -> None:
        """What `examples()` and `network()` return, and the numbers that the examples tell of themselves."""
        if not isinstance(self.examples, Examples):
            problem = f"it must return an stsq_core.plugins.Examples; got {type(self.examples).__name__}"
            raise self.wrong(type(self.config.task), "examples", problem)
        if not (isinstance(self.network_type, type) and issubclass(self.network_type, Network)):
            problem = f"it must return a subclass of stsq_core.plugins.Network; got {self.network_type!r}"
            raise self.wrong(type(self.config.model), "network", problem)
        if not (isinstance(self.rule_type, type) and issubclass(self.rule_type, UpdateRule)):
            problem = f"it must return a subclass of stsq_core.plugins.UpdateRule; got {self.rule_type!r}"
            raise self.wrong(type(self.config.optimizer), "rule", problem)
        for name in ("num_outputs", "output_size"):
            with self._located(self.examples_type, name):
                value = getattr(self.examples, name)
            if not isinstance(value, int) or value < 1:
                raise self.wrong(self.examples_type, name, f"it must be a whole number of at least 1; got {value!r}")
        with self._located(self.examples_type, "zero_loss"):
            zero_loss = self.examples.zero_loss
        if not isinstance(zero_loss, int | float) or not 0 < zero_loss < float("inf"):
            raise self.wrong(self.examples_type, "zero_loss", f"it must be a number above 0; got {zero_loss!r}")

    def check_codes(self) -> None:
        """That the rows of a plugin's codes are of their place alone: whoever shares the stack, and however many are drawn."""
        positions = codes_of(self.config)
        if not isinstance(positions, PluginCode):
            return
        with self._located(type(positions), "codes"):
            owner: Any = positions.codes()
        if not (isinstance(owner, type) and issubclass(owner, Codes)):
            problem = f"it must return a subclass of stsq_core.plugins.Codes; got {owner!r}"
            raise self.wrong(type(positions), "codes", problem)
        T, length = self.config.task.T, positions.d_e + 3  # what stands beside narrower codes in a stack
        rows = [self._rows(owner, positions, num, T=count, length=length) for num, count in ((1, T), (2, T), (1, T + 1))]
        if not torch.equal(rows[0][0], rows[1][-1]):
            raise self.wrong(owner, "rows", f"the codes of a trial are {COMPANY}")
        if not torch.equal(rows[0][0], rows[2][0, :T]):
            raise self.wrong(owner, "rows", "a longer draw must begin with a shorter one: make row t of the t-th row of a draw")
        if rows[0][..., positions.d_e :].any():
            raise self.wrong(owner, "rows", "coordinates beyond d_e must be zero: multiply by self.own or self.scale")

    def _rows(self, owner: type[Codes], positions: PositionalCode, num: int, *, T: int, length: int) -> torch.Tensor:
        """The codes of the trial and `num` - 1 others before it."""
        kernels = kernels_for(torch.device("cpu"))
        streams = Streams((*[self.config.seed + ANOTHER_SEED] * (num - 1), self.config.seed), kernels)
        with self._located(owner, "rows"):
            made = owner((positions,) * num, length=length, dtype=self.dtype, kernels=kernels)
            rows = made.rows(streams.draws(Purpose.CODES, 0), T)
        self._check(owner, "rows", "codes (k, count, length)", rows, (num, T, length), self.dtype)
        return rows

    def first_step(self, num: int) -> dict[str, list[torch.Tensor]]:
        """What the first step computes of the trial and `num` - 1 others before it, every tensor checked."""
        others = [self.config.model_copy(update={"seed": self.config.seed + ANOTHER_SEED})] * (num - 1)
        with self._located(self.network_type, "__init__"):
            program = NetworkProgram((*others, self.config), torch.device("cpu"))
        with self._located(self.examples_type, "batch"):
            batch = program.training_batch(0)
        self._check_batch(batch, num)
        with self._located(self.network_type, "initial"):
            parameters = program.initial()
        self._check_parameters(parameters, num)
        with self._located(self.network_type, "outputs"):
            outputs = program.network.outputs(parameters, batch, program.source(0, fresh=False))
        self._check(self.network_type, "outputs", "the outputs", outputs, tuple(batch.target.shape), self.dtype)
        for name in ("objective", "relative_losses"):
            with self._located(self.examples_type, name):
                losses = getattr(self.examples, name)(outputs, batch)
            self._check(self.examples_type, name, "it", losses, (num, self.config.batch), self.dtype)
        with self._located(self.network_type, "outputs"):
            _, gradients = program.gradients(parameters, 0)
            self._evaluate(program, parameters)
        for name, value in gradients.items():
            what = f"the gradient at {name}"
            self._check(self.network_type, "outputs", what, value, tuple(parameters[name].shape), self.dtype)
        optimizers = tuple(config.optimizer for config in program.configs)
        moved = {name: value.clone() for name, value in parameters.items()}
        with self._located(self.rule_type, "move"):
            descent = Descent(optimizers, self.config.training.steps, dtype=self.dtype, kernels=program.kernels)
            descent.update(moved, gradients, descent.moments(moved), 0)
        for name, value in moved.items():
            self._check(self.rule_type, "move", f"the moved {name}", value, tuple(parameters[name].shape), self.dtype)
        samples = [batch.X, batch.target, *([] if batch.y is None else [batch.y])]
        return {
            "samples": samples,
            "parameters": list(parameters.values()),
            "outputs": [outputs],
            "gradients": list(gradients.values()),
            "moved parameters": list(moved.values()),
        }

    def _evaluate(self, program: NetworkProgram, parameters: Tensors) -> None:
        """What an evaluation computes: fresh samples, also at the first other T and q that are asked for."""
        program.fresh_losses(parameters, 0)
        for T in self.config.evaluation.T_test[:1]:
            program.fresh_losses(parameters, 0, T=T)
        for q in self.config.evaluation.q_test[:1]:
            program.fresh_losses(parameters, 0, q=q)

    def _check_batch(self, batch: object, num: int) -> None:
        if not isinstance(batch, Batch):
            raise self.wrong(self.examples_type, "batch", f"it must return a Batch; got {type(batch).__name__}")
        task, examples = self.config.task, self.examples
        tensors = {
            "X": (batch.X, (num, self.config.batch, task.T, task.d), "(k, batch, T, d)"),
            "target": (
                batch.target,
                (num, self.config.batch, examples.num_outputs, examples.output_size),
                "(k, batch, R, size)",
            ),
        }
        for name, (value, shape, letters) in tensors.items():
            self._check(self.examples_type, "batch", f"{name} {letters}", value, shape, self.dtype)
        if batch.y is not None:
            shape = (num, self.config.batch, examples.num_outputs, task.q)
            self._check(self.examples_type, "batch", "y (k, batch, R, q)", batch.y, shape, torch.int64)
            if int(batch.y.min()) < 0 or int(batch.y.max()) >= task.T:
                problem = f"y must hold positions 0 to T - 1 = {task.T - 1}; got {int(batch.y.min())} to {int(batch.y.max())}"
                raise self.wrong(self.examples_type, "batch", problem)

    def _check_parameters(self, parameters: Tensors, num: int) -> None:
        if not isinstance(parameters, dict) or not parameters:
            problem = f"it must return tensors by name; got {type(parameters).__name__}"
            raise self.wrong(self.network_type, "initial", problem)
        for name, value in parameters.items():
            rest = tuple(value.shape[1:]) if isinstance(value, torch.Tensor) else ()
            self._check(self.network_type, "initial", f"{name} (k, ...)", value, (num, *rest), self.dtype)

    def _check(self, owner: type[Any], name: str, what: str, value: object, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        """Refuse what is no tensor of this shape and type, or not finite."""
        if not isinstance(value, torch.Tensor):
            raise self.wrong(owner, name, f"{what} must be a tensor; got {type(value).__name__}")
        if tuple(value.shape) != shape:
            raise self.wrong(owner, name, f"{what} must have the shape {shape}; got {tuple(value.shape)}")
        if value.dtype != dtype:
            raise self.wrong(owner, name, f"{what} must be {dtype}; got {value.dtype}")
        if dtype.is_floating_point and not bool(torch.isfinite(value).all()):
            raise self.wrong(owner, name, f"{what} must be finite; it holds inf or nan")

    def wrong(self, owner: type[Any], name: str, problem: str) -> UserError:
        """An error about a method or property, at the line where it is defined."""
        owner, name = _written(owner, name)
        return UserError(f"{self._line(owner, name)}: {owner.__name__}.{name}: {problem}")

    def _line(self, owner: type[Any], name: str) -> str:
        """Where a method is defined; the class, where it is inherited."""
        found = inspect.getattr_static(owner, name, None)
        function: Any = found.fget if isinstance(found, property) else found
        code = getattr(function, "__code__", None)
        for plugin in self.plugins:
            if code is not None and code.co_filename == plugin.place:
                return f"{plugin.place}:{_below_decorators(plugin.text, code.co_firstlineno)}"
            if owner.__name__ in plugin.lines and owner.__module__ in (plugin.module, f"stsq_plugin_{plugin.digest[:16]}"):
                return f"{plugin.place}:{plugin.lines[owner.__name__]}"
        return self.plugins[0].place

    @contextmanager
    def _located(self, owner: type[Any], name: str) -> Iterator[None]:
        """Turn what a plugin's code raises into an error of one line that names the plugin's line it came through."""
        try:
            yield
        except UserError:
            raise
        except Exception as error:
            lines = [plugin.line_of(error) for plugin in self.plugins]
            place = next((line for line in lines if line not in {p.place for p in self.plugins}), None)
            owner, name = _written(owner, name)
            raise UserError(f"{place or self._line(owner, name)}: {owner.__name__}.{name}: {described(error)}") from error


def _written(owner: type[Any], name: str) -> tuple[type[Any], str]:
    """The class and method that a plugin's author wrote: of a `torch.nn.Module` its own."""
    if isinstance(owner, type) and issubclass(owner, ModuleNetwork):
        return owner.module_type, {"outputs": "forward", "initial": "__init__"}.get(name, name)
    return owner, name


def _below_decorators(text: str, line: int) -> int:
    """The line of a `def` whose code begins at its first decorator."""
    lines = text.splitlines()
    while line < len(lines) and lines[line - 1].lstrip().startswith("@"):
        line += 1
    return line
