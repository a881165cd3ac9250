"""HTML that its content cannot break: text is escaped when it enters an element, and only elements pass unescaped."""

import html
import json
from collections.abc import Mapping, Sequence

VOID = frozenset({"br", "img", "hr", "link", "meta"})


class Html(str):
    """Markup made by this module, safe to put into a page unescaped."""

    __slots__ = ()


def element(name: str, *children: object, **attributes: object) -> Html:
    """An element with escaped children; None leaves an attribute out, and `class_` is so spelled as `class` is Python's."""
    spelled = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Html(f"<{name}{spelled}>")
    return Html(f"<{name}{spelled}>{joined(*children)}</{name}>")


def joined(*children: object) -> Html:
    """Children one after the other: markup as it is, lists flattened, None left out, everything else escaped."""
    return Html("".join(_text(child) for child in children))


def _text(child: object) -> str:
    match child:
        case None:
            return ""
        case Html():
            return child
        case list() | tuple():
            return joined(*child)
        case _:
            return html.escape(str(child))


def prose(text: str) -> Html:
    """A sentence of ours in which backquotes mark the letters of formulas: "`T` = 16" shows an italic T."""
    return joined(*(element("i", piece) if place % 2 else piece for place, piece in enumerate(text.split("`"))))


def json_script(value: object, **attributes: object) -> Html:
    """Data for the page's script; `<` is spelled as an escape so that no text in it can end the element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return element("script", Html(text), type="application/json", **attributes)


def table(columns: Mapping[str, str], rows: Sequence[Mapping[str, object]], **attributes: object) -> Html:
    """A table that scrolls sideways where the window is narrow.

    Args:
        columns: key of a row to the column's heading; a heading that starts with "#" is a column of numbers;
            formula letters stand in backquotes.
        rows: cells by key; what is missing shows as an empty cell.
    """
    heads = [
        element("th", prose(heading.removeprefix("#")), class_=_kind(heading), scope="col") for heading in columns.values()
    ]
    body = [
        element("tr", *(element("td", row.get(key), class_=_kind(heading)) for key, heading in columns.items())) for row in rows
    ]
    whole = element("table", element("thead", element("tr", *heads)), element("tbody", *body), **attributes)
    return element("div", whole, class_="scroll", tabindex="0")


def _kind(heading: str) -> str | None:
    return "number" if heading.startswith("#") else None
