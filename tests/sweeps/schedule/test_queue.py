import math

import pytest

from stsq_core import TrialResult
from sweeps.cells.expanded_sweep import expand
from sweeps.cells.packs import Room
from sweeps.schedule.queue import Failure, PackOutcome, PackQueue
from sweeps.schedule.strategy import Grid, Strategy
from sweeps.store.ledger import Ledger, record_of_failure, record_of_result


@pytest.fixture
def ledger(run):
    return Ledger(run.ledger)


@pytest.fixture
def queue(spec, ledger):
    def make(**options):
        return PackQueue(Grid(expand(spec)), ledger, **{"room": Room(most=4), "slots": 2, **options})

    return make


@pytest.fixture
def ended(finished):
    def outcome(pack):
        return PackOutcome(pack, tuple(finished(config) for config in pack.configs))

    return outcome


def drain(queue, outcome):
    while (pack := queue.next()) is not None:
        queue.record(outcome(pack))


def ids(packs):
    return [trial_id for pack in packs for trial_id in pack.trial_ids]


def test_every_trial_ends_once_in_the_ledger(queue, ledger, ended):
    one = queue()
    assert (one.total, one.skipped, one.done, one.finished) == (21, 0, 0, False)
    drain(one, ended)
    assert (one.total, one.skipped, one.done, one.failed, one.diverged) == (21, 0, 21, 0, 0)
    assert one.finished
    assert len(ledger.read()) == 21 == len(ledger.path.read_text().splitlines())


def test_packs_run_while_others_are_handed_out(queue, ended):
    one = queue()
    first, second = one.next(), one.next()
    assert one.running == (first, second)
    one.record(ended(second))
    assert one.running == (first,)
    drain(one, ended)
    assert not one.finished
    assert one.next() is None
    one.record(ended(first))
    assert one.finished


def test_a_second_run_does_nothing(queue, ended):
    drain(queue(), ended)
    again = queue()
    assert again.next() is None
    assert again.finished
    assert (again.total, again.skipped, again.done) == (21, 21, 0)


def test_a_killed_run_goes_on_with_the_packs_that_it_had_begun(queue, ended):
    one = queue()
    one.record(ended(one.next()))
    begun = [one.next(), one.next()]
    again = queue()
    assert {pack.pack_id for pack in begun} <= {pack.pack_id for pack in again.waiting}
    assert again.skipped == 21 - len(ids(again.waiting))


def test_what_is_left_of_a_pack_is_packed_anew(queue, ledger, ended, record):
    whole = queue().waiting
    ledger.append([record(whole[0].configs[0], 0.5)])
    again = queue()
    assert sorted(ids(again.waiting)) == sorted(set(ids(whole)) - {whole[0].trial_ids[0]})
    assert again.skipped == 1


def test_a_failure_is_recorded_and_retried_on_request_only(queue, ledger, ended):
    one = queue()
    broken = one.next()
    one.record(PackOutcome(broken, failure=Failure("lost worker, 3 times", "lost_worker", seconds=8.0)))
    assert one.failed == one.done == len(broken.configs)
    drain(one, ended)
    failed = [record for record in ledger.read() if record.status == "failed"]
    assert {record.reason for record in failed} == {"lost worker, 3 times"}
    assert sum(record.seconds for record in failed) == pytest.approx(8.0)
    assert queue().waiting == ()
    retry = queue(retry_failed=True)
    assert sorted(ids(retry.waiting)) == sorted(broken.trial_ids)
    drain(retry, ended)
    assert {record.status for record in ledger.read()} == {"finished"}


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (Failure("needed 9 GiB", "out_of_memory", seconds=2.0), "out of memory: needed 9 GiB"),
        (Failure("ValueError: boom", "error", seconds=2.0), "ValueError: boom"),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_a_pack_that_failed_is_halved_until_one_trial_is_to_blame(queue, ledger, ended, failure, reason):
    one = queue()
    culprit = one.next().configs[1].trial_id
    again = queue()
    tried = []

    def outcome(pack):
        if culprit in pack.trial_ids:
            tried.append(len(pack.configs))
            return PackOutcome(pack, failure=failure)
        return ended(pack)

    drain(again, outcome)
    assert again.finished
    assert tried == sorted(tried, reverse=True)
    assert tried[-1] == 1
    assert len(tried) <= 1 + math.ceil(math.log2(tried[0]))
    failed = [record for record in ledger.read() if record.status == "failed"]
    assert [(record.trial_id, record.reason, record.seconds) for record in failed] == [(culprit, reason, 2.0)]
    assert (again.done, again.failed) == (21, 1)


def test_packs_that_fail_always_end_after_a_bounded_number_of_tries(queue, ledger):
    one = queue()
    sizes = []
    drain(one, lambda pack: sizes.append(len(pack.configs)) or PackOutcome(pack, failure=Failure("boom", "error")))
    assert one.finished
    assert sum(size == 1 for size in sizes) == 21
    assert len(sizes) <= 2 * 21
    assert len(ledger.path.read_text().splitlines()) == 21


def test_a_pack_too_large_for_a_worker_is_cut_and_the_rest_waits(queue, ledger, ended):
    one = queue()
    whole = one.waiting[0]
    part = one.next(Room(most=1))
    assert part.trial_ids == whole.trial_ids[:1]
    assert one.waiting[0].trial_ids == whole.trial_ids[1:]
    assert one.next(Room(most=99)).trial_ids == whole.trial_ids[1:]
    assert part.operations == pytest.approx(whole.operations / len(whole.trials))
    drain(one, ended)
    for pack in one.running:
        one.record(ended(pack))
    assert len(ledger.path.read_text().splitlines()) == 21


def test_the_cheapest_pack_comes_from_the_end(queue):
    one = queue()
    last = one.waiting[-1]
    assert one.next(Room(most=99), cheapest=True) == last
    assert last not in one.waiting


def test_a_pack_given_back_is_next_whole_and_leaves_no_record(queue, ledger):
    one = queue()
    pack = one.next()
    one.give_back(pack)
    assert one.next(Room(most=1)) == pack
    assert ledger.read() == ()


def test_a_pack_given_back_is_cut_where_it_does_not_fit_at_all(queue):
    one = queue()
    pack = one.next()
    one.give_back(pack)
    assert len(one.next(Room(memory_bytes=pack.memory_bytes / 2)).trials) < len(pack.trials)


def test_packs_with_a_state_on_disk_are_made_again_for_whatever_workers(queue, ended, record, ledger):
    begun = [queue(room=Room(most=3), slots=1).waiting[place] for place in (2, 0)]
    again = queue(room=Room(most=2), slots=7, begun=[pack.trial_ids for pack in begun])
    assert list(again.waiting[:2]) == begun
    assert sorted(ids(again.waiting)) == sorted(ids(queue().waiting))
    again.fit(room=Room(most=1), slots=1)
    assert list(again.waiting[:2]) == begun
    ledger.append([record(begun[0].configs[0], 0.5)])
    later = queue(begun=[pack.trial_ids for pack in begun])
    assert later.waiting[0] == begun[1]
    assert begun[0] not in later.waiting
    assert len(ids(later.waiting)) == 20


def test_waiting_packs_are_divided_for_workers_that_come(queue, ledger, ended):
    one = queue(slots=1)
    first = one.next()
    one.give_back(first)
    one.spread(12)
    assert len(one.waiting) == 12
    assert one.waiting[0] == first
    assert sorted(ids(one.waiting)) == sorted(ids(queue().waiting))
    one.spread(99)
    assert {len(pack.trials) for pack in one.waiting[1:]} == {1}
    drain(one, ended)
    assert len(ledger.read()) == 21


def test_what_the_ledger_held_is_counted_by_how_it_ended(queue, ledger, fcn, spec):
    first, second = (config for pack in queue().waiting[:2] for config in pack.configs[:1])
    broken = record_of_failure(first, "boom", pack_id="0" * 16, device="cpu")
    lost = record_of_result(TrialResult(second, "diverged", None, None, 3, 0.1), pack_id="0" * 16, device="cpu")
    ledger.append([broken, lost])
    assert (queue().failed_before, queue().diverged_before, queue().skipped) == (1, 1, 2)
    assert queue(retry_failed=True).failed_before == 0


def test_a_stopped_pack_leaves_no_record_and_waits_again(queue, ledger):
    one = queue()
    pack = one.next()
    one.record(PackOutcome(pack, failure=Failure("30 minutes are over", "budget")))
    assert one.waiting[0] == pack
    assert one.done == 0
    assert ledger.read() == ()


def test_results_of_other_trials_are_a_bug(queue, ended):
    one = queue()
    first, second = one.next(), one.next()
    with pytest.raises(ValueError, match="must end with one result for each of its trials"):
        one.record(PackOutcome(first, ended(second).results))


class OneByOne(Strategy):
    """Asks for the next trial when it has been told of the last."""

    def __init__(self, configs):
        self.left = list(configs)
        self.busy = None
        self.received = []

    def ask(self):
        if self.busy or not self.left:
            return ()
        self.busy = self.left.pop(0)
        return (self.busy,)

    def tell(self, records):
        self.received += [record.trial_id for record in records]
        if self.busy and self.busy.trial_id in self.received:
            self.busy = None

    @property
    def finished(self):
        return not self.left and not self.busy


def test_a_strategy_that_waits_is_asked_again_when_it_has_been_told(ledger, fcn, ended):
    configs = [fcn(seed=seed) for seed in range(3)]
    queue = PackQueue(OneByOne(configs), ledger)
    for config in configs:
        pack = queue.next()
        assert pack.trial_ids == (config.trial_id,)
        assert queue.next() is None
        assert not queue.finished
        queue.record(ended(pack))
    assert queue.finished
    assert queue.total == 3


def test_a_strategy_is_told_what_the_ledger_holds(ledger, fcn, ended, record):
    ledger.append([record(fcn(seed=7), 0.5)])
    strategy = OneByOne([])
    PackQueue(strategy, ledger)
    assert strategy.received == [fcn(seed=7).trial_id]


class AtOnce(OneByOne):
    """Asks for all trials."""

    def ask(self):
        asked, self.left = tuple(self.left), []
        return asked


def test_each_kind_of_loop_is_begun_before_a_second_pack_of_any(ledger, fcn, transformer):
    nets = [fcn(seed=seed, width=64, steps=5000) for seed in range(6)]  # the longest
    heads = [transformer(seed=seed) for seed in range(4)]
    queue = PackQueue(AtOnce([*nets, *heads]), ledger, room=Room(most=2), slots=2)
    kinds = [pack.trials[0].model.kind for pack in queue.waiting]
    assert kinds[:2] == ["fcn", "transformer"]
    assert sorted(kinds) == ["fcn"] * 3 + ["transformer"] * 2
    costs = [pack.operations for pack in queue.waiting]
    assert costs[1] < costs[2]
    assert costs[2:] == sorted(costs[2:], reverse=True)
    assert len(ids(queue.waiting)) == len(set(ids(queue.waiting))) == 10
