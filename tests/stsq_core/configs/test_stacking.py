"""The ladder of padded widths, and which trials may share a stack."""

from itertools import pairwise

from stsq_core.configs.stacking import rung, stack_key


def test_the_ladder_pads_by_at_most_a_quarter_beyond_sixteen() -> None:
    for width in range(1, 2000):
        padded = rung(width)
        assert padded >= width
        assert rung(padded) == padded
        assert padded <= width + 7 if width <= 16 else padded <= 1.25 * width
    assert all(a <= b for a, b in pairwise(rung(w) for w in range(1, 500)))


def test_seed_rate_optimizer_and_width_within_a_rung_share_a_stack(transformer, fcn) -> None:
    base = stack_key(transformer(d_e=17))
    assert stack_key(transformer(d_e=20, seed=3, optimizer={"kind": "gd", "lr": 1.0})) == base
    others = [
        transformer(d_e=21),
        transformer(d_e=17, T=13),
        transformer(d_e=17, training__steps=21),
        transformer(d_e=17, model__positions__query="sum"),
        transformer(d_e=17, model__positions__kind="gaussian"),
        fcn(width=17),
    ]
    assert all(stack_key(other) != base for other in others)
    full = [
        {"init": "zero"}, {"init": "gaussian"}, {"init": "gaussian", "init_scale": 0.1}, {"x_query": "gaussian"},
        {"attend_query": True},
    ]  # fmt: skip
    keys = [
        stack_key(transformer(training__objective="minibatch", **{f"model__{name}": value for name, value in fields.items()}))
        for fields in full
    ]
    assert len(set(keys)) == len(full)
    assert stack_key(fcn(width=17)) == stack_key(fcn(width=20)) != stack_key(fcn(width=17, model__depth=3))
