"""devlink over generic netlink, against a kernel that says what the test wants."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.node.pci.netlink import Devlink, attribute, attributes, message

FAMILY = 29
Answer = Callable[[int, dict[int, bytes]], bytes]


class Kernel:
    """Answers questions about devlink."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.asked: list[tuple[int, dict[int, bytes]]] = []

    def connect(self) -> socket.socket:
        """Return a connection, which a thread of its own answers until it is closed."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        threading.Thread(target=self._serve, args=(ours,), daemon=True).start()
        return theirs

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(1 << 16):
                _, family, _, _, _ = struct.unpack_from("=IHHII", data)
                command, _, _ = struct.unpack_from("=BBH", data, 16)
                given = dict(attributes(data[20:]))
                if family == 0x10:
                    answer = message(0x10, 1, attribute(1, struct.pack("=H", FAMILY)))
                else:
                    self.asked.append((command, given))
                    answer = self._answer(command, given)
                connection.send(answer)


def error(_: int, __: dict[int, bytes]) -> bytes:
    """Say that there is no such device."""
    return struct.pack("=IHHIIi", 36, 2, 0, 1, 0, -19) + bytes(16)


def version(name: str, value: str) -> bytes:
    """Return a version that is in use."""
    parts = attribute(103, name.encode() + b"\0") + attribute(104, value.encode() + b"\0")
    return attribute(0x8000 | 101, parts)


def test_the_firmware_of_a_function_is_asked_by_its_address() -> None:
    """Among other versions, by its name."""
    content = version("fw.mgmt", "6.1") + version("fw.app.name", "ICE OS Default Package")
    kernel = Kernel(lambda _, __: message(FAMILY, 51, content))
    devlink = Devlink(kernel.connect)

    assert devlink.firmware("0000:3b:00.0") == "ICE OS Default Package"
    assert devlink.versions("0000:3b:00.0")["fw.mgmt"] == "6.1"

    command, given = kernel.asked[0]
    assert command == 51
    assert given == {1: b"pci\0", 2: b"0000:3b:00.0\0"}


@pytest.mark.parametrize("on", [True, False])
def test_rdma_is_a_parameter_that_is_on_or_off(on: bool) -> None:
    """Of an auxiliary device, on its own bus."""
    value = (attribute(86, b"") if on else b"") + attribute(87, b"\0")
    parameter = attribute(81, b"enable_rdma\0") + attribute(84, attribute(85, value))
    content = attribute(80, parameter)
    kernel = Kernel(lambda _, __: message(FAMILY, 38, content))

    assert Devlink(kernel.connect).is_rdma_enabled("mlx5_core.sf.4") is on

    assert kernel.asked[0][1] == {1: b"auxiliary\0", 2: b"mlx5_core.sf.4\0", 81: b"enable_rdma\0"}


def test_what_the_kernel_refuses_is_nothing() -> None:
    """No such device."""
    devlink = Devlink(Kernel(error).connect)

    assert devlink.firmware("0000:3b:00.0") == ""
    assert devlink.is_rdma_enabled("0000:3b:00.0") is False


def test_without_netlink_there_is_nothing() -> None:
    """As in some sandboxes."""

    def refuse() -> socket.socket:
        raise PermissionError

    assert Devlink(refuse).versions("0000:3b:00.0") == {}


def test_the_kernel_of_this_host_does_not_know_a_function_that_does_not_exist() -> None:
    """Whether it has devlink or not."""
    assert Devlink().firmware("ffff:ff:1f.7") == ""
    assert Devlink().is_rdma_enabled("nothing.sf.0") is False


@given(st.binary(max_size=64))
def test_any_bytes_can_be_read(data: bytes) -> None:
    """What is cut short ends it."""
    assert sum(len(content) for _, content in attributes(data)) <= len(data)


@given(st.lists(st.tuples(st.integers(0, 0x3FFF), st.binary(max_size=9)), max_size=5))
def test_attributes_survive_the_wire(written: list[tuple[int, bytes]]) -> None:
    """With their padding."""
    data = b"".join(attribute(kind, content) for kind, content in written)

    assert list(attributes(data)) == written
