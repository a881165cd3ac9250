"""`stsq list --kinds`: the tasks, models, codes and optimizers that a sweep file may name, and where they come from."""

import re
from collections.abc import Iterable

from pydantic import BaseModel
from rich.console import Console

from cluster.run import print_table, table
from stsq_core.configs import MODELS, TASKS, TrialConfig, kind_of, plugin_of, records_of


def show_kinds(console: Console) -> None:
    """Print every kind with the first sentence of its docstring and its source: stsq, or a plugin."""
    positions = [
        code for model in MODELS.records if "positions" in model.model_fields for code in records_of(model, "positions")
    ]
    kinds: dict[str, Iterable[type[BaseModel]]] = {
        "task": TASKS.records,
        "model": MODELS.records,
        "positions": dict.fromkeys(positions),
        "optimizer": records_of(TrialConfig, "optimizer"),
    }
    rows = [
        (field, kind_of(record), _first_sentence(record), _source(record)) for field, own in kinds.items() for record in own
    ]
    print_table(console, table(("field", "kind", "what it is", "from"), rows))


def _first_sentence(record: type[BaseModel]) -> str:
    """The first sentence of its own docstring, without its full stop; nothing where it has none."""
    paragraph = (vars(record).get("__doc__") or "").strip().partition("\n\n")[0]
    return re.split(r"(?<! al)\.(?:\s|$)", " ".join(paragraph.split()), maxsplit=1)[0]


def _source(record: type[BaseModel]) -> str:
    plugin = plugin_of(record)
    return f"plugin {plugin[0]}" if plugin else "stsq"
