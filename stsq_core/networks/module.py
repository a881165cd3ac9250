"""A model that is a plain `torch.nn.Module`: k of them as one stack, by `torch.func`.

The module's constructor takes `width` and `task` (which has T, q and d), and whatever else has a default; `forward(X, y)` takes
tokens (batch, T, d) and the positions of y (batch, q), or (batch, R, q) of a task that asks for R of them, and answers
(batch, size) or (batch, R, size). Its start is PyTorch's own, drawn with the trial's seed.

The law of the pack. Products of torch's stacks round otherwise than those of one model in some shapes. So before a pack trains,
and again for every new shape, answers and gradients of the stack are compared with those of each trial computed alone; where a
bit differs, or `torch.func.vmap` cannot take the module, the trials of the pack are computed one after another.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, ClassVar, Literal

import torch
from pydantic import create_model
from torch.func import functional_call
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from stsq_core.configs import Architecture, PositiveInt, TokenTask, TrialConfig
from stsq_core.kernels import Kernels
from stsq_core.networks.network import Network
from stsq_core.numerics import Streams
from stsq_core.programs import Tensors
from stsq_core.tasks import Batch, Source

SIMPLE = (bool, int, float, str)
"""Types of the defaults of a constructor that a sweep file may set."""


class ModuleModel(Architecture):
    """A model whose arithmetic is a `torch.nn.Module` of the width `width`."""

    module_type: ClassVar[type[torch.nn.Module]]
    network_type: ClassVar[type[Network]]
    width: PositiveInt

    def network(self) -> type[Network]:
        return self.network_type

    def num_parameters(self, task: TokenTask) -> int:
        return _num_parameters(self, task)

    def multiplications(self, task: TokenTask) -> float:
        """An estimate, as a module does not tell: each parameter once a token."""
        return float(self.num_parameters(task) * task.T)

    def made(self, task: TokenTask) -> torch.nn.Module:
        """A module of this model, started from torch's generator."""
        settings = {name: getattr(self, name) for name in type(self).model_fields if name != "kind"}
        return self.module_type(task=task, **settings)


@cache
def _num_parameters(model: ModuleModel, task: TokenTask) -> int:
    with torch.random.fork_rng(devices=[]):
        return sum(parameter.numel() for parameter in model.made(task).parameters())


def is_model(module_type: type[torch.nn.Module]) -> bool:
    """Whether a module's constructor takes a width and a task, and nothing else that has no default."""
    parameters = dict(inspect.signature(module_type.__init__).parameters)
    parameters.pop("self", None)
    open_ones = {name for name, one in parameters.items() if one.default is one.empty and one.kind not in (2, 4)}
    return {"width", "task"} <= parameters.keys() and open_ones <= {"width", "task"}


def model_of(module_type: type[torch.nn.Module], kind: str) -> type[ModuleModel]:
    """A model named `kind` of the module; numbers and words with defaults in its constructor become fields."""
    fields: dict[str, Any] = {"kind": (Literal[kind], kind)}
    for name, one in inspect.signature(module_type.__init__).parameters.items():
        if name not in ("self", "width", "task") and isinstance(one.default, SIMPLE):
            fields[name] = (type(one.default), one.default)
    names = {"module_type": module_type, "__module__": module_type.__module__, "__qualname__": module_type.__qualname__}
    network_type = type(module_type.__name__, (ModuleNetwork,), names)
    made = create_model(module_type.__name__, __base__=ModuleModel, __module__=module_type.__module__, **fields)
    made.module_type, made.network_type = module_type, network_type
    made.__doc__ = module_type.__doc__
    return made


class ModuleNetwork(Network):
    """k modules of one type."""

    module_type: ClassVar[type[torch.nn.Module]]

    def __init__(self, configs: tuple[TrialConfig, ...], *, kernels: Kernels, streams: Streams, dtype: torch.dtype) -> None:
        super().__init__(configs, kernels=kernels, streams=streams, dtype=dtype)
        modules = [self._made(config) for config in configs]
        self._module = modules[0]
        self._start = self._stack([_tensors(module, trained=True) for module in modules])
        self._constants = self._stack([_tensors(module, trained=False) for module in modules])
        self._reads_y = len(inspect.signature(self._module.forward).parameters) > 1
        self._is_stacked: dict[object, bool] = {}
        if not self._start:
            raise ValueError("it has no parameter to train")

    def initial(self) -> Tensors:
        return {name: value.clone() for name, value in self._start.items()}

    def outputs(self, parameters: Tensors, batch: Batch, source: Source) -> torch.Tensor:
        def found(way: Way) -> list[torch.Tensor]:
            return [way(parameters, batch)]

        (outputs,) = self._by_the_law((batch.X.shape, torch.is_grad_enabled()), found)
        return outputs

    def learned(self, parameters: Tensors, batch: Batch, source: Source) -> tuple[torch.Tensor, Tensors]:
        def found(way: Way) -> list[torch.Tensor]:
            outputs, gradients = self.differentiated(lambda leaves: way(leaves, batch), parameters, batch)
            return [outputs, *gradients.values()]

        outputs, *gradients = self._by_the_law((batch.X.shape, "gradients"), found)
        return outputs, dict(zip(parameters, gradients, strict=True))

    def _by_the_law(self, shape: object, found: Callable[["Way"], list[torch.Tensor]]) -> list[torch.Tensor]:
        """What the stack finds if it has the bits of each trial alone, as a shape's first call tells; else what those do."""
        if self._is_stacked.get(shape):
            return found(self._together)
        alone = found(self._alone)
        if shape not in self._is_stacked:
            self._is_stacked[shape] = len(self.configs) > 1 and self._agrees(alone, found)
        return alone

    def _agrees(self, alone: list[torch.Tensor], found: Callable[["Way"], list[torch.Tensor]]) -> bool:
        try:
            together = found(self._together)
        except Exception:  # vmap's rules, of which there are many: what a module breaks is not its fault
            return False
        return all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))

    def _together(self, parameters: Tensors, batch: Batch) -> torch.Tensor:
        y = self._y_of(batch)
        samples = (batch.X,) if y is None else (batch.X, y)
        outputs: torch.Tensor = torch.vmap(partial(functional_call, self._module))({**self._constants, **parameters}, samples)
        return outputs.view_as(batch.target) if outputs.numel() == batch.target.numel() else outputs

    def _alone(self, parameters: Tensors, batch: Batch) -> torch.Tensor:
        """One trial after another, each in memory of its own, so that its place in the pack is not seen."""
        every = {**self._constants, **parameters}
        rows = zip(*(value.unbind() for value in every.values()), strict=True)
        y, answers = self._y_of(batch), []
        for place, row in enumerate(rows):
            own = {name: value.clone() for name, value in zip(every, row, strict=True)}
            samples = [values[place].clone() for values in (batch.X, y) if values is not None]
            answers.append(functional_call(self._module, own, tuple(samples)))
        outputs = torch.stack(answers)
        return outputs.view_as(batch.target) if outputs.numel() == batch.target.numel() else outputs

    def _y_of(self, batch: Batch) -> torch.Tensor | None:
        """The positions as `forward` takes them: without the axis R where that is 1."""
        if batch.y is None or not self._reads_y:
            return None
        return batch.y[:, :, 0] if batch.y.shape[2] == 1 else batch.y

    def _made(self, config: TrialConfig) -> torch.nn.Module:
        """The module of a trial, as its seed starts it."""
        assert isinstance(config.model, ModuleModel)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(config.seed)
            module = config.model.made(self.task).to(self.dtype)
        for name, part in module.named_modules():
            if (problem := _problem_of(part)) is not None:
                raise ValueError(f"{name or 'it'}, a {type(part).__name__}, {problem}")
        return module

    def _stack(self, tensors: Sequence[Tensors]) -> Tensors:
        return {name: torch.stack([own[name] for own in tensors]).to(self.kernels.device) for name in tensors[0]}


Way = Callable[[Tensors, Batch], torch.Tensor]
"""How the answers of a pack are computed."""


def _tensors(module: torch.nn.Module, *, trained: bool) -> Tensors:
    """The parameters of a module that are trained, or all else that it holds."""
    parameters = {name: one.detach() for name, one in module.named_parameters() if one.requires_grad == trained}
    return parameters if trained else parameters | dict(module.named_buffers())


def _problem_of(part: torch.nn.Module) -> str | None:
    """Why a part of a module cannot keep the law of the pack."""
    rate = getattr(part, "p", 0.0) if isinstance(part, _DropoutNd) else getattr(part, "dropout", 0.0)
    if isinstance(rate, float) and rate > 0:
        return "draws from torch's own generator, which the seed of a trial does not set: leave its dropout out"
    if isinstance(part, _NormBase):
        return "keeps averages over batches beside its parameters: use LayerNorm, which needs none"
    return None
