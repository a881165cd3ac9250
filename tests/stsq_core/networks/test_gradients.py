"""Every network of prompts: its gradient is the slope of its objective, in float64."""

import pytest

QSTR = {"kind": "qstr", "T": 5, "q": 2, "d": 3, "link": "hermite2"}
SELECTION = {"kind": "stsq", "T": 5, "q": 2, "d": 3}
BITS = {"kind": "sparse_boolean", "T": 9, "q": 3, "function": "majority"}
PAIRS = [
    (QSTR, {"kind": "transformer_mlp", "heads": 2, "width": 7}),
    (SELECTION, {"kind": "transformer_mlp", "width": 7}),
    (QSTR, {"kind": "rnn", "width": 9}),
    (QSTR, {"kind": "rnn", "width": 9, "cell": "tanh", "bidirectional": False}),
    (SELECTION, {"kind": "rnn", "width": 9, "cell": "gru"}),
    (SELECTION, {"kind": "rnn", "width": 9, "cell": "relu"}),
    (QSTR, {"kind": "ffn", "tail_width": 8}),
    (SELECTION, {"kind": "ffn", "width": 6, "depth": 2}),
    (BITS, {"kind": "bit_attention", "width": 6}),
    (BITS, {"kind": "bit_attention", "width": 6, "answer_gap": 1.0, "readout_rate": 0.3}),
    (BITS, {"kind": "bit_attention", "width": 6, "keys": "positions", "mlp_width": 0}),
    (BITS, {"kind": "bit_attention", "width": 6, "values": "bits", "mlp_width": 5}),
    (BITS, {"kind": "ffn", "width": 6, "depth": 2}),
]


@pytest.mark.parametrize(("task", "model"), PAIRS, ids=lambda record: "-".join(str(v) for v in record.values()))
def test_the_gradient_is_the_slope_of_the_objective(program, slopes, task, model) -> None:
    printed, measured = slopes(program(task, model))
    assert printed == pytest.approx(measured, rel=1e-5, abs=1e-9)
    assert abs(printed) > 1e-4
