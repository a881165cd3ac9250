"""The sweep that a run directory keeps, read as the version that wrote it meant it.

A sweep file that somebody writes must be right as it stands; one that is kept beside results must not make them unreadable.
"""

from binascii import crc32
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import BeforeValidator, ValidationError

from stsq_core.configs import Record, UserError, as_tuple, shown
from sweeps.schema.claims import Claim
from sweeps.schema.errors import dotted, first_problem
from sweeps.schema.search_spec import without_password
from sweeps.schema.yaml_source import YamlDocument

_SEAL = "# checksum "
_AFTER_SEAL = ": stsq wrote this file; remove this line if you edit it\n"


class _Claims(Record):
    claims: Annotated[tuple[Claim, ...], BeforeValidator(as_tuple)]


def sealed_text(text: str) -> str:
    """A sweep as a run directory keeps it, behind its checksum."""
    return f"{_SEAL}{crc32(text.encode()):08x}{_AFTER_SEAL}{text}"


def unsealed(text: str) -> str:
    """The sweep behind a checksum, where it has one."""
    return text.partition("\n")[2] if text.startswith(_SEAL) else text


def check_seal(text: str, source: str) -> None:
    """Refuse a kept sweep that is not what its checksum was made of; one without is of a former version, or edited.

    Raises:
        UserError: it was damaged, or edited.
    """
    head, _, rest = text.partition("\n")
    if head.startswith(_SEAL) and f"{head}\n{rest}" != sealed_text(rest):
        raise UserError(
            f"{source} was changed after stsq wrote it (its checksum does not match): if you edited it, remove its first line; "
            "if it is damaged, run the sweep that it was once more with --out, which writes it anew"
        )


def as_kept(document: YamlDocument) -> tuple[YamlDocument, tuple[str, ...]]:
    """The document in the terms of this version, and what of it had to be left out, in words.

    Before the tolerance of a search was one of the length d_e it was of m, and no file said so. Passwords, which former
    versions kept, and claims that are no longer valid are left out.
    """
    data = document.data
    if not isinstance(data, Mapping):
        return document, ()
    search, claims = data.get("search"), data.get("claims")
    if isinstance(search, Mapping) and "tolerance_of" not in search:
        data = {**data, "search": {**search, "tolerance_of": "m"}}
    if isinstance(search, Mapping) and isinstance(storage := search.get("storage"), str):
        data = {**data, "search": {**data["search"], "storage": without_password(storage)}}
    if not isinstance(claims, list):
        return replace(document, data=data), ()
    problems = [_problem(claim) for claim in claims]
    valid = [claim for claim, problem in zip(claims, problems, strict=True) if not problem]
    notes = tuple(
        f"{document.place(('claims', place))}: the claim {shown(_name(claims[place]))} is of another version and is not "
        f"judged: {problem}"
        for place, problem in enumerate(problems)
        if problem
    )
    return replace(document, data={**data, "claims": valid}), notes


def _name(claim: object) -> object:
    return claim.get("name") if isinstance(claim, Mapping) else claim


def _problem(claim: object) -> str:
    """Why a claim is not valid, with the field; nothing where it is."""
    data = {"claims": [claim]}
    try:
        _Claims.model_validate(data)
    except ValidationError as error:
        path, problem = first_problem(error, _Claims, data)
        return ": ".join(filter(None, (dotted(path[2:]), problem)))
    return ""
