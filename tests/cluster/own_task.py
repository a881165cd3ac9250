"""A plugin's task that is sparse token selection but for something that it does before each batch is drawn."""

import textwrap
from pathlib import Path

_PLUGIN = """
import time
from pathlib import Path
from typing import Literal

from stsq_core.plugins import Batch, Examples, Source, TokenTask, selected


class OwnTask(TokenTask):
    kind: Literal["KIND"] = "KIND"

    def examples(self) -> "OwnExamples":
        return OwnExamples(self)


class OwnExamples(Examples[OwnTask]):
    @property
    def output_size(self) -> int:
        return self.task.d

    @property
    def zero_loss(self) -> float:
        return self.task.d / self.task.q

    def batch(self, source: Source, count: int) -> Batch:
BEFORE
        X = source.normals("tokens", 1, count * self.task.T * self.task.d).view(-1, count, self.task.T, self.task.d)
        y = source.subsets("subsets", count, T=self.task.T, q=self.task.q)
        return Batch(X, y.unsqueeze(2), selected(X, y).mean(2, keepdim=True))
"""


def plugin_text(kind: str, before: str) -> str:
    """The text of a plugin whose task is of a kind; `before` is code, which has `time` and `Path`."""
    return _PLUGIN.replace("KIND", kind).replace("BEFORE", textwrap.indent(textwrap.dedent(before).strip(), 8 * " "))


def held_text(hold: Path) -> str:
    """The text of a plugin whose task `held` has steps of a tenth of a second while a file exists, however fast the machine."""
    return plugin_text("held", f"if Path({str(hold)!r}).exists():\n    time.sleep(0.1)")
