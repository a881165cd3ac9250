"""Errors that all rooms share.

Each message of a `UserError` names what was wrong, the value, what is allowed, and what to do. The front door prints it and
exits with code 2; any other exception is a bug of ours and keeps its traceback.
"""

from typing import Never

SHOWN = 60
"""The most characters of an offending value that a message repeats."""


class UserError(Exception):
    """Bad input or a bad environment: the message says what to change."""


def shown(value: object) -> str:
    """A value as an error message repeats it: short, on one line."""
    text = repr(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def missing_case(value: Never, place: str) -> TypeError:
    """As `assert_never`, where kinds are added: mypy refuses a call that can be reached, and the error names the place."""
    return TypeError(f"{place} has no case for {type(value).__name__}: write it there")
