"""The state file: what groups were before we changed them, so that even a crash can be undone."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
import structlog

from numakube.api.wire import Wire
from numakube.errors import ConfigError, InvalidValue
from numakube.node.cgroups.ordering import Setting
from numakube.values.cpuset import CpuSet

FILE: Final = "originals.json"
_VERSION: Final = 1

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class _Original(Wire, frozen=True):
    """What a group was; a file that was not touched is not mentioned."""

    cpus: str | None = None
    mems: str | None = None
    quota: str | None = None


class _File(Wire, frozen=True):
    """The whole file."""

    version: int = _VERSION
    groups: dict[str, _Original] = {}  # noqa: RUF012 - msgspec copies it


class OriginalsFile:
    """Keeps the originals on disk; every save is complete before it counts."""

    def __init__(self, folder: Path) -> None:
        """Use a file in *folder*, which is made if need be.

        Raises:
            ConfigError: it cannot be.
        """
        self._path = folder / FILE
        self._saved: dict[str, Setting] | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot keep state in {folder}: {error.strerror}") from None

    def load(self) -> dict[str, Setting]:
        """Return the originals; a file that makes no sense is put aside and told of."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            self._saved = {}
            return {}
        except OSError as error:
            raise ConfigError(f"cannot read {self._path}: {error.strerror}") from None
        try:
            groups = msgspec.json.decode(data, type=_File).groups
            self._saved = {group: _read(one) for group, one in groups.items()}
        except (msgspec.DecodeError, InvalidValue) as error:
            aside = self._path.with_suffix(".broken")
            self._path.replace(aside)
            _log.error("state_unreadable", file=str(self._path), kept=str(aside), error=str(error))
            self._saved = {}
        return dict(self._saved)

    def save(self, originals: Mapping[str, Setting]) -> None:
        """Write the originals, if they have changed.

        Raises:
            OSError: the disk does not take them; then nothing may be changed either.
        """
        if originals == self._saved:
            return
        groups = {group: _written(one) for group, one in sorted(originals.items())}
        content = msgspec.json.format(msgspec.json.encode(_File(groups=groups)))
        temporary = self._path.with_name(f".{FILE}.tmp")
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)
        self._saved = dict(originals)


def _read(one: _Original) -> Setting:
    return Setting(cpus=_bits(one.cpus), mems=_bits(one.mems), quota=one.quota)


def _written(one: Setting) -> _Original:
    return _Original(cpus=_text(one.cpus), mems=_text(one.mems), quota=one.quota)


def _bits(text: str | None) -> int | None:
    return None if text is None else CpuSet.parse(text).bits


def _text(bits: int | None) -> str | None:
    return None if bits is None else str(CpuSet(bits))
