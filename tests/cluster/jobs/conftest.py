"""One Ray head with token authentication for all tests that submit jobs: `tests/conftest.py` gives them to one process."""

from collections.abc import Iterator

import pytest
from ray_heads import Head, ray_head


@pytest.fixture(scope="session")
def head() -> Iterator[Head]:
    with ray_head() as head:
        yield head
