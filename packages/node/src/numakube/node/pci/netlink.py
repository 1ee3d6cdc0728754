"""What the kernel tells of devices over netlink: devlink's answers, and announcements of changes.

    devlink = Devlink()
    devlink.firmware("0000:3b:00.0")  # the DDP package, such as "ICE OS Default Package"
    devlink.is_rdma_enabled("mlx5_core.sf.4")

Devices belong to a network namespace, so that only who is in the host's sees them. Everything that
goes wrong (no devlink, no such device, no right) is an answer like none: empty, or no.

sysfs cannot be watched like other files. `Uevents` hears of devices that come, go, or get another
driver, also in containers. It tells a container nothing of network interfaces of the host, so that
it makes looking faster but does not replace it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.node.pci.pci_functions import is_address

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator


Connect: TypeAlias = Callable[[], socket.socket]
"""Opens a connection to the kernel."""

FIRMWARE_NAME: Final = "fw.app.name"
RDMA_PARAMETER: Final = "enable_rdma"

# linux/netlink.h and linux/genetlink.h
_GENERIC: Final = 16
_HEADER: Final = struct.Struct("=IHHII")
_GENERIC_HEADER: Final = struct.Struct("=BBH")
_ATTRIBUTE: Final = struct.Struct("=HH")
_TYPE_MASK: Final = 0x3FFF
_REQUEST: Final = 1
_ERROR: Final = 2
_DONE: Final = 3
_CONTROLLER: Final = 0x10
_GET_FAMILY: Final = 3
_FAMILY_ID: Final = 1
_FAMILY_NAME: Final = 2
_BUFFER_BYTES: Final = 1 << 16
_SECONDS: Final = 2.0
_LEAST_PAUSE_SECONDS: Final = 0.5
"""Pause between changes that are told: the kernel announces them in hundreds."""

# linux/devlink.h
_PARAM_GET: Final = 38
_INFO_GET: Final = 51
_BUS_NAME: Final = 1
_DEVICE_NAME: Final = 2
_PARAM: Final = 80
_PARAM_NAME: Final = 81
_PARAM_VALUES: Final = 84
_PARAM_VALUE: Final = 85
_PARAM_VALUE_DATA: Final = 86
_VERSIONS: Final = (100, 101, 102)  # fixed, running, stored
_VERSION_NAME: Final = 103
_VERSION_VALUE: Final = 104


def open_netlink() -> socket.socket:
    """Connect to the kernel's generic netlink.

    Raises:
        OSError: there is none.
    """
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _GENERIC)


class Devlink:
    """Asks the kernel; every question has a connection of its own, so that threads can share it."""

    def __init__(self, connect: Connect = open_netlink) -> None:
        self._connect = connect
        self._family: int | None = None

    def firmware(self, address: str) -> str:
        """Return the name of the DDP package of a PCI function; empty if it tells none."""
        return self.versions(address).get(FIRMWARE_NAME, "")

    def versions(self, device: str) -> dict[str, str]:
        """Return what a device says about its firmware, by name."""
        found = {}
        for kind, payload in attributes(self._ask(_INFO_GET, device) or b""):
            if kind in _VERSIONS:
                parts = dict(attributes(payload))
                found[_text(parts.get(_VERSION_NAME))] = _text(parts.get(_VERSION_VALUE))
        return found

    def is_rdma_enabled(self, device: str) -> bool:
        """Tell whether RDMA is switched on for a PCI function or an auxiliary device."""
        wanted = attribute(_PARAM_NAME, RDMA_PARAMETER.encode() + b"\0")
        answer = dict(attributes(self._ask(_PARAM_GET, device, wanted) or b""))
        parameter = dict(attributes(answer.get(_PARAM, b"")))
        for kind, value in attributes(parameter.get(_PARAM_VALUES, b"")):
            if kind == _PARAM_VALUE:
                # A truth value is on if its data is there at all.
                return _PARAM_VALUE_DATA in dict(attributes(value))
        return False

    def _ask(self, command: int, device: str, more: bytes = b"") -> bytes | None:
        """Return the attributes of the answer about *device*; ``None`` if there is none."""
        bus = "pci" if is_address(device) else "auxiliary"
        question = attribute(_BUS_NAME, bus.encode() + b"\0")
        question += attribute(_DEVICE_NAME, device.encode() + b"\0") + more
        try:
            with self._connect() as connection:
                connection.settimeout(_SECONDS)
                family = self._find_family(connection)
                return None if family is None else _exchange(connection, family, command, question)
        except OSError:
            return None

    def _find_family(self, connection: socket.socket) -> int | None:
        """Return the number that the kernel has given to devlink since it started."""
        if self._family is None:
            question = attribute(_FAMILY_NAME, b"devlink\0")
            answer = _exchange(connection, _CONTROLLER, _GET_FAMILY, question)
            number = dict(attributes(answer or b"")).get(_FAMILY_ID)
            if number is not None and len(number) >= 2:
                self._family = struct.unpack("=H", number[:2])[0]
        return self._family


def attribute(kind: int, payload: bytes) -> bytes:
    """Return an attribute as it goes over the wire."""
    data = _ATTRIBUTE.pack(_ATTRIBUTE.size + len(payload), kind) + payload
    return data + bytes(-len(data) % 4)


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield kind and content of all attributes in *data*; what is cut short ends it."""
    position = 0
    while position + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, position)
        if length < _ATTRIBUTE.size or position + length > len(data):
            return
        yield kind & _TYPE_MASK, data[position + _ATTRIBUTE.size : position + length]
        position += length + (-length % 4)


def message(family: int, command: int, payload: bytes) -> bytes:
    """Return a message as it goes over the wire."""
    body = _GENERIC_HEADER.pack(command, 1, 0) + payload
    return _HEADER.pack(_HEADER.size + len(body), family, _REQUEST, 1, 0) + body


def _exchange(connection: socket.socket, family: int, command: int, payload: bytes) -> bytes | None:
    """Send a question; return the attributes of the answer, or ``None`` if it is an error."""
    connection.send(message(family, command, payload))
    answer = connection.recv(_BUFFER_BYTES)
    if len(answer) < _HEADER.size + _GENERIC_HEADER.size:
        return None
    length, kind, _, _, _ = _HEADER.unpack_from(answer)
    if kind in (_ERROR, _DONE):
        return None
    return answer[_HEADER.size + _GENERIC_HEADER.size : length]


def _text(data: bytes | None) -> str:
    return (data or b"").rstrip(b"\0").decode("utf-8", "replace")


_UEVENTS: Final = 15  # NETLINK_KOBJECT_UEVENT
_KERNEL_GROUP: Final = 1
_EVENT_BYTES: Final = 1 << 16
SUBSYSTEMS: Final = frozenset({"pci", "net", "auxiliary", "infiniband", "vdpa"})
"""Whose changes may change what can be offered."""


class Uevents:
    """Listens to the kernel."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connection = connection

    @classmethod
    def open(cls) -> Uevents | None:
        """Begin to listen; ``None`` where that is not possible."""
        try:
            connection = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _UEVENTS)
        except OSError:
            return None
        try:
            connection.bind((0, _KERNEL_GROUP))
        except OSError:
            connection.close()
            return None
        return cls(connection)

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._connection.fileno()

    def matter(self) -> bool:
        """Tell whether something that was announced since may change what can be offered."""
        found = False
        while True:
            try:
                announced = self._connection.recv(_EVENT_BYTES)
            except BlockingIOError:
                return found
            except OSError:
                # The kernel has dropped some because they came too fast.
                return True
            if not announced:
                return found
            found = found or subsystem_of(announced) in SUBSYSTEMS

    def close(self) -> None:
        """Stop listening."""
        self._connection.close()


async def hear_uevents(
    changed: Callable[[], None], sleep: Callable[[float], Awaitable[None]]
) -> None:
    """Call *changed* when the kernel announces devices, until cancelled.

    Ends at once where nothing can be heard.
    """
    uevents = Uevents.open()
    if uevents is None:
        return
    loop, announced = asyncio.get_running_loop(), asyncio.Event()

    def hear() -> None:
        if uevents.matter():
            announced.set()

    loop.add_reader(uevents.fileno(), hear)
    try:
        while True:
            await announced.wait()
            announced.clear()
            changed()
            await sleep(_LEAST_PAUSE_SECONDS)
    finally:
        loop.remove_reader(uevents.fileno())
        uevents.close()


def subsystem_of(announced: bytes) -> str:
    """Return what an announcement is about; empty if it does not say."""
    for field in announced.split(b"\0"):
        if field.startswith(b"SUBSYSTEM="):
            return field.removeprefix(b"SUBSYSTEM=").decode("ascii", "replace")
    return ""
