"""One training step of a stack, again and again: as calls, or on a GPU as one CUDA graph that is captured once and replayed.

A step of tiny models is some thirty launches of a few microseconds each; launched from Python they would take longer than they
compute. A graph replays them without the host. A stepper serves the trials that were in the stack when it was made: when one
leaves, another takes its place.
"""

import functools
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch

from stsq_core.programs import FusedProgram, Program, Tensors
from stsq_core.training.descent import Descent

Work = Callable[[], None]
Capture = Callable[[Work, Work], Work]
"""From a rehearsal, which changes nothing, and the work: what does the work when it is called."""

_logger = logging.getLogger(__name__)


class Stepper(ABC):
    """Updates the parameters and moments of a stack in place."""

    @abstractmethod
    def advance(self, step: int) -> torch.Tensor:
        """Take the step that follows `step` earlier ones.

        Returns:
            Each trial's loss before the update, (k,), on the device; good until the next step.
        """

    def advance_by(self, step: int, count: int) -> None:
        """Take so many steps, of whose losses nobody asks."""
        for place in range(step, step + count):
            self.advance(place)


class EagerStepper(Stepper):
    """Calls."""

    def __init__(self, program: Program, descent: Descent, parameters: Tensors, moments: Tensors) -> None:
        self._program, self._parameters = program, parameters
        self._update = descent.bound(parameters, moments)

    def advance(self, step: int) -> torch.Tensor:
        losses, gradients = self._program.gradients(self._parameters, step)
        self._update(gradients, step)
        return losses


class FusedStepper(Stepper):
    """One call for the gradients and updates of several steps, a trial at a time."""

    def __init__(self, program: FusedProgram, descent: Descent, parameters: Tensors, moments: Tensors) -> None:
        rates = descent.rate_table
        assert rates is not None
        self._run = program.runner(parameters, moments, rates)

    def advance(self, step: int) -> torch.Tensor:
        return self._run(step, 1)

    def advance_by(self, step: int, count: int) -> None:
        self._run(step, count)


class GraphStepper(Stepper):
    """A captured step, which counts for itself: nothing is sent to the device and nothing awaited.

    Raises:
        RuntimeError: if the step cannot be captured.
    """

    def __init__(
        self, program: Program, descent: Descent, parameters: Tensors, moments: Tensors, *, step: int, capture: Capture
    ) -> None:
        count = torch.full((1,), step, dtype=torch.int64, device=program.device)
        self._losses = torch.zeros(len(program.configs), dtype=program.dtype, device=program.device)

        def work() -> None:
            losses, gradients = program.gradients(parameters, count)
            descent.update(parameters, gradients, moments, count)
            self._losses.copy_(losses)
            count.add_(1)

        def rehearsal() -> None:
            _, gradients = program.gradients(parameters, count)
            descent.update(_copies(parameters), gradients, _copies(moments), count)

        self._replay = capture(rehearsal, work)

    def advance(self, step: int) -> torch.Tensor:
        self._replay()
        return self._losses


def stepper_for(program: Program, descent: Descent, parameters: Tensors, moments: Tensors, *, step: int) -> Stepper:
    """The quickest stepper for a stack; a step that cannot be captured is called, and said so once."""
    if program.kernels.capturable and program.device.type == "cuda":
        try:
            return GraphStepper(program, descent, parameters, moments, step=step, capture=captured)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            _warn_once(f"no CUDA graph of a step, which is slower: {type(error).__name__}: {error}")
    if isinstance(program, FusedProgram) and program.fused and descent.rate_table is not None:
        return FusedStepper(program, descent, parameters, moments)
    return EagerStepper(program, descent, parameters, moments)


def captured(rehearsal: Work, work: Work) -> Work:
    """The work as a CUDA graph.

    The rehearsal runs first, on a stream of its own, because what happens once (builds, workspaces, handles) must not happen
    while the device records.
    """
    here = torch.cuda.current_stream()
    elsewhere = _stream_beside(here.device_index)
    elsewhere.wait_stream(here)
    with torch.cuda.stream(elsewhere):
        rehearsal()
    here.wait_stream(elsewhere)
    graph = torch.cuda.CUDAGraph()
    try:
        # By default a call to CUDA from any other thread of the process would break the capture.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            work()
    finally:
        torch.cuda.set_stream(here)  # a capture that fails stays on its own
    return graph.replay


@functools.cache
def _stream_beside(device: int) -> torch.cuda.Stream:
    """One stream a device for all rehearsals, because each stream keeps a workspace of matrix products for ever."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def _copies(tensors: Tensors) -> Tensors:
    return {name: tensor.clone() for name, tensor in tensors.items()}


_warned: set[str] = set()


def _warn_once(message: str) -> None:
    if message not in _warned:
        _warned.add(message)
        _logger.warning(message)
