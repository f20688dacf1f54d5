"""Compression and decompression of record batches, with bounded memory.

Decompression ignores sizes claimed by the data: every codec stops at `MAX_DECOMPRESSED_BYTES`.
Kafka has its own framing for snappy (xerial: a header, then blocks with an int32 length each).
In message format 0 the header checksum of an lz4 frame also covers the magic, which is wrong; it is
corrected before the frame is read.

Source: clients/src/main/java/org/apache/kafka/common/compress/ (`Lz4BlockOutputStream`,
`SnappyCompression`) and common/record/CompressionType.java at 4.2.0; KAFKA-3160 for the lz4
checksum; the LZ4 frame format 1.6.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any, Final

import cramjam
import numpy as np

from coordinator_state.errors import CorruptRecordBatch, EncodeError

COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""Kafka's names; the index is the id in the batch attributes."""

MAX_DECOMPRESSED_BYTES: Final = 256 * 1024 * 1024
"""A batch with more decompressed bytes is corrupt; brokers refuse far smaller batches."""

_GZIP_WINDOW_BITS: Final = 31
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_LZ4_HEADER: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
"""Magic; version 1 with independent 64 KiB blocks (Kafka reads only these); header checksum."""
_LZ4_HEADER_MAGIC_0: Final = _LZ4_HEADER[:6] + b"\x1a"
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_STORED_FLAG: Final = 1 << 31
_LZ4_CONTENT_SIZE_FLAG: Final = 0x08
_LEAST_CAPACITY_BYTES: Final = 64 * 1024


def compression_name(compression_id: int) -> str:
    """Return the name for an id: the lowest three bits of the attributes.

    >>> compression_name(3)
    'lz4'

    Raises:
        CorruptRecordBatch: no Kafka version has this id.
    """
    if compression_id >= len(COMPRESSIONS):
        raise CorruptRecordBatch(f"unknown compression type {compression_id}", position=0)
    return COMPRESSIONS[compression_id]


def decompress(
    compression: str,
    data: bytes | memoryview,
    *,
    magic: int = 2,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> bytes:
    """Decompress the records of a batch or the messages of a wrapper message.

    Raises:
        CorruptRecordBatch: the data is damaged, or has more than `max_bytes` decompressed.
    """
    if compression == "none":
        return bytes(data)
    if compression == "zstd" and magic < 2:
        raise CorruptRecordBatch(f"message format {magic} does not support zstd", position=0)
    if compression == "lz4" and magic == 0:
        data = _with_corrected_checksum(data)
    try:
        return _DECOMPRESSORS[compression](data, max_bytes)
    except (zlib.error, cramjam.DecompressionError, struct.error) as error:
        raise CorruptRecordBatch(f"{compression}: {error}", position=0) from error


def compress(compression: str, data: bytes, *, magic: int = 2) -> bytes:
    """Compress as Kafka's producers and brokers do.

    Raises:
        EncodeError: this message format does not support the compression.
    """
    if compression == "none":
        return data
    if compression not in COMPRESSIONS or (compression == "zstd" and magic < 2):
        raise EncodeError(f"message format {magic} does not support compression {compression}")
    if compression == "gzip":
        codec = zlib.compressobj(wbits=_GZIP_WINDOW_BITS)
        return codec.compress(data) + codec.flush()
    if compression == "snappy":
        return _compress_xerial(data)
    if compression == "zstd":
        return bytes(cramjam.zstd.compress(data))
    return _compress_lz4(data, _LZ4_HEADER_MAGIC_0 if magic == 0 else _LZ4_HEADER)


def _decompress_gzip(data: bytes | memoryview, max_bytes: int) -> bytes:
    """Decompress all gzip members; ignore bytes after the last one, as Java's stream does."""
    members: list[bytes] = []
    rest = bytes(data)
    left = max_bytes
    while rest[:2] == b"\x1f\x8b" or not members:
        codec = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
        members.append(codec.decompress(rest, left + 1))
        left -= len(members[-1])
        if left < 0:
            raise _too_large(max_bytes)
        if not codec.eof:
            raise zlib.error("incomplete stream")
        rest = codec.unused_data
    return b"".join(members)


def _decompress_snappy(data: bytes | memoryview, max_bytes: int) -> bytes:
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, max_bytes)
    blocks = []
    left = max_bytes
    position = len(_XERIAL_HEADER)
    while position < len(view):
        (length,) = struct.unpack_from(">i", view, position)
        position += 4
        if not 0 <= length <= len(view) - position:
            raise CorruptRecordBatch(
                f"snappy: block of {length} bytes, {len(view) - position} left", position=position
            )
        blocks.append(_decompress_snappy_block(view[position : position + length], left))
        left -= len(blocks[-1])
        position += length
    return b"".join(blocks)


def _decompress_snappy_block(block: memoryview, max_bytes: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(block) > max_bytes:
        raise _too_large(max_bytes)
    return bytes(cramjam.snappy.decompress_raw(block))


def _compress_xerial(data: bytes) -> bytes:
    out = bytearray(_XERIAL_HEADER)
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        out += struct.pack(">i", len(block)) + block
    return bytes(out)


def _decompress_lz4(data: bytes | memoryview, max_bytes: int) -> bytes:
    return _decompress_growing(cramjam.lz4.decompress_into, data, max_bytes)


def _decompress_zstd(data: bytes | memoryview, max_bytes: int) -> bytes:
    return _decompress_growing(cramjam.zstd.decompress_into, data, max_bytes)


def _decompress_growing(
    decompress_into: Callable[[Any, Any], int], data: bytes | memoryview, max_bytes: int
) -> bytes:
    """Try a small buffer first, then larger ones: the size in a frame cannot be trusted.

    The codec raises the same error for a full buffer and for damaged data. So damaged data, too, is
    tried again until the buffer has `max_bytes`.
    """
    capacity = min(max_bytes, max(_LEAST_CAPACITY_BYTES, 8 * len(data)))
    while True:
        out = np.empty(capacity, dtype=np.uint8)
        try:
            return out[: decompress_into(data, out)].tobytes()
        except cramjam.DecompressionError:
            if capacity == max_bytes:
                raise
        capacity = min(max_bytes, 16 * capacity)


def _too_large(max_bytes: int) -> CorruptRecordBatch:
    return CorruptRecordBatch(f"decompresses to more than {max_bytes} bytes", position=0)


def _compress_lz4(data: bytes, header: bytes) -> bytes:
    """Write the frame here: the library writes dependent blocks, which Kafka refuses."""
    out = bytearray(header)
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        block = data[start : start + _LZ4_BLOCK_BYTES]
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            out += struct.pack("<I", len(packed)) + packed
        else:
            out += struct.pack("<I", len(block) | _LZ4_STORED_FLAG) + block
    return bytes(out + bytes(4))


def _with_corrected_checksum(frame: bytes | memoryview) -> bytes:
    """Return an lz4 frame of magic 0 with the header checksum of the frame descriptor alone."""
    fixed = bytearray(frame)
    end = 14 if fixed[4:5] and fixed[4] & _LZ4_CONTENT_SIZE_FLAG else 6
    if end < len(fixed) and fixed[:4] == _LZ4_HEADER[:4]:
        fixed[end] = (_xxh32(bytes(fixed[4:end])) >> 8) & 0xFF
    return bytes(fixed)


def _xxh32(data: bytes) -> int:
    """Compute xxHash32 with seed 0 of fewer than 16 bytes; a frame descriptor is never longer.

    >>> hex(_xxh32(b""))
    '0x2cc5d05'
    """
    prime_1, prime_2, prime_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
    prime_4, prime_5 = 0x27D4EB2F, 0x165667B1
    value = prime_5 + len(data)
    words = len(data) // 4 * 4
    for (word,) in struct.iter_unpack("<I", data[:words]):
        value = (_rotate_left(value + word * prime_3, 17) * prime_4) & 0xFFFFFFFF
    for byte in data[words:]:
        value = (_rotate_left(value + byte * prime_5, 11) * prime_1) & 0xFFFFFFFF
    value = ((value ^ value >> 15) * prime_2) & 0xFFFFFFFF
    value = ((value ^ value >> 13) * prime_3) & 0xFFFFFFFF
    return value ^ value >> 16


def _rotate_left(value: int, bits: int) -> int:
    value &= 0xFFFFFFFF
    return (value << bits | value >> (32 - bits)) & 0xFFFFFFFF


_DECOMPRESSORS: Final[dict[str, Callable[[bytes | memoryview, int], bytes]]] = {
    "gzip": _decompress_gzip,
    "snappy": _decompress_snappy,
    "lz4": _decompress_lz4,
    "zstd": _decompress_zstd,
}
