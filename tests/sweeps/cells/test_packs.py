import math

import pytest
from hypothesis import given, settings, strategies as st

from stsq_core import TrialConfig
from stsq_core.configs.stacking import stack_key
from stsq_core.training.cost import CALL_EFFORT, GPU_FIXED_BYTES, memory_bytes, step_cost
from sweeps.cells.packs import CALLS_SHARE, MEMORY_SHARE, Room, cut, halves, make_packs, pack_of

trials = st.lists(
    st.tuples(
        st.integers(1, 70), st.integers(0, 3), st.sampled_from([0.1, 0.2]), st.sampled_from([4, 9]), st.sampled_from([10, 20])
    ),
    max_size=60,
)


def config(width, seed, lr, T, steps):
    return TrialConfig.model_validate(
        {
            "task": {"T": T, "q": 2, "d": 2},
            "model": {"kind": "fcn", "width": width},
            "optimizer": {"kind": "adam", "lr": lr},
            "training": {"steps": steps},
            "seed": seed,
        }
    )


def with_batches(config, **training):
    return config.model_copy(update={"training": config.training.model_copy(update=training)})


@settings(deadline=None, max_examples=60)
@given(trials, st.integers(1, 40), st.integers(1, 5))
def test_packs_partition_the_trials(printed, max_size, slots):
    configs = [config(*one) for one in printed]
    packs = make_packs(configs, room=Room(most=max_size), slots=slots)
    packed = [trial_id for pack in packs for trial_id in pack.trial_ids]
    assert sorted(packed) == sorted({one.trial_id for one in configs})
    for pack in packs:
        assert 1 <= len(pack.configs) <= max_size
        assert len({stack_key(one) for one in pack.configs}) == 1
    assert len({pack.pack_id for pack in packs}) == len(packs)
    assert [pack.operations for pack in packs] == sorted((pack.operations for pack in packs), reverse=True)
    assert packs == make_packs(configs, room=Room(most=max_size), slots=slots)


def test_packs_of_a_stack_are_balanced_and_keep_its_order(fcn):
    configs = [fcn(seed=seed) for seed in range(40)]
    packs = make_packs(configs, room=Room(most=32))
    assert sorted(len(pack.configs) for pack in packs) == [20, 20]
    assert [one for pack in sorted(packs, key=lambda pack: pack.configs[0].seed) for one in pack.configs] == configs


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 40), st.integers(1, 39))
def test_a_cut_gives_an_equal_part_and_the_rest(size, most):
    pack = pack_of(config(8, seed, 0.1, 4, 10) for seed in range(size))
    most = min(most, size - 1)
    part, rest = cut(pack, most)
    assert part.trial_ids + rest.trial_ids == pack.trial_ids
    num_parts = math.ceil(size / most)
    assert math.floor(size / num_parts) <= len(part.trials) <= most
    assert math.ceil(len(rest.trials) / most) == num_parts - 1
    for one in (part, rest):
        again = pack_of(one.configs)
        assert again.pack_id == one.pack_id
        assert again.operations == pytest.approx(one.operations)
        assert again.memory_bytes == pytest.approx(one.memory_bytes)


def test_what_fits_is_told_by_memory_alone(fcn):
    pack = pack_of(fcn(seed=seed) for seed in range(10))
    assert Room("cpu", pack.memory_bytes / MEMORY_SHARE, most=1).fits(pack)
    assert not Room("cpu", 0.9 * pack.memory_bytes / MEMORY_SHARE).fits(pack)
    assert not Room("cuda", GPU_FIXED_BYTES / MEMORY_SHARE).fits(pack)


def test_a_pack_longer_than_its_share_is_divided_among_the_slots(fcn):
    configs = [fcn(seed=seed) for seed in range(30)]
    assert [len(pack.configs) for pack in make_packs(configs, slots=1)] == [30]
    assert sorted(len(pack.configs) for pack in make_packs(configs, slots=4)) == [7, 7, 8, 8]
    assert len(make_packs(configs[:2], slots=8)) == 2


def test_a_pack_is_as_large_as_pays_and_fits(transformer, fcn):
    light, step = transformer(T=8, d_e=8), with_batches(transformer(T=32, d_e=32), objective="minibatch", batch_size=64)
    heavy = with_batches(fcn(2_000), batch_size=20_000)
    assert Room().pack_size(light) == 64
    assert Room().pack_size(heavy) == 8
    calls = CALL_EFFORT / Room().pack_size(step)
    assert calls <= CALLS_SHARE * step_cost(step).effort < 2 * calls
    assert Room("cuda").pack_size(light) == 2048
    assert Room("cuda").pack_size(heavy) == 256
    assert Room("cuda").pack_size(with_batches(transformer(64, T=200, d=5), objective="minibatch", batch_size=256)) == 512
    for device, fixed in (("cpu", 0.0), ("cuda", GPU_FIXED_BYTES)):
        five = (5.5 * memory_bytes(heavy, device) + fixed) / MEMORY_SHARE
        assert Room(device, five).pack_size(heavy) == 5
        assert Room(device, five / 100).pack_size(heavy) == 1
    assert len(make_packs([fcn(seed=seed) for seed in range(5000)], room=Room("cuda"))) == 3


def test_a_pack_is_named_by_its_trials_alone(fcn):
    assert pack_of([fcn(seed=1)]).pack_id == pack_of([fcn(seed=1)]).pack_id != pack_of([fcn(seed=2)]).pack_id
    assert len(pack_of([fcn()]).pack_id) == 16


def test_halves(fcn):
    pack = pack_of([fcn(seed=seed) for seed in range(5)])
    first, second = halves(pack)
    assert first.configs + second.configs == pack.configs
    assert {len(first.configs), len(second.configs)} == {2, 3}
    assert halves(pack_of([fcn()])) == ()
