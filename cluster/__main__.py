"""`python -m cluster`, the same as `stsq`."""

from cluster.cli import main

if __name__ == "__main__":
    main()
