"""The page as HTML: one file that needs no network, or a live one that its server keeps up to date."""

import base64
import gzip
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from string import Template

from dashboards.page.interactive import plotly_script
from dashboards.page.sections import PageSection, download_link
from dashboards.words import Html, element, joined, json_script, theme_pairs


@dataclass(frozen=True)
class Document:
    """A page before it is put into HTML."""

    title: str
    heading: Html
    sections: tuple[PageSection, ...]
    footer: Html

    @property
    def contents(self) -> Html:
        """Links to the sections."""
        links = (element("li", element("a", one.title, href=f"#{one.name}")) for one in self.sections)
        hidden = "hidden" if len(self.sections) < 2 else None
        return element("nav", element("ol", *links), id="contents", aria_label="Contents", hidden=hidden)

    @property
    def parts(self) -> dict[str, Html]:
        """What a live page replaces as it changes, by the id of its element, in order."""
        return {"heading": self.heading, "contents": self.contents, **{one.name: one.html for one in self.sections}}


def asset(name: str) -> str:
    """The text of a file of the page's own."""
    return (resources.files("dashboards") / "assets" / name).read_text("utf-8")


def static_html(document: Document, files: Mapping[str, bytes]) -> str:
    """The whole page in one file, with the `files` that it offers; its policy lets nothing load and no script run but its own.

    The files lie compressed in the page, whose script gives the links to them their addresses.
    """
    scripts = (plotly_script(), asset("figures.js"), asset("page.js"))
    policy = f"default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src {_hashes(scripts)}"
    packed = {name: base64.b64encode(gzip.compress(content, mtime=0)).decode() for name, content in files.items()}
    page = _filled(
        document,
        policy=element("meta", http_equiv="Content-Security-Policy", content=policy),
        style=element("style", Html(asset("page.css"))),
        scripts=joined(json_script(packed, id="files"), *(element("script", Html(text)) for text in scripts)),
    )
    for name in files:
        page = page.replace(str(download_link(name)), str(download_link(name, inside=True)))
    return page


def live_html(document: Document, hashes: Mapping[str, str], *, root: str) -> str:
    """The page as its server gives it: styles and scripts under `root`, and the hashes of its parts for its script."""
    scripts = ("plotly.js", "figures.js", "page.js", "live.js")
    return _filled(
        document,
        policy=json_script(list(hashes.items()), id="parts"),
        style=element("link", rel="stylesheet", href=f"{root}page.css"),
        scripts=joined(*(element("script", src=f"{root}{name}", defer="defer") for name in scripts)),
    )


def _filled(document: Document, *, policy: Html, style: Html, scripts: Html) -> str:
    return Template(asset("page.html")).substitute(
        policy=policy,
        title=element("title", document.title),
        style=style,
        heading=document.heading,
        contents=document.contents,
        sections=joined(*(one.html for one in document.sections)),
        footer=document.footer,
        theme=json_script(theme_pairs(), id="theme"),
        scripts=scripts,
    )


def _hashes(scripts: Sequence[str]) -> str:
    digests = (hashlib.sha256(text.encode(errors="surrogateescape")).digest() for text in scripts)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
