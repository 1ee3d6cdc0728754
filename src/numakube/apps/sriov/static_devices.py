"""Devices that the configuration itself describes, for labs, test beds and odd hardware.

An entry of a pool's ``devices``::

    {"id": "fpga0", "numaNode": 1, "deviceNodes": ["/dev/fpga0"], "env": {"MODEL": "x"}}
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from numakube.apps.sriov.config_fields import Fields, WrongKind, expect
from numakube.apps.sriov.config_types import StaticDevice
from numakube.node.host_files import DeviceFile, Mount

if TYPE_CHECKING:
    from collections.abc import Iterator

_ID: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
"""What a device of the Container Device Interface may be called."""
_LONGEST_ID: Final = 63
_MOST: Final = 4096
"""Devices that one entry may stand for: a mistyped number must not fill the memory."""
_PERMISSIONS: Final = re.compile(r"r?w?m?")


def read_devices(pool: Fields) -> tuple[StaticDevice, ...]:
    """Return the devices of a static pool.

    Raises:
        WrongKind: with the first mistake.
    """
    found: dict[str, StaticDevice] = {}
    for number, entry in enumerate(pool.items("devices")):
        where = f"{pool.at('devices')}[{number}]"
        for device in _read(Fields(where, expect(entry, dict, where))):
            if device.id in found:
                raise WrongKind(f"{where}: id: {device.id!r} already exists")
            found[device.id] = device
    return tuple(found.values())


def _read(fields: Fields) -> Iterator[StaticDevice]:
    """Return one device, or ``count`` of them with a number at the end of their ids."""
    name = fields.text("id")
    count = _number(fields, "count", most=_MOST)
    names = [name] if count is None else [f"{name}{number}" for number in range(count)]
    healthy = fields.maybe_switch("healthy")
    for id_ in names:
        if len(id_) > _LONGEST_ID or not _ID.fullmatch(id_):
            raise WrongKind(
                f"{fields.at('id')}: {id_!r}: must have at most {_LONGEST_ID} letters, digits, "
                "'_', '.', ':' and '-', with a letter or digit at both ends"
            )
        yield StaticDevice(
            id=id_,
            numa_nodes=_numa_nodes(fields),
            healthy=healthy is not False,
            nodes=tuple(_nodes(fields)),
            mounts=tuple(_mounts(fields)),
            envs=fields.pairs("env"),
        )
    for remark in fields.unknown():
        raise WrongKind(str(remark).replace(" is ignored", ""))


def _numa_nodes(fields: Fields) -> tuple[int, ...]:
    single = _number(fields, "numaNode", least=-1)
    many = fields.items("numaNodes")
    if single is not None and many:
        raise WrongKind(f"{fields.where}: numaNode and numaNodes are mutually exclusive")
    numbers = [single] if single is not None else many
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int):
            raise WrongKind(f"{fields.at('numaNodes')}: {number!r} is not a number")
    return tuple(sorted({number for number in numbers if number >= 0}))


def _nodes(fields: Fields) -> Iterator[DeviceFile]:
    for number, entry in enumerate(fields.items("deviceNodes")):
        where = f"{fields.at('deviceNodes')}[{number}]"
        node = _paths(entry, where)
        permissions = node.text("permissions", "rw")
        if not permissions or not _PERMISSIONS.fullmatch(permissions):
            raise WrongKind(f"{where}: permissions: {permissions!r} is not made of r, w and m")
        host = _absolute(node, "hostPath")
        yield DeviceFile(node.text("containerPath") or host, host, permissions)


def _mounts(fields: Fields) -> Iterator[Mount]:
    for number, entry in enumerate(fields.items("mounts")):
        mount = _paths(entry, f"{fields.at('mounts')}[{number}]")
        host = _absolute(mount, "hostPath")
        yield Mount(mount.text("containerPath") or host, host, mount.switch("readOnly"))


def _paths(entry: Any, where: str) -> Fields:  # noqa: ANN401 - what the file has
    """Return an entry, for which its path alone may stand."""
    tree = {"hostPath": entry} if isinstance(entry, str) else expect(entry, dict, where)
    return Fields(where, tree)


def _absolute(fields: Fields, key: str) -> str:
    path = fields.text(key)
    if not path.startswith("/"):
        raise WrongKind(f"{fields.at(key)}: {path!r} is not an absolute path")
    return path


def _number(fields: Fields, key: str, *, least: int = 1, most: int = 1 << 31) -> int | None:
    value = fields.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise WrongKind(f"{fields.at(key)}: must be a number of {least} to {most}, not {value!r}")
    return value
