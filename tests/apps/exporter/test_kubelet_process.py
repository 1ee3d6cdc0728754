"""The configuration of a running kubelet, found by its command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from numakube.apps.exporter.kubelet_config_sources import FirstOf
from numakube.apps.exporter.kubelet_process import CommandLine
from numakube.kube.clock import ManualClock


class Host:
    """A host that is a folder, with a kubelet among its processes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.process("1", "systemd", "/sbin/init")

    def process(self, number: str, name: str, *line: str) -> Path:
        """Add a process; return its folder."""
        folder = self.root / "proc" / number
        folder.mkdir(parents=True)
        (folder / "comm").write_text(f"{name}\n")
        (folder / "cmdline").write_bytes("\0".join(line).encode() + b"\0")
        return folder

    def file(self, path: str, text: str) -> None:
        """Write a file."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def source(self) -> CommandLine:
        """Return what an exporter has that sees the kubelet's folder as ``/host-kubelet``."""
        return CommandLine(
            self.root / "proc",
            state_dir="/host-kubelet",
            locate=lambda path: self.root / "here" / path.removeprefix("/"),
            clock=ManualClock(),
        )

    async def policy(self) -> tuple[str, str]:
        """Return the policies that are found."""
        found = await self.source().read()
        assert found is not None
        return found.topology_manager_policy, found.cpu_manager_policy


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A host without a kubelet."""
    return Host(tmp_path)


async def test_a_file_elsewhere_is_found_in_the_root_of_the_process(host: Host) -> None:
    """With its drop-ins, in the order of their names, and the flags."""
    kubelet = host.process(
        "77", "kubelet", "/usr/bin/kubelet", "--config=/etc/k/c.yaml", "--config-dir=/etc/k/d",
        "--cpu-manager-policy=static",
    )  # fmt: skip
    root = f"proc/{kubelet.name}/root/etc/k"
    host.file(f"{root}/c.yaml", "topologyManagerPolicy: best-effort")
    host.file(f"{root}/d/20.conf", "topologyManagerPolicy: restricted")
    host.file(f"{root}/d/10.conf", "topologyManagerPolicy: none")
    host.file(f"{root}/d/30.yaml", "topologyManagerPolicy: single-numa-node")

    assert await host.policy() == ("restricted", "static")


async def test_a_file_in_the_kubelets_folder_is_found_where_that_is_mounted(host: Host) -> None:
    """Another container's root is closed to who has no privileges."""
    host.process("77", "kubelet", "kubelet", "--config", "/var/lib/kubelet/conf/kubelet.yaml")
    host.file("here/host-kubelet/conf/kubelet.yaml", "topologyManagerPolicy: restricted")

    assert await host.policy() == ("restricted", "none")


async def test_a_kubelet_without_a_file_has_its_flags(host: Host) -> None:
    """And the defaults for the rest."""
    host.process("77", "kubelet", "kubelet", "--topology-manager-policy", "single-numa-node")

    assert await host.policy() == ("single-numa-node", "none")


async def test_what_cannot_be_seen_is_named(host: Host) -> None:
    """First the process, then its file."""
    source = FirstOf([host.source()])
    assert await source.read() is None
    assert source.missing() == f"no process kubelet is seen in {host.root / 'proc'}"

    host.process("77", "kubelet", "kubelet", "--config=/etc/k/c.yaml")
    source.refresh()
    assert await source.read() is None
    assert source.missing() == "the kubelet reads /etc/k/c.yaml, which is not visible here"
