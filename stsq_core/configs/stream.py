"""The transformer of one stream (the config): tokens and positions are embedded into the same m coordinates."""

from typing import ClassVar, Literal

from stsq_core.configs.architecture import Architecture
from stsq_core.configs.optimizer import PositiveFloat
from stsq_core.configs.task import PositiveInt, TokenTask


class StreamTransformer(Architecture):
    """One layer, one head, on a stream of `width` m: `h_t = A x_t + b_t`, and `f(X, y) = U sum_t p_t h_t`.

    The weights are `p = softmax_t(h_t^T W h_y)` with `h_y = sum_{t in y} b_t`. A is m x d, W m x m and U d x m; b_t are T rows
    in R^m, trained where `positions` are `learned`, else kept. A starts with entries `N(0, 1/m)`, b_t uniform on the hypercube
    `{+-1/sqrt(m)}^m`, W and U at zero, or with entries `N(0, init_scale^2)` for `init_scale` above zero.

    No coordinate belongs to tokens or to positions, so the width holds no d by definition: that it needs `d + q log T` is to be
    found out. The two-room transformer is the case in which A and b_t have disjoint rows.
    """

    kind: Literal["stream_transformer"] = "stream_transformer"
    width_law: ClassVar[Literal["attention", "td_power"] | None] = "attention"
    needs_y: ClassVar[bool] = True
    free_sizes: ClassVar[tuple[Literal["T", "q"], ...]] = ("q",)
    width: PositiveInt
    """Length m of the stream."""
    positions: Literal["learned", "fixed"] = "learned"
    """Whether the codes of positions are trained."""
    init_scale: PositiveFloat | None = None
    """Standard deviation of the start of W and U; they start at zero where it is left out."""

    def num_parameters(self, task: TokenTask) -> int:
        m = self.width
        return m * m + 2 * task.d * m + task.T * m * (self.positions == "learned")

    def multiplications(self, task: TokenTask) -> float:
        m, d = self.width, task.d
        return float(m * m + 2 * d * m + 2 * task.T * (d + m))

    def activations(self, task: TokenTask) -> float:
        return float(4 * task.T + 4 * self.width + 3 * task.d)
