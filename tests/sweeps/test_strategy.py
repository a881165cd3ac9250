from sweeps.plan import expand
from sweeps.strategy import Grid


def test_a_grid_asks_for_every_trial_once_and_is_finished(spec):
    cells = expand(spec)
    grid = Grid([*cells, cells[0]])
    assert not grid.finished
    asked = grid.ask()
    assert sorted(config.trial_id for config in asked) == sorted(config.trial_id for cell in cells for config in cell.configs)
    assert grid.ask() == ()
    grid.tell([])
    assert grid.finished
    assert Grid([]).finished
