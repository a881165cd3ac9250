"""Changes to a sweep from the command line: `--set task.T=16,32`, `--set NAME:model.width=8`, `--set seeds=5`, and five further
seeds with `--set seeds+=5`.

A setting changes the data of a sweep file before it is checked, so a changed sweep is refused for the same reasons and in the
same words as a written one; its errors name the setting as their place.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stsq_core.configs import TrialConfig, UserError, shown
from sweeps.schema.axes import is_axis
from sweeps.schema.errors import Path, allowed_names, listed, nearest, suggestion
from sweeps.schema.fields import known_leaves, unknown_field, with_field, without_field
from sweeps.schema.search_spec import DecideSettings, SearchSettings, WidthRange, without_password
from sweeps.schema.spec import Budget, Criterion, TrialGroup, WandbSettings
from sweeps.schema.yaml_source import SETTING, YamlDocument, parse

SPEC_FIELDS = (
    "name",
    "title",
    "hypothesis",
    *(f"criterion.{name}" for name in Criterion.model_fields),
    *(f"budget.{name}" for name in Budget.model_fields),
    *(f"search.{name}" for name in SearchSettings.model_fields),
    *(f"search.decide.{name}" for name in DecideSettings.model_fields),
    *(f"wandb.{name}" for name in WandbSettings.model_fields),
    "laws.held_out",
)

RANGE_FIELDS = tuple(f"search.{name}" for name in WidthRange.model_fields)
MORE_SEEDS = "seeds+"
GROUP_FIELDS = ("seeds", MORE_SEEDS, *RANGE_FIELDS)
"""What a setting may change of a group beside the fields of its trials."""


def settable_fields() -> tuple[str, ...]:
    """What a setting may change: of the sweep, of a group, of its trials."""
    return (*known_leaves(), *SPEC_FIELDS, *GROUP_FIELDS)


_SHAPE = re.compile(r"^(?:(?P<group>[^:=]*):)?(?P<field>[^=:]+)=(?P<values>.*)$", re.DOTALL)


@dataclass(frozen=True)
class Override:
    """One `--set` string: the group it is for (None: every group), the field, and its values."""

    text: str
    group: str | None
    field: str
    values: tuple[Any, ...]

    @property
    def origin(self) -> str:
        """The place that errors name."""
        return f"{SETTING}{without_password(self.text)}"


def read_override(text: str) -> Override:
    """Parse `[GROUP:]FIELD=VALUE[,VALUE...]`; values are written as in the sweep file.

    Raises:
        UserError: another shape, or a value that is no YAML.
    """
    match = _SHAPE.match(text)
    if match is None:
        raise UserError(
            f"--set {text}: a setting is FIELD=VALUE, FIELD=VALUE,VALUE or GROUP:FIELD=VALUE; for example task.T=16,32"
        )
    values = parse(f"[{match['values']}]", f"--set {text}").data
    if not isinstance(values, list) or not values:
        raise UserError(f"--set {text}: there is no value after '='; give one, or several with commas between")
    group = match["group"]
    return Override(text, group.strip() if group else None, match["field"].strip(), tuple(values))


def apply_settings(document: YamlDocument, texts: Iterable[str]) -> YamlDocument:
    """The document with each setting applied in turn.

    Raises:
        UserError: a field or a group that does not exist, with the close matches.
    """
    for text in texts:
        document = _applied(document, read_override(text))
    return document


def to_blame(document: YamlDocument, texts: Sequence[str], check: Callable[[YamlDocument], object]) -> str:
    """The settings that make a sweep wrong: those without which `check` raises nothing, else all; none where the file is."""

    def is_right(some: Sequence[str]) -> bool:
        try:
            check(apply_settings(document, some))
        except UserError:
            return False
        return True

    if not texts or not is_right(()):
        return ""
    alone = [text for place, text in enumerate(texts) if is_right([*texts[:place], *texts[place + 1 :]])]
    return " ".join(read_override(text).origin for text in alone or texts)


def _applied(document: YamlDocument, setting: Override) -> YamlDocument:
    if setting.field in SPEC_FIELDS and setting.group is None:
        return _with_spec_field(document, setting)
    reason = None if setting.field in GROUP_FIELDS else unknown_field(setting.field)
    if reason:
        within = [name for name in settable_fields() if name.startswith(f"{setting.field}.")]
        if within:
            raise UserError(
                f"{setting.origin}: {setting.field} holds fields of its own: set one of {nearest(setting.field, within)}"
            )
        near = suggestion(setting.field, settable_fields()) or (
            f"; the nearest are {nearest(setting.field, settable_fields())}; `stsq schema` has them all"
        )
        raise UserError(f"{setting.origin}: there is no field {shown(setting.field)}{near}")
    return _with_group_field(document, setting)


def _with_spec_field(document: YamlDocument, setting: Override) -> YamlDocument:
    many = setting.field == "wandb.tags" or len(setting.values) > 1
    value = list(setting.values) if many else setting.values[0]
    data = document.data if isinstance(document.data, Mapping) else {}
    path = tuple(setting.field.split("."))
    return YamlDocument(with_field(data, setting.field, value), document.source, {**document.origins, path: setting.origin})


def _with_group_field(document: YamlDocument, setting: Override) -> YamlDocument:
    groups = document.data.get("trials") if isinstance(document.data, Mapping) else None
    if not isinstance(groups, list) or not all(isinstance(group, Mapping) for group in groups):
        return document  # The sweep is malformed, and checking it will say so at its own place.
    names = [str(group.get("name")) for group in groups]
    if setting.group is not None and setting.group not in names:
        near = suggestion(setting.group, names)
        raise UserError(
            f"{setting.origin}: there is no group of trials named {shown(setting.group)}{near}; groups: {listed(names)}"
        )
    chosen = {place for place, name in enumerate(names) if setting.group in (None, name)}
    # A field of one architecture is meant for the groups of that architecture; if it fits no group, checking the sweep says so.
    chosen = {place for place in chosen if _has_field(groups[place], setting.field)} or chosen
    origins = dict(document.origins)
    changed: list[Any] = []
    for place, group in enumerate(groups):
        if place in chosen:
            group, where = _changed_group(group, setting)
            origins[("trials", place, *where)] = setting.origin
        changed.append(group)
    return YamlDocument({**document.data, "trials": changed}, document.source, origins)


def _has_field(group: Mapping[str, Any], field: str) -> bool:
    """Whether the kinds that a group's base names leave room for the field."""
    if field in GROUP_FIELDS:
        return (field in ("seeds", MORE_SEEDS)) == (group.get("search") is None)
    *branch, leaf = field.split(".")
    return leaf in allowed_names(TrialConfig, group.get("base"), tuple(branch))


def _changed_group(group: Mapping[str, Any], setting: Override) -> tuple[dict[str, Any], Path]:
    """The group with the field set, and the path in the group where its value stands now."""
    one = setting.values[0] if len(setting.values) == 1 else None
    if setting.field == "seeds":
        return {**group, "seeds": list(setting.values) if one is None else one}, ("seeds",)
    if setting.field == MORE_SEEDS:
        return _with_more_seeds(group, setting), ("seeds",)
    if setting.field in RANGE_FIELDS:
        value = list(setting.values) if one is None else one
        return with_field(group, setting.field, value), tuple(setting.field.split("."))
    if (narrowed := _selected_cases(group, setting)) is not None:
        return narrowed, ("zip", setting.field)
    group = _without(group, setting.field)
    if one is not None and not is_axis(one):
        base = group.get("base") or {}
        return {**group, "base": with_field(base, setting.field, one)}, ("base", *setting.field.split("."))
    axis = list(setting.values) if one is None else one
    return {**group, "grid": {**(group.get("grid") or {}), setting.field: axis}}, ("grid", setting.field)


def _with_more_seeds(group: Mapping[str, Any], setting: Override) -> dict[str, Any]:
    """The group with further seeds after its own, which stay what they are."""
    more, own = setting.values[0], group.get("seeds", TrialGroup.model_fields["seeds"].default)
    if len(setting.values) > 1 or type(more) is not int or more < 1:
        got = setting.text.partition("=")[2]
        raise UserError(f"{setting.origin}: further seeds are a whole number from 1; got {got}: give one, as in seeds+=8")
    if group.get("search") is not None:
        raise UserError(
            f"{setting.origin}: the thresholds of group {group.get('name')!r} are searched, with a fresh seed for every point: "
            "--set search.tolerance=0.05 or --set search.cap=192 lets a search go on"
        )
    if type(own) is int:
        return {**group, "seeds": own + more}
    if isinstance(own, list) and own and all(type(seed) is int for seed in own):
        return {**group, "seeds": [*own, *range(max(own) + 1, max(own) + 1 + more)]}
    return dict(group)  # The sweep is malformed, and checking it will say so at its own place.


def _selected_cases(group: Mapping[str, Any], setting: Override) -> dict[str, Any] | None:
    """The group with only the zipped cases that have the values; None where the field is not zipped, or has no such values.

    So what is zipped with the field (the widths that suit a T, say) stays with it.
    """
    zipped = group.get("zip")
    if not isinstance(zipped, Mapping) or not isinstance(zipped.get(setting.field), list):
        return None
    own = zipped[setting.field]
    if any(value not in own for value in setting.values) or any(not isinstance(axis, list) for axis in zipped.values()):
        return None
    kept = [place for place, value in enumerate(own) if value in setting.values]
    if any(len(axis) != len(own) for axis in zipped.values()):
        return None
    return {**group, "zip": {name: [axis[place] for place in kept] for name, axis in zipped.items()}}


def _without(group: Mapping[str, Any], field: str) -> dict[str, Any]:
    """The group without the field, and without what stands on axes or in the base under it."""
    changed = dict(group)
    for axes in ("grid", "zip"):
        if isinstance(group.get(axes), Mapping):
            changed[axes] = {k: v for k, v in group[axes].items() if k != field and not k.startswith(f"{field}.")}
    if isinstance(group.get("base"), Mapping):
        changed["base"] = without_field(group["base"], field)
    return changed
