"""Semantic versions (semver 2.0.0), read as the Go library blang/semver does, with its errors."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache, total_ordering
from typing import Final

from numakube.errors import InvalidValue
from numakube.values.gotext import go_quote

_DIGITS: Final = re.compile(r"[0-9]*")
_ALPHANUMERIC: Final = re.compile(r"[0-9A-Za-z-]*")
_UINT64_MAX: Final = 2**64 - 1


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    """A version; what was built from it (behind ``+``) does not count in comparisons."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...] = ()
    build: tuple[str, ...] = ()

    def _key(self) -> tuple[object, ...]:
        parts = tuple(
            (0, int(part), "") if part.isdigit() else (1, 0, part) for part in self.prerelease
        )
        return (self.major, self.minor, self.patch, not parts, parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __lt__(self, other: Semver) -> bool:
        return self._key() < other._key()

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        text += f"-{'.'.join(self.prerelease)}" if self.prerelease else ""
        return text + (f"+{'.'.join(self.build)}" if self.build else "")


@lru_cache(maxsize=4096)
def parse_semver(text: str) -> Semver:
    """Read *text*; raise `InvalidValue` in the library's words if it is not a version."""
    if not text:
        raise InvalidValue("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise InvalidValue("No Major.Minor.Patch elements found")
    major, minor = _number(parts[0], "major"), _number(parts[1], "minor")
    rest, plus, build = parts[2].partition("+")
    patch, dash, prerelease = rest.partition("-")
    number = _number(patch, "patch")
    return Semver(
        major,
        minor,
        number,
        tuple(map(_prerelease, prerelease.split("."))) if dash else (),
        tuple(map(_build, build.split("."))) if plus else (),
    )


def normalized(text: str) -> str:
    """Return *text* without leading ``v`` and zeros, and with the parts that are missing."""
    parts = text.removeprefix("v").split(".", 2)
    parts = [_without_zeros(part) for part in parts]
    if len(parts) < 3:
        if re.search(r"[+-]", parts[-1]):
            raise InvalidValue("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _without_zeros(part: str) -> str:
    if len(part) <= 1:
        return part
    short = part.lstrip("0")
    return short if short[:1].isdigit() and short[:1].isascii() else f"0{short}"


def _number(text: str, what: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise InvalidValue(f"Invalid character(s) found in {what} number {go_quote(text)}")
    if len(text) > 1 and text[0] == "0":
        name = what.capitalize()
        raise InvalidValue(f"{name} number must not contain leading zeroes {go_quote(text)}")
    return _uint(text)


def _uint(text: str) -> int:
    if not text:
        raise InvalidValue('strconv.ParseUint: parsing "": invalid syntax')
    if int(text) > _UINT64_MAX:
        raise InvalidValue(f"strconv.ParseUint: parsing {go_quote(text)}: value out of range")
    return int(text)


def _prerelease(text: str) -> str:
    if not text:
        raise InvalidValue("Prerelease is empty")
    if _DIGITS.fullmatch(text):
        if len(text) > 1 and text[0] == "0":
            raise InvalidValue(
                f"Numeric PreRelease version must not contain leading zeroes {go_quote(text)}"
            )
        _uint(text)
    elif not _ALPHANUMERIC.fullmatch(text):
        raise InvalidValue(f"Invalid character(s) found in prerelease {go_quote(text)}")
    return text


def _build(text: str) -> str:
    if not text:
        raise InvalidValue("Build meta data is empty")
    if not _ALPHANUMERIC.fullmatch(text):
        raise InvalidValue(f"Invalid character(s) found in build meta data {go_quote(text)}")
    return text
