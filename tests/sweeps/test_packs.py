from hypothesis import given, settings
from hypothesis import strategies as st

from stsq_core import TrialConfig
from stsq_core.stacking import stack_key
from sweeps.packs import Room, halves, make_packs, pack_of

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


@settings(deadline=None, max_examples=60)
@given(trials, st.integers(1, 40), st.integers(1, 5))
def test_packs_partition_the_trials(told, max_size, slots):
    configs = [config(*one) for one in told]
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


def test_a_pack_longer_than_its_share_is_divided_among_the_slots(fcn):
    configs = [fcn(seed=seed) for seed in range(30)]
    assert [len(pack.configs) for pack in make_packs(configs, slots=1)] == [30]
    assert sorted(len(pack.configs) for pack in make_packs(configs, slots=4)) == [7, 7, 8, 8]
    assert len(make_packs(configs[:2], slots=8)) == 2


def test_a_pack_is_named_by_its_trials_alone(fcn):
    assert pack_of([fcn(seed=1)]).pack_id == pack_of([fcn(seed=1)]).pack_id != pack_of([fcn(seed=2)]).pack_id
    assert len(pack_of([fcn()]).pack_id) == 16


def test_halves(fcn):
    pack = pack_of([fcn(seed=seed) for seed in range(5)])
    first, second = halves(pack)
    assert first.configs + second.configs == pack.configs
    assert {len(first.configs), len(second.configs)} == {2, 3}
    assert halves(pack_of([fcn()])) == ()
