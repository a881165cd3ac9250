"""The kinds of task and of model that a trial takes: ours, a name each in a union, and those of plugins."""

from typing import Annotated

from pydantic import Field

from stsq_core.architecture import Fcn, Transformer
from stsq_core.attention import Attention
from stsq_core.boolean import SparseBoolean
from stsq_core.open_union import OpenUnion
from stsq_core.prompt_models import BitAttention, Ffn, Rnn, TransformerMlp
from stsq_core.retrieval import Qstr, SimpleQstr
from stsq_core.selected_tokens import Moment, SelectedMean
from stsq_core.task import Stsq

Task = Annotated[Stsq | SelectedMean | Moment | Qstr | SimpleQstr | SparseBoolean, Field(discriminator="kind")]
Model = Annotated[Transformer | Fcn | Attention | TransformerMlp | Rnn | Ffn | BitAttention, Field(discriminator="kind")]

TASKS = OpenUnion(Task, default="stsq")
MODELS = OpenUnion(Model)
