"""The README is short, and its glossary has every word that CONTRIBUTING lists."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_readme_is_read_in_a_few_minutes() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 1_200


def test_the_glossary_has_every_word_that_contributing_names() -> None:
    listed = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Words")[2].partition(":")[0]
    glossary = (ROOT / "README.md").read_text("utf-8").partition("## Glossary")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \|", glossary, flags=re.MULTILINE)
    assert {word.strip() for word in listed.split(",")} <= set(rows)
