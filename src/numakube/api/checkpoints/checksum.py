"""The checksum of the kubelet's state files: FNV-1a, 32 bits, over go-spew's text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.checkpoints.spew import GoType, spew

if TYPE_CHECKING:
    from collections.abc import Iterable

_OFFSET_BASIS: Final = 0x811C9DC5
_PRIME: Final = 0x01000193
_STRING: Final = GoType("string")


def fnv1a_32(data: bytes) -> int:
    """Return the 32-bit FNV-1a hash of *data*."""
    value = _OFFSET_BASIS
    for byte in data:
        value = (value ^ byte) * _PRIME & 0xFFFFFFFF
    return value


def checksum_of(go_type: GoType, value: object) -> int:
    """Return the checksum of *value* printed as a *go_type*."""
    return fnv1a_32(spew(go_type, value).encode())


def checksum_of_text(text: str) -> int:
    """Return the checksum of a Go string."""
    return checksum_of(_STRING, text)


def is_any_of(checksum: int, value: object, go_types: Iterable[GoType]) -> bool:
    """Tell whether *checksum* is that of *value* printed as any of *go_types*.

    Versions of the kubelet have renamed the struct that is printed, so one file may have been
    hashed under more than one name.
    """
    return any(checksum == checksum_of(go_type, value) for go_type in go_types)
