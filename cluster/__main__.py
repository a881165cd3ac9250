"""`python -m cluster`, the same as `stsq`; an interpreter that cannot run it is told so in one line."""

import sys

from cluster.run import refusal

if __name__ == "__main__":
    if reason := refusal():
        sys.stderr.write(f"stsq: {reason}\n")
        sys.exit(2)
    from cluster.commands import main

    main()
