"""The state file: what groups were before we changed them, so that even a crash can be undone.

A group that had no set of its own, and cannot be without one as long as it has processes, stays in
the file with what was written instead (``putBackAs``), until it is gone. A container that was made
with what we said never was anything else: what the kubelet wanted for it is kept by its id until
its group is there.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
import structlog

from numakube.api.codec import BROKEN_JSON, Wire
from numakube.errors import ConfigError, InvalidValue
from numakube.node.cgroups import GroupSetting
from numakube.values.cpuset import CpuSet

FILE: Final = "originals.json"
_VERSION: Final = 1

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class _Setting(Wire, frozen=True):
    """What a group was; a file that was not touched is not mentioned."""

    cpus: str | None = None
    mems: str | None = None
    quota: str | None = None


class _Original(_Setting, frozen=True):
    """What a group was, and what stands in for that since it was put back."""

    put_back_as: _Setting | None = None


class _EnforcerStateFile(Wire, frozen=True):
    """The whole file."""

    version: int = _VERSION
    groups: dict[str, _Original] = {}  # noqa: RUF012 - msgspec copies it
    containers: dict[str, _Setting] = {}  # noqa: RUF012 - likewise


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What the file has.

    Attributes:
        originals: what was there before, by group.
        stand_ins: what was put back where that could not be, by group.
        declared: what containers would have without us, by id.
    """

    originals: Mapping[str, GroupSetting] = field(default_factory=dict)
    stand_ins: Mapping[str, GroupSetting] = field(default_factory=dict)
    declared: Mapping[str, GroupSetting] = field(default_factory=dict)


class OriginalsFile:
    """Keeps the originals on disk; every save is complete before it counts."""

    def __init__(self, folder: Path) -> None:
        """Use a file in *folder*, which is made if need be.

        Raises:
            ConfigError: it cannot be.
        """
        self._path = folder / FILE
        self._saved: Remembered | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot keep state in {folder}: {error.strerror}") from None

    def load(self) -> Remembered:
        """Return what is remembered; a file that makes no sense is put aside and told of."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            self._saved = Remembered()
            return self._saved
        except OSError as error:
            raise ConfigError(f"cannot read {self._path}: {error.strerror}") from None
        try:
            self._saved = _remembered(msgspec.json.decode(data, type=_EnforcerStateFile))
        except (*BROKEN_JSON, InvalidValue) as error:
            aside = self._path.with_suffix(".broken")
            self._path.replace(aside)
            _log.error("state_unreadable", file=str(self._path), kept=str(aside), error=str(error))
            self._saved = Remembered()
        return self._saved

    def save(self, remembered: Remembered) -> None:
        """Write what is to be remembered, if it has changed.

        Raises:
            OSError: the disk does not take them; then nothing may be changed either.
        """
        if remembered == self._saved:
            return
        groups = {
            group: _written(one, remembered.stand_ins.get(group))
            for group, one in sorted(remembered.originals.items())
        }
        containers = {identity: _plain(one) for identity, one in remembered.declared.items()}
        file_content = _EnforcerStateFile(groups=groups, containers=containers)
        content = msgspec.json.format(msgspec.json.encode(file_content))
        temporary = self._path.with_name(f".{FILE}.tmp")
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)
        self._saved = remembered


def _remembered(content: _EnforcerStateFile) -> Remembered:
    return Remembered(
        originals={group: _read(one) for group, one in content.groups.items()},
        stand_ins={
            group: _read(one.put_back_as)
            for group, one in content.groups.items()
            if one.put_back_as is not None
        },
        declared={identity: _read(one) for identity, one in content.containers.items()},
    )


def _read(one: _Setting) -> GroupSetting:
    return GroupSetting(cpus=_bits(one.cpus), mems=_bits(one.mems), quota=one.quota)


def _written(one: GroupSetting, stand_in: GroupSetting | None) -> _Original:
    return _Original(
        cpus=_text(one.cpus),
        mems=_text(one.mems),
        quota=one.quota,
        put_back_as=None if stand_in is None else _plain(stand_in),
    )


def _plain(one: GroupSetting) -> _Setting:
    return _Setting(cpus=_text(one.cpus), mems=_text(one.mems), quota=one.quota)


def _bits(text: str | None) -> int | None:
    return None if text is None else CpuSet.parse(text).bits


def _text(bits: int | None) -> str | None:
    return None if bits is None else str(CpuSet(bits))
