"""Tables and lines for a pipe."""

import io

import pytest

from cluster.run.terminal import out, print_table, table


def test_a_piped_table_has_no_blanks_at_the_ends_of_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stdout", stream)
    print_table(out(), table(("name", "note"), [("a long name", ""), ("b", "said of it"), ("c", None)], right=("note",)))
    assert stream.getvalue().splitlines() == ["name               note", "a long name", "b            said of it", "c"]
