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

    `population` takes the expectation over X exactly (transformer from zero only), and samples subsets and codes that are
    redrawn; `minibatch` samples X too and trains all of W and V. `batch_size: all` takes every q-subset in every step: with
    `population` and codes that are not redrawn nothing is left to chance. With `num_samples` the training set is finite: so
    many samples, drawn once, of which every step takes a batch with replacement. `log_every` sets the steps at which a trial
    reports and is checked for divergence: by default about 20 times. `dtype: float64` is for comparing with the oracles. With
    `stop_at_target` a trial ends at the first evaluation that finds its loss at the evaluation's target: how many samples that
    took is known.
    """

    objective: Literal["population", "minibatch"] = "minibatch"
    batch_size: PositiveInt | Literal["all"] = 64
    steps: Annotated[int, Field(ge=1, le=MAX_STEPS)]
    log_every: Annotated[int, Field(ge=1, le=MAX_STEPS)] | None = None
    num_samples: Annotated[int, Field(ge=1, le=2**20)] | None = None
    dtype: Literal["float32", "float64"] = "float32"
    stop_at_target: bool = False

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
    are further numbers of tokens and subset sizes, each beside the task's other number. `describe` adds the attention mass
    on the subset, and norms and cosines of `W` and `V` (stsq_core.training.evaluation). With a `target` the trial tells as
    `samples_to_target` how many samples it had drawn when it was first measured at or below that relative loss.
    """

    samples: Annotated[int, Field(ge=4096, le=MAX_SIZE)] = 4096
    every: Annotated[int, Field(ge=1, le=MAX_STEPS)] | None = None
    T_test: Numbers = ()
    q_test: Numbers = ()
    describe: bool = False
    target: Annotated[float, Field(gt=0, lt=1)] | None = None

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
