"""The parts that every section of the page is built from."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dashboards.page.interactive import Spec
from dashboards.words import Html, element, json_script, prose

MAX_ROWS = 400


@dataclass(frozen=True)
class Section:
    """One section: the name of its anchor, its title, its markup."""

    name: str
    title: str
    html: Html


def section(name: str, title: str, *content: object, class_: str | None = None, heading: bool = True) -> Section:
    head = element("h2", title) if heading else None
    return Section(name, title, element("section", head, *content, id=name, class_=class_, aria_label=title))


def lead(text: str) -> Html:
    return element("p", prose(text), class_="lead")


def plot_place(spec: Spec, words: str, *, style: str | None = None) -> list[Html]:
    """A place for a figure, and its data right behind it, where the page's script looks for them."""
    return [element("div", class_="plot", role="img", aria_label=words, style=style), json_script(spec)]


def key(kind: str, words: object, *, colour: str | None = None) -> Html:
    return element("span", element("i", class_=kind or None, style=colour and f"color:{colour}"), words)


def tag(status: str, words: str) -> Html:
    return element("span", words, class_=f"tag {status}")


def more(count: int, words: str) -> Html | None:
    return element("p", f"{count:,} more {words}.", class_="note") if count > 0 else None


def downloads(names: Iterable[str], wanted: Sequence[str] | None = None) -> Html:
    links = [element("a", name, href=name, download=name) for name in names if wanted is None or name in wanted]
    return element("ul", *(element("li", link) for link in links), class_="downloads")


def name_html(text: str) -> Html:
    """A cell's short name with its letters in italics."""
    return prose(re.sub(r"\b([Tqd]) = ", r"`\1` = ", text))
