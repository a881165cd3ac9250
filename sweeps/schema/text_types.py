"""Names and sentences in a sweep file."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field


def _slug(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise ValueError(f"a name begins with a letter or digit and holds letters, digits, '_', '.' and '-' only; got {name!r}")
    return name


def _words(text: str) -> str:
    if not text.strip():
        raise ValueError("this must say something in words; got nothing")
    return text


Slug = Annotated[str, Field(max_length=64), AfterValidator(_slug)]
Words = Annotated[str, AfterValidator(_words)]
