"""`stsq`, also `python -m cluster`: an interpreter that cannot run the command is refused in one line."""

import os
import sys

from cluster.environment import BAD_INPUT, open_streams, refusal


def main() -> None:
    """Check the interpreter, then run the command."""
    open_streams()
    if reason := refusal(sys.argv[1:]):
        sys.stderr.write(f"stsq: {reason}\n")
        sys.exit(BAD_INPUT)
    # OpenBLAS threads that wait would spin for 30 ms after each product: as much CPU time as the products themselves.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    from cluster.commands import main as command

    command()


if __name__ == "__main__":
    main()
