"""Which `Examples` are those of a task."""

from typing import Any, Protocol, cast, runtime_checkable

from stsq_core.configs import Moment, Qstr, SelectedMean, SimpleQstr, SparseBoolean, Stsq, Task, TokenTask, missing_case
from stsq_core.tasks.boolean import BooleanExamples
from stsq_core.tasks.examples import Examples
from stsq_core.tasks.retrieval import RetrievalExamples
from stsq_core.tasks.selected_tokens import MomentExamples, SelectedMeanExamples
from stsq_core.tasks.selection import StsqExamples


@runtime_checkable
class PluginTask(Protocol):
    """A plugin's task makes its examples in a method."""

    def examples(self) -> Examples[Any]: ...


def examples_of(task: TokenTask) -> Examples[Any]:
    """The samples of a task, and the loss of what a model makes of them."""
    if isinstance(task, PluginTask):
        return task.examples()
    own = cast(Task, task)
    match own:
        case Stsq():
            return StsqExamples(own)
        case SelectedMean():
            return SelectedMeanExamples(own)
        case Moment():
            return MomentExamples(own)
        case Qstr() | SimpleQstr():
            return RetrievalExamples(own)
        case SparseBoolean():
            return BooleanExamples(own)
        case _:
            raise missing_case(own, "stsq_core/tasks/choice.py: examples_of")
