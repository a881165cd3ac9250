"""The framing of `.wandb` files: what is packed is unpacked, wherever the blocks end, and a cut differs from damage."""

import pytest
from hypothesis import given, strategies as st
from wandb_files import unpack

from dashboards.publishing.files import BLOCK_BYTES, CHUNK_HEADER, FILE_HEADER, pack

SIZES = st.integers(0, 200) | st.integers(BLOCK_BYTES - 40, BLOCK_BYTES + 40) | st.integers(0, 3 * BLOCK_BYTES)


@given(st.lists(SIZES, max_size=12))
def test_records_of_any_size_come_back(sizes: list[int]) -> None:
    records = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    assert list(unpack(pack(records))) == records


@pytest.mark.parametrize("left", range(2 * CHUNK_HEADER.size))
def test_a_block_that_ends_within_or_after_a_header(left: int) -> None:
    fills = BLOCK_BYTES - len(FILE_HEADER) - CHUNK_HEADER.size - left
    records = [b"a" * fills, b"b" * 100, b""]
    data = pack(records)
    assert list(unpack(data)) == records
    assert any(data[BLOCK_BYTES - left : BLOCK_BYTES]) == (left >= CHUNK_HEADER.size)  # too small for a header: zeros


def test_a_file_that_was_cut_off_gives_its_whole_records() -> None:
    records = [b"a" * 100, b"b" * 2 * BLOCK_BYTES, b"c" * 100]
    data = pack(records)
    for size in range(len(FILE_HEADER), len(data), 97):
        whole = list(unpack(data[:size]))
        assert whole == records[: len(whole)]
        assert len(whole) < 3


def test_damage_is_an_error() -> None:
    data = bytearray(pack([b"a" * 100, b"b"]))
    data[50] ^= 1
    with pytest.raises(ValueError, match="chunk at byte 7 "):
        list(unpack(bytes(data)))
    with pytest.raises(ValueError, match="not a W&B file"):
        list(unpack(b"something else"))
