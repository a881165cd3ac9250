"""What a sweep file says of a threshold search: the widths to search, and how."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from stsq_core.configs import MAX_SIZE, Record, as_tuple, shown
from sweeps.schema.errors import FieldError

SamplerName = Literal["threshold", "tpe", "gp", "random", "grid"]


_SERVER = re.compile(r"(grpc|postgresql(\+\w+)?|mysql(\+\w+)?)://[^?]+")


def storage_beyond_a_file(url: object) -> str | None:
    """Why a sweep file may not name this storage; None where it may.

    A sweep file is data that others may have written, and a storage URL can name any file of this machine, to be written as a
    database or read as a driver's options. So a file names servers only, and a user names the rest with `--set`.
    """
    if not isinstance(url, str) or _SERVER.fullmatch(url):
        return None
    return (
        f"a sweep file may name a server only (grpc://HOST:PORT, postgresql://... or mysql://..., without options after '?'); "
        f"got {shown(without_password(url))}: leave it out, and give it on the command line: --set 'search.storage=URL'"
    )


_PASSWORD = re.compile(r"(?<=://)([^/:@]*):(.*)@")
PASSWORD_IN = "STSQ_STORAGE_PASSWORD"
"""The environment variable of a storage's password; with `_FILE` after it, of the path of a file that holds it."""


def without_password(url: str) -> str:
    """A URL without the password of its user."""
    return _PASSWORD.sub(r"\1@", url)


def _holds_no_password(url: str) -> str:
    if (bare := without_password(url)) != url:
        raise ValueError(
            f"a password would be written to the run directory and shown in lists of jobs: set {PASSWORD_IN} (or "
            f"{PASSWORD_IN}_FILE, the path of a file that holds it) and give {shown(bare)}"
        )
    return url


Searched = Literal["d_e", "m"]


class WidthRange(Record):
    """The widths, both ends included, among which the threshold of each cell is searched.

    An end that is left out follows from the law of the cell's threshold (`sweeps.cells.searched`).
    """

    of: Searched = "m"
    """Whether the ends are widths m, or lengths d_e of the code, so that m runs from d + low to d + high."""
    low: int | None = None
    """The least width, included; from the law of the threshold where it is left out."""
    high: int | None = None
    """The greatest width, included; from the law of the threshold where it is left out."""

    @model_validator(mode="after")
    def _ends_in_order(self) -> Self:
        for name, end in (("low", self.low), ("high", self.high)):
            if end is not None and not 1 <= end <= MAX_SIZE:
                problem = f"a width is a whole number of units from 1 to {MAX_SIZE}; got {name}={shown(end)}"
                raise FieldError((name,), f"{problem}: use {name}: {1 if end < 1 else MAX_SIZE}, or a number between")
        if self.low is not None and self.high is not None and self.high <= self.low:
            raise FieldError(
                ("high",),
                f"high must exceed low; got low={self.low}, high={self.high}: raise high, or declare a grid of widths",
            )
        return self


LawName = Literal[
    "attention", "attention_offset", "attention_factor", "attention_free", "attention_ratio", "excess_power", "excess_q_power",
    "td_power", "T_power", "fcn_line",
]  # fmt: skip
"""Laws of the width (docs/laws.md)."""


class DecideSettings(Record):
    """Laws between which a search is to decide: round by round it asks the `cells` that tell them apart best.

    The cells of a family (all that agree in everything but T, q and d) are the candidates. It ends when one law is `odds` times
    as probable as the next, or after `points` points of the family.
    """

    between: Annotated[tuple[LawName, ...], Field(min_length=2), BeforeValidator(as_tuple)] = (
        "attention", "attention_offset", "excess_q_power",
    )  # fmt: skip
    """Rival laws by their names."""
    odds: Annotated[float, Field(gt=1, le=1e6)] = 20.0
    """How many times as probable as the next the leading law must be."""
    points: Annotated[int, Field(ge=2, le=1_000_000)] = 600
    """The most points of a family."""
    cells: Annotated[int, Field(ge=1, le=1000)] = 2
    """Cells that get a round of points at the same time."""

    @model_validator(mode="after")
    def _each_law_once(self) -> Self:
        if twice := [name for place, name in enumerate(self.between) if name in self.between[:place]]:
            raise FieldError(("between",), f"every law stands once; {twice[0]} stands there twice")
        return self


class SearchSettings(Record):
    """How thresholds are searched, in rounds of points.

    The password of a storage comes from the environment (`PASSWORD_IN`); a sweep file names a server only, see
    `storage_beyond_a_file`.
    """

    sampler: SamplerName = "threshold"
    """Who chooses widths: threshold is ours, the others are Optuna's."""
    batch: Annotated[int, Field(ge=2, le=1000)] = 8
    """Points of a round."""
    cap: Annotated[int, Field(ge=2, le=100_000)] = 96
    """The most points of a cell."""
    tolerance: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """A search ends when the interval is within this share of the threshold (or one unit) on either side."""
    tolerance_of: Searched = "d_e"
    """What it is a share of: the length d_e where the width is m = d + d_e, or m."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Says which seeds the points get: another number repeats a search on fresh ones."""
    storage: Annotated[str, AfterValidator(_holds_no_password)] | None = None
    """An Optuna storage URL or grpc://HOST:PORT, without a password; the studies lie in the run directory where it is left
    out.
    """
    decide: DecideSettings | None = None
    """Laws between which the search is to decide; tolerance then ends no search."""

    @model_validator(mode="after")
    def _one_batch_fits(self) -> Self:
        if self.cap < self.batch:
            raise FieldError(
                ("cap",),
                f"cap must be at least batch, the points of one round; got cap={self.cap}, batch={self.batch}: raise cap",
            )
        if self.decide is not None and self.decide.points < self.batch:
            raise FieldError(
                ("decide", "points"),
                f"points must be at least batch, the points of one round; got points={self.decide.points}, batch={self.batch}: "
                "raise points",
            )
        return self
