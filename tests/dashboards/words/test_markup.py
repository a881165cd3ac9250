"""Markup escapes every text, keeps what it made itself, and never lets data end a script element."""

import json
from html.parser import HTMLParser

from hypothesis import given, strategies as st

from dashboards.words.markup import Html, element, joined, json_script, table


class Texts(HTMLParser):
    """Collects elements and text, as a browser would see them."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[str | None] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [value for _, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


PRINTABLE = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\r\x00"))


@given(PRINTABLE, PRINTABLE)
def test_text_and_attributes_come_back_as_they_went_in(text: str, title: str) -> None:
    seen = Texts()
    seen.feed(element("p", text, title=title))
    seen.close()
    assert seen.tags == ["p"]
    assert seen.text == text
    assert seen.attributes == [title]


def test_markup_passes_and_everything_else_is_escaped() -> None:
    assert element("p", element("b", "<"), None, ["&", 3]) == "<p><b>&lt;</b>&amp;3</p>"
    assert joined("<script>", Html("<i>")) == "&lt;script&gt;<i>"


def test_an_absent_attribute_is_left_out() -> None:
    assert element("td", 1, class_=None, colspan=2) == '<td colspan="2">1</td>'


def test_data_cannot_end_its_script() -> None:
    text = json_script({"title": "</script><script>alert(1)</script>"}, id="x")
    assert text.count("</script>") == 1
    assert json.loads(text[text.index(">") + 1 : text.rindex("<")]) == {"title": "</script><script>alert(1)</script>"}


def test_a_table_tells_numbers_from_words() -> None:
    text = table({"name": "Name", "m": "#m"}, [{"name": "a<b", "m": 3}, {"name": "c"}])
    assert '<th class="number" scope="col">m</th>' in text
    assert '<td>a&lt;b</td><td class="number">3</td>' in text
    assert '<td>c</td><td class="number"></td>' in text
