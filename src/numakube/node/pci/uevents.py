"""The kernel's announcements of devices that come, go, or get another driver.

sysfs cannot be watched like other files. The kernel tells of changes over netlink instead, to
all listeners, also in containers. It tells a container nothing of network interfaces of the host,
so that this makes looking faster but does not replace it.
"""

from __future__ import annotations

import socket
from typing import Final

_UEVENTS: Final = 15  # NETLINK_KOBJECT_UEVENT
_KERNEL_GROUP: Final = 1
_BUFFER_BYTES: Final = 1 << 16
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
                announced = self._connection.recv(_BUFFER_BYTES)
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


def subsystem_of(announced: bytes) -> str:
    """Return what an announcement is about; empty if it does not say."""
    for field in announced.split(b"\0"):
        if field.startswith(b"SUBSYSTEM="):
            return field.removeprefix(b"SUBSYSTEM=").decode("ascii", "replace")
    return ""
