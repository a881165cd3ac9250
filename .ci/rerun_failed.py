"""Runs the tests that failed last time once more, to distinguish flaky tests from broken ones; either fails the build.

A test that fails and then passes is flaky. It passes here only if tests/flaky.txt names it, a list that is meant to be empty.
Run from the repository root, after pytest: python .ci/rerun_failed.py
"""

import json
import subprocess
import sys
from pathlib import Path

LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")
KNOWN_FLAKY = Path("tests/flaky.txt")
ALL_PASSED = 0


def main() -> int:
    """The exit code of the build: 0 only if every failed test is a known flaky one that passes now."""
    failed_before = failed_tests()
    if not failed_before:
        print("the tests did not pass, but pytest has recorded no failed test: see its output above")
        return 1
    command = [sys.executable, "-m", "pytest", "--last-failed", "--last-failed-no-failures", "none"]
    code = subprocess.run(command, check=False).returncode
    failed_again = failed_tests()
    flaky = failed_before - failed_again
    unknown = flaky - known_flaky()
    for test in sorted(failed_again):
        print(f"FAILED TWICE: {test}")
    for test in sorted(flaky):
        print(f"FLAKY{'' if test in unknown else ', as tests/flaky.txt says'}: {test} failed, then passed")
    return 1 if failed_again or unknown or code != ALL_PASSED else 0


def failed_tests() -> set[str]:
    """The tests that pytest's cache holds as failed, by node id."""
    return set(json.loads(LAST_FAILED.read_text(encoding="utf-8"))) if LAST_FAILED.exists() else set()


def known_flaky() -> set[str]:
    """The node ids in tests/flaky.txt."""
    lines = KNOWN_FLAKY.read_text(encoding="utf-8").splitlines() if KNOWN_FLAKY.exists() else []
    return {line.strip() for line in lines if line.strip() and not line.startswith("#")}


if __name__ == "__main__":
    sys.exit(main())
