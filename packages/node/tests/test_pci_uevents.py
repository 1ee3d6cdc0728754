"""The kernel's announcements."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from numakube.node.pci.netlink import Uevents, subsystem_of


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, Uevents]]:
    """A kernel, and who listens to it."""
    kernel, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    uevents = Uevents(ours)
    yield kernel, uevents
    kernel.close()
    uevents.close()


def announced(subsystem: str, action: str = "add") -> bytes:
    """Return an announcement."""
    path = "/devices/pci0000:3a/0000:3b:01.0"
    return f"{action}@{path}\0ACTION={action}\0SUBSYSTEM={subsystem}\0SEQNUM=7\0".encode()


def test_only_some_announcements_matter(pair: tuple[socket.socket, Uevents]) -> None:
    """All that have come are read at once."""
    kernel, uevents = pair
    assert not uevents.matter()
    kernel.send(announced("block"))
    assert not uevents.matter()
    for subsystem in ("tty", "pci", "block"):
        kernel.send(announced(subsystem, "bind"))
    assert uevents.matter()
    assert not uevents.matter()


def test_an_announcement_without_a_subsystem_is_about_nothing() -> None:
    """Or one that makes no sense."""
    assert subsystem_of(b"") == ""
    assert subsystem_of(b"add@/x\0\xff=\xff\0") == ""
    assert subsystem_of(announced("net")) == "net"


def test_listening_on_this_host_works_or_does_not() -> None:
    """A sandbox may forbid it."""
    uevents = Uevents.open()

    if uevents is not None:
        uevents.matter()
        uevents.close()
