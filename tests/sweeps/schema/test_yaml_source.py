import pytest
from hypothesis import given, settings, strategies as st

from stsq_core import UserError
from sweeps.schema.yaml_source import dump, parse

texts = st.text(st.characters(codec="utf-8"), max_size=12)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
inner = st.recursive(scalars, lambda item: st.lists(item, max_size=3) | st.dictionaries(texts, item, max_size=3), max_leaves=6)
trees = st.dictionaries(texts, inner, max_size=3)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1E3", 1000.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("-.inf", float("-inf")),
        ("012", 12),
        ("0x1F", 31),
        ("0o17", 15),
        ("-3", -3),
        ("yes", "yes"),
        ("on", "on"),
        ("1_000", "1_000"),
        ("2026-01-02", "2026-01-02"),
        ("12:30", "12:30"),
        ("'1e-3'", "1e-3"),
        ("true", True),
        ("~", None),
        ("", None),
    ],
)
def test_scalars_are_read_as_in_yaml_1_2(text, value):
    read = parse(f"[{text}]" if text else "[~]", "x.yaml").data[0]
    assert read == value
    assert type(read) is type(value)


@settings(deadline=None)
@given(trees)
def test_what_is_dumped_is_parsed_to_equal_data(data):
    assert parse(dump(data), "x.yaml").data == data


@pytest.mark.parametrize(
    "text", ["1e-3", "yes", "no", "12:30", "0o17", "null", "~", "", " padded ", "a: b", "# c", "line\nbreak", "\x85", "\u2028"]
)
def test_words_that_look_like_something_else_stay_words(text):
    assert parse(dump({"a": text, text: 1}), "x.yaml").data == {"a": text, text: 1}


def test_every_path_knows_its_line():
    document = parse("a: 1\nb:\n  c:\n    - 5\n    - {d: 6}\n", "x.yaml")
    assert document.place(("b", "c", 1, "d")) == "x.yaml:5: b.c.1.d"
    assert document.place(("a",)) == "x.yaml:1: a"
    assert document.place(("b", "c", 7, "missing")) == "x.yaml:3: b.c.7.missing"
    assert document.place(()) == "x.yaml:1"


MERGED = """\
one: &one
  a: 1
  b: {c: 2}
two: &two {a: 3, d: 4}
both:
  e: 5
  <<: [*one, *two]
  b: 6
last: {<<: *two, d: {f: 7}}
chain: {<<: {<<: *one, g: 8}, a: 9}
"""


def test_a_merge_gives_way_to_own_keys_and_an_earlier_one_goes_before_a_later_one():
    data = parse(MERGED, "x.yaml").data
    assert data["both"] == {"a": 1, "b": 6, "d": 4, "e": 5}
    assert data["last"] == {"a": 3, "d": {"f": 7}}
    assert data["chain"] == {"a": 9, "b": {"c": 2}, "g": 8}
    assert data["one"] == {"a": 1, "b": {"c": 2}}


def test_what_came_through_a_merge_stands_where_its_anchor_does():
    document = parse(MERGED, "x.yaml")
    lines = {path: document.place(path).split(":")[1] for path in document.origins}
    assert [lines["both", name] for name in "abde"] == ["2", "8", "4", "6"]
    assert [lines["last", "d"], lines["last", "d", "f"], lines["last", "a"]] == ["9", "9", "4"]
    assert [lines["chain", "b", "c"], lines["chain", "a"]] == ["3", "10"]
    assert ("both", "b", "c") not in lines  # the value that was replaced left no trace


def test_a_merge_of_merges_is_counted_as_what_it_repeats():
    levels = "\n".join(f"k{n}: &k{n} {{<<: [{', '.join([f'*k{n - 1}'] * 9)}]}}" for n in range(1, 9))
    with pytest.raises(UserError, match="more than 200000 values"):
        parse(f"k0: &k0 {{a: 1}}\n{levels}\n", "x.yaml")


def test_a_quoted_merge_key_and_a_value_are_words():
    assert parse("'<<': 1\na: <<\n", "x.yaml").data == {"<<": 1, "a": "<<"}
    assert parse(dump({"<<": {"a": 1}}), "x.yaml").data == {"<<": {"a": 1}}


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("a: 1\n<<: 3", "x.yaml:2: <<", "'<<' merges a mapping (<<: *anchor) or a list of mappings; got '3'"),
        ("l: &l [1]\np:\n  <<: [*l]", "x.yaml:3: p.<<", "or a list of mappings; got a list"),
        ("l: &l {a: 1}\np:\n  <<: *l\n  <<: *l", "x.yaml:4: p.<<", "given twice; keep one with a list: <<: [*one, *other]"),
        ("a: &a {b: {<<: *a}}", "x.yaml", "nested too deeply"),
        ("a: &a {<<: *a}", "x.yaml", "nested too deeply"),
        ("a: [1, 2", "x.yaml:1", "not valid YAML"),
        ("a: 1\n b: 2", "x.yaml:2", "not valid YAML"),
        ("a: 1\nb: 2\na: 3", "x.yaml:3: a", "given twice"),
        ("p:\n  a: 1\n  a: 3", "x.yaml:3: p.a", "given twice"),
        ("a: !!python/object/apply:os.system [echo]", "x.yaml:1", "plain data only"),
        ("a: !mine 3", "x.yaml:1", "plain data only"),
        ("? [1, 2]\n: 3", "x.yaml:1", "a key must be a word"),
        ("a: 1\n---\nb: 2", "x.yaml:2", "not valid YAML"),
        ("a: *nowhere", "x.yaml:1", "not valid YAML"),
        ("a: !!int many", "x.yaml:1", "is not a int"),
        ("a: &a [*a]", "x.yaml", "nested too deeply"),
        ("\0", "x.yaml", "not valid YAML"),
        ("[" * 2_000, "x.yaml", "nested too deeply"),
    ],
)
def test_bad_text_is_refused_with_its_line(text, place, problem):
    with pytest.raises(UserError) as caught:
        parse(text, "x.yaml")
    assert str(caught.value).startswith(place)
    assert problem in str(caught.value)


def test_anchors_that_ask_for_billions_of_values_are_refused():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    with pytest.raises(UserError, match="more than 200000 values"):
        parse("\n".join(lines), "x.yaml")
