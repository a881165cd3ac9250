"""`python -m cluster`, the former name of `python -m stsq`."""

import sys

from cluster.environment import prepare


def main() -> None:
    """Check the interpreter, then run the command."""
    prepare(sys.argv[1:])
    from cluster.commands import main as command

    command()


if __name__ == "__main__":
    main()
