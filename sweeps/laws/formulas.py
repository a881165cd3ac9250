"""The laws that width thresholds are held against: formulas `m(T, q, d; parameters)` with their exact derivatives.

Two shapes hold all of them. A `LinearLaw` is linear in its parameters, `m = offset + sum_k theta_k column_k`; a `PowerLaw` is
`m = offset + c weight scale^gamma`. Parameters are fitted without bounds, so the factor c of a power law stands as its
logarithm.

`LAWS` are the laws of the width that theory suggests, and their rivals. Thresholds of other sizes have no theory, so there the
question is how fast a threshold n grows (`letter_law`): not at all, with the logarithm of a letter L, with a power of it, or
with a power of its logarithm. The power `gamma` of `n = c (ln L)^gamma` compares growth with that of the logarithm: up to 1 it
is no faster. Thresholds that grow as L^p have a local gamma of p ln L.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from stsq_core.oracles import theory

LEAST_WIDTH = 1e-3
"""Where a law falls to nothing or below, its width is set to this, so that its logarithm stays a number."""


@dataclass(frozen=True)
class Tasks:
    """The letters of tasks, each [task], and the relative loss that counts as solved."""

    T: np.ndarray
    q: np.ndarray
    d: np.ndarray
    target_loss: float
    _known: dict[Callable[["Tasks"], np.ndarray], np.ndarray] = field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.T)

    def column(self, of: "Column") -> np.ndarray:
        """What a function says of the tasks, [task, ...], computed once; not to be written to."""
        if of not in self._known:
            self._known[of] = of(self)
        return self._known[of]

    def between(self) -> "Tasks":
        """Every combination of values between the least and the largest of each letter; whole numbers they need not be."""
        ends = [(letter.min(), letter.max()) for letter in (self.T, self.q, self.d)]
        grid = np.meshgrid(*(np.geomspace(low, high, 5 if low < high else 1) for low, high in ends))
        T, q, d = (column.ravel() for column in grid)
        return Tasks(T, q, d, self.target_loss)

    def take(self, places: np.ndarray) -> "Tasks":
        """Some of the tasks: places, or a mask."""
        known = {of: values[places] for of, values in self._known.items()}
        return Tasks(self.T[places], self.q[places], self.d[places], self.target_loss, known)


Column = Callable[[Tasks], np.ndarray]


@dataclass(frozen=True)
class Law(ABC):
    """A formula. `letters` are its parameters; those in `reported` are shown (not a constant that only absorbs others)."""

    name: str
    formula: str
    letters: tuple[str, ...]
    reported: tuple[str, ...]
    offset: Column

    @abstractmethod
    def widths(self, theta: np.ndarray, tasks: Tasks) -> tuple[np.ndarray, np.ndarray]:
        """Widths [..., task] at parameters [..., parameter], and their derivatives [..., task, parameter]."""

    @abstractmethod
    def start(self, widths: np.ndarray, tasks: Tasks) -> np.ndarray:
        """Parameters [parameter] near the best for these widths, by linear least squares on relative residuals."""

    @abstractmethod
    def design(self, tasks: Tasks) -> np.ndarray:
        """What must have full rank for all parameters to be identifiable, [task, parameter]."""

    @abstractmethod
    def origin(self, tasks: Tasks) -> np.ndarray:
        """What the design, times the parameters, is added to, [task]."""

    @abstractmethod
    def natural(self, theta: np.ndarray) -> np.ndarray:
        """Fitted parameters as the formula has them."""

    def logs(self, theta: np.ndarray, tasks: Tasks) -> tuple[np.ndarray, np.ndarray]:
        """Log widths and their derivatives, shaped as those of `widths`."""
        widths, slopes = self.widths(theta, tasks)
        widths, relative = np.maximum(widths, LEAST_WIDTH), np.empty(slopes.shape)
        for place in range(slopes.shape[-1]):  # much quicker than all at once along a short last axis
            np.divide(slopes[..., place], widths, out=relative[..., place])
        return np.log(widths), relative

    def is_defined(self, tasks: Tasks) -> bool:
        """Whether the law says something of every one of these tasks: a power of ln L has no value at L = 1."""
        with np.errstate(divide="ignore"):
            return bool(np.isfinite(self.design(tasks)).all())

    def is_identifiable(self, tasks: Tasks) -> bool:
        """Whether cells at these tasks determine every parameter."""
        design = self.design(tasks)
        length = np.sqrt(np.sum(design**2, axis=0))
        return bool(len(tasks) and np.all(length > 0) and np.linalg.matrix_rank(design / length, tol=1e-6) == len(self.letters))


@dataclass(frozen=True)
class LinearLaw(Law):
    """`m = offset + sum_k theta_k column_k`."""

    columns: tuple[Column, ...]

    def widths(self, theta: np.ndarray, tasks: Tasks) -> tuple[np.ndarray, np.ndarray]:
        design = self.design(tasks)
        return tasks.column(self.offset) + theta @ design.T, np.broadcast_to(design, (*theta.shape[:-1], *design.shape))

    def start(self, widths: np.ndarray, tasks: Tasks) -> np.ndarray:
        relative = self.design(tasks) / widths[:, None]
        theta: np.ndarray = np.linalg.lstsq(relative, 1 - self.offset(tasks) / widths, rcond=None)[0]
        return theta

    def design(self, tasks: Tasks) -> np.ndarray:
        return tasks.column(self._design)

    def _design(self, tasks: Tasks) -> np.ndarray:
        return np.stack([tasks.column(column) for column in self.columns], axis=-1)

    def origin(self, tasks: Tasks) -> np.ndarray:
        return self.offset(tasks)

    def natural(self, theta: np.ndarray) -> np.ndarray:
        return theta


@dataclass(frozen=True)
class PowerLaw(Law):
    """`m = offset + c weight scale^gamma`, with parameters (log c, gamma)."""

    scale: Column
    weight: Column

    def widths(self, theta: np.ndarray, tasks: Tasks) -> tuple[np.ndarray, np.ndarray]:
        x = np.log(self.scale(tasks))
        grown = self.weight(tasks) * np.exp(np.clip(theta[..., :1] + theta[..., 1:] * x, -60, 60))
        slopes = np.empty((*grown.shape, 2))
        slopes[..., 0] = grown
        np.multiply(grown, x, out=slopes[..., 1])
        return self.offset(tasks) + grown, slopes

    def start(self, widths: np.ndarray, tasks: Tasks) -> np.ndarray:
        above = np.maximum(widths - self.offset(tasks), 0.02 * widths) / self.weight(tasks)
        theta: np.ndarray = np.linalg.lstsq(self.design(tasks), np.log(above), rcond=None)[0]
        return theta

    def design(self, tasks: Tasks) -> np.ndarray:
        return np.stack([np.ones(len(tasks)), np.log(self.scale(tasks))], axis=-1)

    def origin(self, tasks: Tasks) -> np.ndarray:
        weights: np.ndarray = np.log(self.weight(tasks))
        return weights

    def natural(self, theta: np.ndarray) -> np.ndarray:
        return np.stack([np.exp(theta[..., 0]), theta[..., 1]], axis=-1)


def nothing(tasks: Tasks) -> np.ndarray:
    """The column of zeros."""
    return np.zeros(len(tasks))


def one(tasks: Tasks) -> np.ndarray:
    """The column of ones."""
    return np.ones(len(tasks))


def _d(tasks: Tasks) -> np.ndarray:
    return tasks.d


def _q_log_t(tasks: Tasks) -> np.ndarray:
    product: np.ndarray = tasks.q * np.log(tasks.T)
    return product


def _fcn_bound(tasks: Tasks) -> np.ndarray:
    """`T d (1 - r (T-1)/(T-q))`, at real T, q and d as at whole ones; beyond `1 <= q <= T` and `1 <= d` that of the end."""
    T, d = np.maximum(tasks.T, 1), np.maximum(tasks.d, 1)
    at = zip(T.tolist(), d.tolist(), np.clip(tasks.q, 1, T).tolist(), strict=True)
    return np.array([theory.fcn_width_bound(tasks.target_loss, T=T, d=d, q=q) for T, d, q in at])


ATTENTION = LinearLaw("attention", "m = d + b q ln T", ("b",), ("b",), _d, (_q_log_t,))
ATTENTION_OFFSET = LinearLaw("attention_offset", "m = b q ln T + const", ("b", "const"), ("b",), nothing, (_q_log_t, one))
ATTENTION_FACTOR = LinearLaw("attention_factor", "m = a d + b q ln T", ("a", "b"), ("a", "b"), nothing, (_d, _q_log_t))
ATTENTION_FREE = LinearLaw(
    "attention_free", "m = a d + b q ln T + c", ("a", "b", "c"), ("a", "b", "c"), nothing, (_d, _q_log_t, one)
)
ATTENTION_RATIO = LinearLaw(
    "attention_ratio", "m = d + b q ln(T/q)", ("b",), ("b",), _d, (lambda tasks: tasks.q * np.log(tasks.T / tasks.q),)
)
EXCESS_POWER = PowerLaw("excess_power", "m = d + c T^gamma", ("c", "gamma"), ("c", "gamma"), _d, lambda tasks: tasks.T, one)
EXCESS_Q_POWER = PowerLaw(
    "excess_q_power", "m = d + c q T^gamma", ("c", "gamma"), ("c", "gamma"), _d, lambda tasks: tasks.T, lambda tasks: tasks.q
)
T_POWER = PowerLaw("T_power", "m = c T^gamma", ("c", "gamma"), ("c", "gamma"), nothing, lambda tasks: tasks.T, one)
TD_POWER = PowerLaw(
    "td_power", "m = c (T d)^gamma", ("c", "gamma"), ("c", "gamma"), nothing, lambda tasks: tasks.T * tasks.d, one
)
FCN_LINE = LinearLaw("fcn_line", "m = s T d (1 - r (T-1)/(T-q))", ("s",), ("s",), nothing, (_fcn_bound,))

LAWS: tuple[Law, ...] = (
    ATTENTION, ATTENTION_OFFSET, ATTENTION_FACTOR, ATTENTION_FREE, ATTENTION_RATIO, EXCESS_POWER, EXCESS_Q_POWER, TD_POWER,
    T_POWER, FCN_LINE,
)  # fmt: skip
"""Of laws that are the same function on some cells, the first is kept."""


def applicable_laws(tasks: Tasks) -> tuple[Law, ...]:
    """The laws whose parameters these cells determine.

    With one d, a and c are not identifiable and `a d + c` is one constant; where d varies, a factor of it is left free.
    """
    left_out = ATTENTION_FACTOR if is_constant(tasks.d) else ATTENTION_OFFSET
    return tuple(law for law in LAWS if law is not left_out and law.is_identifiable(tasks))


def contains(richer: Law, plain: Law, tasks: Tasks) -> bool:
    """Whether a linear law can be what another is on these tasks, whatever that one's parameters: `a d + b q ln T` at a = 1."""
    return isinstance(richer, LinearLaw) and isinstance(plain, LinearLaw) and _spans(richer, plain, tasks)


def are_same(one: Law, other: Law, tasks: Tasks) -> bool:
    """Whether two laws are one function at these tasks: of one shape, with parameters that span the same values.

    Through no more different tasks than parameters every law passes, so then the tasks between them decide.
    """
    num = len(one.letters)
    if len(np.unique([tasks.T, tasks.q, tasks.d], axis=1).T) <= num:
        tasks = tasks.between()
    if type(one) is not type(other) or num != len(other.letters) or len(tasks) <= num:
        return False
    alike = isinstance(one, LinearLaw) or np.allclose(one.offset(tasks), other.offset(tasks))
    return alike and _spans(one, other, tasks)


def _spans(richer: Law, plain: Law, tasks: Tasks) -> bool:
    own = richer.design(tasks)
    beside = np.column_stack([own, plain.design(tasks), plain.origin(tasks) - richer.origin(tasks)])
    length = np.maximum(np.sqrt(np.sum(beside**2, axis=0)), LEAST_WIDTH)
    ranks = [np.linalg.matrix_rank(columns, tol=1e-6) for columns in (beside / length, own / length[: own.shape[1]])]
    return bool(ranks[0] == ranks[1])


def is_constant(values: np.ndarray | Sequence[float]) -> bool:
    """Whether all values are one."""
    return len(np.unique(values)) < 2


LETTERS = ("T", "q", "d")
CONSTANT = LinearLaw("constant", "m = c", ("c",), ("c",), nothing, (one,))
KINDS = ("log", "power", "log_power")
"""Kinds of growth with a letter that a claim can name."""


def letter_law(kind: str, letter: str) -> Law:
    """The law of one kind of growth with a letter: `log` (m = a + b ln L), `power` (m = c L^gamma) or `log_power`."""
    name = f"{kind}_{letter}"
    match kind:
        case "log":
            return LinearLaw(name, f"m = a + b ln {letter}", ("a", "b"), ("a", "b"), nothing, (one, _log(letter)))
        case "power":
            return PowerLaw(name, f"m = c {letter}^gamma", ("c", "gamma"), ("c", "gamma"), nothing, _value(letter), one)
        case "log_power":
            formula = f"m = c (ln {letter})^gamma"
            return PowerLaw(name, formula, ("c", "gamma"), ("c", "gamma"), nothing, _log(letter), one)
    raise ValueError(f"no kind of growth is named {kind!r}: use one of {', '.join(KINDS)}")


def applicable_letter_laws(tasks: Tasks) -> tuple[Law, ...]:
    """No growth, and every kind of growth with each letter that these tasks differ in and that determines the law.

    A law that says nothing of one of them, as a power of ln 1 does not, is left out.
    """
    varying = [letter for letter in LETTERS if not is_constant(getattr(tasks, letter))]
    laws = [CONSTANT, *(letter_law(kind, letter) for letter in varying for kind in KINDS)]
    return tuple(law for law in laws if law.is_defined(tasks) and law.is_identifiable(tasks))


def _value(letter: str) -> Callable[[Tasks], np.ndarray]:
    return lambda tasks: np.asarray(getattr(tasks, letter), dtype=float)


def _log(letter: str) -> Callable[[Tasks], np.ndarray]:
    return lambda tasks: np.asarray(np.log(getattr(tasks, letter)))
