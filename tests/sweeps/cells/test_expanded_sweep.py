"""Fields that a kind brings along by its defaults are named with their values."""

from sweeps.cells.expanded_sweep import ExpandedSweep
from sweeps.cells.loading import check_sweep
from sweeps.schema.overrides import apply_settings
from sweeps.schema.yaml_source import parse

TEXT = """\
name: codes
hypothesis: Codes differ.
trials:
  - name: codes
    base:
      task: {kind: stsq, T: 8, q: 2, d: 2}
      model: {kind: transformer, positions: {kind: random_sign}}
      optimizer: {kind: adam, lr: 0.03}
      training: {steps: 100}
    grid:
      task.T: [8, 12]
      model.positions.kind: [random_sign, gaussian, learned]
    search: {low: 4, high: 64}
"""
REDRAW = "positions.redraw by default (per_step for random_sign, gaussian; never for learned)"
QUERY = "positions.query by default (dual for random_sign, gaussian; sum for learned)"


def lines(*settings: str, text: str = TEXT) -> list[str]:
    return ExpandedSweep.of(check_sweep(apply_settings(parse(text, "codes.yaml"), settings)).spec).default_lines


def test_a_kind_of_code_brings_its_redraw_and_its_query() -> None:
    assert lines() == [f"positions.kind also varies {REDRAW} and {QUERY}"]


def test_what_the_file_writes_is_not_brought_along() -> None:
    assert lines("model.positions.query=dual") == [f"positions.kind also varies {REDRAW}"]
    assert lines("model.positions.query=dual", "model.positions.redraw=never") == []
    assert lines("model.positions.kind=random_sign,gaussian") == []
    assert lines("model.positions.kind=[random_sign]", "optimizer.kind=gd,adam") == []


def test_an_axis_of_whole_records_gives_what_all_of_them_write() -> None:
    records = "[{kind: random_sign, redraw: never}, {kind: learned}, {kind: sinusoidal, query: dual}]"
    whole = TEXT.replace("model.positions.kind: [random_sign, gaussian, learned]", f"model.positions: {records}")
    assert lines(text=whole) == [
        "positions.kind also varies positions.query by default (dual for random_sign, sinusoidal; sum for learned)"
    ]
    written = whole.replace("{kind: learned}", "{kind: learned, query: dual}").replace("redraw: never", "query: dual")
    assert lines(text=written) == [
        "positions.kind also varies positions.redraw by default (per_step for random_sign; never for learned, sinusoidal)"
    ]
