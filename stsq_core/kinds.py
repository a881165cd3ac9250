"""The tasks and the models there are: a new one is a line here."""

from typing import Annotated

from pydantic import Field

from stsq_core.architecture import Fcn, Transformer
from stsq_core.attention import Attention
from stsq_core.selected_tokens import Moment, SelectedMean
from stsq_core.task import Stsq

Task = Annotated[Stsq | SelectedMean | Moment, Field(discriminator="kind")]

Model = Annotated[Transformer | Fcn | Attention, Field(discriminator="kind")]
