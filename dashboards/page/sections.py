"""The parts that every section of the page is built from."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dashboards.page.interactive import Spec
from dashboards.words import Html, element, json_script, prose

MAX_ROWS = 400


@dataclass(frozen=True)
class PageSection:
    """One section of the page: the name of its anchor, its title, its markup."""

    name: str
    title: str
    html: Html


def page_section(name: str, title: str, *content: object, class_: str | None = None, heading: bool = True) -> PageSection:
    """A section; its title is in the list of contents, and above it as a `heading`."""
    head = element("h2", title) if heading else None
    return PageSection(name, title, element("section", head, *content, id=name, class_=class_, aria_label=title))


def lead_paragraph(text: str) -> Html:
    """What a section shows, in a few sentences below its title."""
    return element("p", prose(text), class_="lead")


def figure_element(spec: Spec, words: str, *, style: str | None = None) -> list[Html]:
    """The element of a figure, followed by its data for the page's script; `words` describe it to screen readers."""
    return [element("div", class_="plot", role="img", aria_label=words, style=style), json_script(spec)]


def legend_entry(kind: str, words: object, *, colour: str | None = None) -> Html:
    """An entry of a legend; `kind` is the class of its mark or line."""
    return element("span", element("i", class_=kind or None, style=colour and f"color:{colour}"), words)


def status_tag(status: str, words: str) -> Html:
    """A coloured label."""
    return element("span", words, class_=f"tag {status}")


def rest_note(count: int, words: str) -> Html | None:
    """A note on what a table or figure leaves out."""
    return element("p", f"{count:,} more {words}.", class_="note") if count > 0 else None


def downloads(names: Iterable[str], wanted: Sequence[str] | None = None) -> Html:
    """Links to the files of the page, of those names that are `wanted`."""
    links = [download_link(name) for name in names if wanted is None or name in wanted]
    return element("ul", *(element("li", link) for link in links), class_="downloads")


def download_link(name: str, *, inside: bool = False) -> Html:
    """A link to a file beside the page, or to one `inside` it."""
    return element("a", name, **({"data_file": name} if inside else {"href": name}), download=name)


def name_html(text: str) -> Html:
    """A cell's short name with its letters in italics."""
    return prose(re.sub(r"\b([A-Za-z]) = ", r"`\1` = ", text))
