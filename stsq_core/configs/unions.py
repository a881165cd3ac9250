"""The kinds of task, model, code and optimizer that a trial takes: ours, a name each in a union, and those of plugins."""

from typing import Annotated

from pydantic import Field

from stsq_core.configs.architecture import Fcn, Transformer
from stsq_core.configs.attention import Attention
from stsq_core.configs.boolean import SparseBoolean
from stsq_core.configs.open_union import OpenUnion
from stsq_core.configs.optimizer import OPTIMIZERS
from stsq_core.configs.positions import POSITIONS
from stsq_core.configs.prompt_models import BitAttention, Ffn, Rnn, TransformerMlp
from stsq_core.configs.retrieval import Qstr, SimpleQstr
from stsq_core.configs.selected_tokens import Moment, SelectedMean
from stsq_core.configs.stream import StreamTransformer
from stsq_core.configs.task import Stsq

Task = Annotated[Stsq | SelectedMean | Moment | Qstr | SimpleQstr | SparseBoolean, Field(discriminator="kind")]
Model = Annotated[
    Transformer | Fcn | StreamTransformer | Attention | TransformerMlp | Rnn | Ffn | BitAttention, Field(discriminator="kind")
]

TASKS = OpenUnion(Task, default="stsq")
MODELS = OpenUnion(Model)

UNIONS = {"task": TASKS, "model": MODELS, "positions": POSITIONS, "optimizer": OPTIMIZERS}
"""What a plugin can add kinds to, by the field that takes them."""
