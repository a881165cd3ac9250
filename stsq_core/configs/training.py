"""How a trial trains and what is measured of it (the configs)."""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from stsq_core.configs.record import Record, as_tuple
from stsq_core.configs.task import MAX_SIZE, PositiveInt

MAX_STEPS = 10**12

CHUNK = 64
"""Samples in one chunk of the evaluation; codes that are redrawn are redrawn once a chunk."""


class Training(Record):
    """How long and on what a trial trains.

    `population` with `batch_size: all` and codes that are not redrawn leaves nothing to chance. Of a finite training set every
    step takes a batch with replacement.
    """

    objective: Literal["population", "minibatch"] = "minibatch"
    """Whether steps take the expectation over X exactly (transformer from zero only), or sample X too and train all of W and
    V.
    """
    batch_size: PositiveInt | Literal["all"] = 64
    """Samples of a step; all takes every q-subset in every step."""
    steps: Annotated[int, Field(ge=1, le=MAX_STEPS)]
    """Number of steps."""
    log_every: Annotated[int, Field(ge=1, le=MAX_STEPS)] | None = None
    """Steps between two reports, at which divergence is noticed; about 20 reports where it is left out."""
    num_samples: Annotated[int, Field(ge=1, le=2**20)] | None = None
    """Size of a finite training set, drawn once; without it every step draws anew."""
    dtype: Literal["float32", "float64"] = "float32"
    """Precision; float64 is for comparing with the oracles."""
    stop_at_target: bool = False
    """Whether a trial ends at the first evaluation that finds its loss at the evaluation's target."""

    @property
    def report_steps(self) -> int:
        """Steps between two reports."""
        return self.log_every or max(1, self.steps // 20)


DESCRIBED = (
    "attention_mass",
    *("cosine_W", "cosine_W_centred", "cosine_V"),
    *("norm_W_XX", "norm_W_XE", "norm_W_EX", "norm_W_EE", "norm_V_X", "norm_V_E"),
)
"""The metrics that `describe` adds for some model or other (stsq_core.training.evaluation)."""

SAMPLES_TO_TARGET = "samples_to_target"
"""The metric of a trial whose evaluation has a target: samples drawn until it was first measured there, inf for never."""

Numbers = Annotated[tuple[PositiveInt, ...], BeforeValidator(as_tuple)]


class Evaluation(Record):
    """What is measured on `samples` fresh draws, never seen in training: the relative loss, and what else is asked for.

    It is measured after the last step and, where `every` is given, at steps 0, `every`, 2 `every`, ... `T_test` and `q_test`
    go each with the task's other number.
    """

    samples: Annotated[int, Field(ge=4096, le=MAX_SIZE)] = 4096
    """Fresh draws that are measured on."""
    every: Annotated[int, Field(ge=1, le=MAX_STEPS)] | None = None
    """Steps between two evaluations; without it one after the last step."""
    T_test: Numbers = ()
    """Further numbers of tokens to measure at."""
    q_test: Numbers = ()
    """Further subset sizes to measure at."""
    describe: bool = False
    """Whether the attention mass on the subset, and norms and cosines of W and V are measured."""
    target: Annotated[float, Field(gt=0, lt=1)] | None = None
    """A relative loss: the samples drawn until it was first measured are counted, as samples_to_target."""

    @model_validator(mode="after")
    def _target_is_looked_for(self) -> Self:
        if self.target is not None and self.every is None:
            raise ValueError(
                f"target is looked for at evaluations through training; got target={self.target} and no every: "
                "give every, the steps between two evaluations"
            )
        return self

    @property
    def num_chunks(self) -> int:
        """How many chunks of `CHUNK` hold the samples."""
        return -(-self.samples // CHUNK)

    @property
    def has_metrics(self) -> bool:
        """Whether more is asked for than the relative loss after the last step."""
        return self.every is not None or bool(self.T_test) or bool(self.q_test) or self.describe

    @property
    def metric_names(self) -> tuple[str, ...]:
        """What it may give, by name; its model decides which of `DESCRIBED` it gives."""
        suffixes = ("", *(f"@T={T}" for T in self.T_test), *(f"@q={q}" for q in self.q_test))
        losses = [f"{name}{suffix}" for suffix in suffixes for name in ("loss", "loss_stderr")]
        counted = () if self.target is None else (SAMPLES_TO_TARGET,)
        return (*losses, *(DESCRIBED if self.describe else ()), *counted)

    def due(self, step: int) -> bool:
        """Whether it is time to measure before a training step."""
        return self.every is not None and step % self.every == 0
