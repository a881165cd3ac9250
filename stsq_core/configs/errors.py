"""The one base class of every error that a user can mend.

Each message names what was wrong, the value, what is allowed, and what to do. The front door prints it and exits with code 2;
any other exception is a bug of ours and keeps its traceback.
"""


class UserError(Exception):
    """Bad input or a bad environment: the message says what to change."""
