"""The outer form of a `.wandb` file: a 7-byte header and then a LevelDB log of records, which are bytes here.

The log is divided into blocks of 32 KiB. A record is one chunk or, where a block ends within it, several; a chunk has a 7-byte
header: CRC-32 of type and data, length, type.

Source: the LevelDB log format, with the plain CRC-32 that W&B uses.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator

FILE_HEADER = b":W&B\xe1\xbe\x00"
BLOCK_BYTES = 32 * 1024
CHUNK_HEADER = struct.Struct("<IHB")
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
_KINDS = {(True, True): FULL, (True, False): FIRST, (False, False): MIDDLE, (False, True): LAST}


def pack(records: Iterable[bytes]) -> bytes:
    """The file that holds these records."""
    log = bytearray(FILE_HEADER)
    for record in records:
        rest, is_first = record, True
        while rest or is_first:
            room = BLOCK_BYTES - len(log) % BLOCK_BYTES
            if room < CHUNK_HEADER.size:
                log += bytes(room)
                room = BLOCK_BYTES
            chunk, rest = rest[: room - CHUNK_HEADER.size], rest[room - CHUNK_HEADER.size :]
            kind = _KINDS[is_first, not rest]
            log += CHUNK_HEADER.pack(_checksum(kind, chunk), len(chunk), kind) + chunk
            is_first = False
    return bytes(log)


def unpack(data: bytes) -> Iterator[bytes]:
    """The whole records of a file; one that was cut off is read up to the cut.

    Raises:
        ValueError: it is no W&B file, or a chunk other than a cut-off last one is damaged.
    """
    if not data.startswith(FILE_HEADER):
        raise ValueError(f"not a W&B file: it starts with {data[:7]!r}; a W&B file starts with {FILE_HEADER!r}")
    at, parts = len(FILE_HEADER), b""
    while True:
        room = BLOCK_BYTES - at % BLOCK_BYTES
        if room < CHUNK_HEADER.size:
            at += room
        if at + CHUNK_HEADER.size > len(data):
            return
        crc, size, kind = CHUNK_HEADER.unpack_from(data, at)
        chunk = data[at + CHUNK_HEADER.size : at + CHUNK_HEADER.size + size]
        if kind == 0 or len(chunk) < size:
            return
        if _checksum(kind, chunk) != crc:
            raise ValueError(f"damaged W&B file: the checksum of the chunk at byte {at} does not fit")
        parts = chunk if kind in (FULL, FIRST) else parts + chunk
        if kind in (FULL, LAST):
            yield parts
        at += CHUNK_HEADER.size + size


def _checksum(kind: int, chunk: bytes) -> int:
    return zlib.crc32(chunk, zlib.crc32(bytes([kind])))
