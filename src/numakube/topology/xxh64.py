"""XXH64, the hash under pod fingerprints and NUMA placements.

In plain Python: what is hashed are names, for which a few microseconds each are enough, and the
package needs no compiled dependency for it. Follows the xxHash specification (version 0.1.1).
"""

from __future__ import annotations

import struct
from typing import Final

_MASK: Final = (1 << 64) - 1
_PRIME_1: Final = 0x9E3779B185EBCA87
_PRIME_2: Final = 0xC2B2AE3D27D4EB4F
_PRIME_3: Final = 0x165667B19E3779F9
_PRIME_4: Final = 0x85EBCA77C2B2AE63
_PRIME_5: Final = 0x27D4EB2F165667C5
_STRIPE: Final = 32


def xxh64(data: bytes, seed: int = 0) -> int:
    """Return the 64-bit hash of *data*."""
    length = len(data)
    position = length - length % _STRIPE
    state = _stripes(data, position, seed) if position else seed + _PRIME_5
    state = (state + length) & _MASK
    while position + 8 <= length:
        (lane,) = struct.unpack_from("<Q", data, position)
        state = (_rotate(state ^ _round(0, lane), 27) * _PRIME_1 + _PRIME_4) & _MASK
        position += 8
    if position + 4 <= length:
        (lane,) = struct.unpack_from("<I", data, position)
        state ^= lane * _PRIME_1 & _MASK
        state = (_rotate(state, 23) * _PRIME_2 + _PRIME_3) & _MASK
        position += 4
    for byte in data[position:]:
        state ^= byte * _PRIME_5 & _MASK
        state = _rotate(state, 11) * _PRIME_1 & _MASK
    return _avalanche(state)


def _stripes(data: bytes, end: int, seed: int) -> int:
    """Return the state after all whole stripes of 32 bytes, kept in four accumulators."""
    one, two = (seed + _PRIME_1 + _PRIME_2) & _MASK, (seed + _PRIME_2) & _MASK
    three, four = seed, (seed - _PRIME_1) & _MASK
    for first, second, third, fourth in struct.iter_unpack("<4Q", data[:end]):
        one, two = _round(one, first), _round(two, second)
        three, four = _round(three, third), _round(four, fourth)
    state = _rotate(one, 1) + _rotate(two, 7) + _rotate(three, 12) + _rotate(four, 18)
    for accumulator in (one, two, three, four):
        state = (state ^ _round(0, accumulator)) * _PRIME_1 + _PRIME_4
        state &= _MASK
    return state


def _round(accumulator: int, lane: int) -> int:
    return _rotate((accumulator + lane * _PRIME_2) & _MASK, 31) * _PRIME_1 & _MASK


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _avalanche(state: int) -> int:
    state = (state ^ state >> 33) * _PRIME_2 & _MASK
    state = (state ^ state >> 29) * _PRIME_3 & _MASK
    return state ^ state >> 32
