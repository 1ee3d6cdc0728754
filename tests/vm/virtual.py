"""A virtual machine from Debian packages with a real kubelet, containerd and cgroup v2.

Commands are run through one SSH connection that stays open; the kubelet's PodResources socket is
brought to the host by it. What is tried comes on a disk of its own that is made for each run, so
that neither another kubelet nor a change of numakube makes a new image necessary.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import msgspec
from tests.real.api_server import free_ports
from tests.vm import guest
from tests.vm.containers import basic_images, numakube_image
from tests.vm.image import Image, image
from tests.vm.kubelets import KubeletFile
from tests.vm.node import NodeFailed
from tests.vm.programs import Program, asset, search_path
from tests.vm.qemu import NIC, VF, accelerator_of, command

from numakube.api.yaml_text import dump_yaml
from numakube.kube.connection.cluster_config import load_config
from numakube.kubelet.machine import Machine
from numakube.kubelet.machines.sysfs_files import from_sysfs
from numakube.kubelet.state_files import StateFiles
from numakube.node.podresources_client import PodResources, PodResourcesClient
from numakube.node.sysfs_machine import _PATTERNS
from numakube.testing import elapse

KIND: Final[Mapping[str, Any]] = {
    "cgroupDriver": "systemd",
    "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
}
_STATE: Final = "/var/lib/kubelet"
_FILES: Final = (
    "cpu_manager_state",
    "memory_manager_state",
    "device-plugins/kubelet_internal_checkpoint",
)
POOLS: Final = {
    "resourceList": [
        {
            "resourceName": NIC.partition("/")[2],
            "selectors": {"vendors": ["8086"], "devices": ["10d3"]},
            "checkLink": False,
            "preferredAllocation": "none",
        },
        {
            "resourceName": VF.partition("/")[2],
            "deviceType": "pciDevice",
            "selectors": {"vendors": ["1b36"], "devices": ["0010"], "drivers": ["pci-stub"]},
            "preferredAllocation": "none",
        },
    ]
}
# NVMe functions without queues have no driver that would take them but one that does nothing.
_MAKE_FUNCTIONS: Final = """
modprobe pci-stub 2>/dev/null
for pf in /sys/class/nvme/nvme*/device; do
  [ -e $pf/sriov_totalvfs ] || continue
  echo 0 > $pf/sriov_drivers_autoprobe
  cat $pf/sriov_totalvfs > $pf/sriov_numvfs
  for vf in $pf/virtfn*; do
    echo pci-stub > $vf/driver_override
    basename $(readlink -f $vf) > /sys/bus/pci/drivers_probe
  done
done
true
"""
_BOOT_SECONDS: Final = 240.0
_SLOWNESS: Final = {"kvm": 2.0, "tcg": 8.0}


@dataclass(slots=True)
class VirtualNode:
    """A guest that runs, and numakube's components in it.

    Attributes:
        folder: where its disks, sockets and logs are on the host.
        machine: what its kubelet sees; a kernel keeps some of the shape's memory for itself.
    """

    folder: Path
    machine: Machine
    slowness: float
    _key: Path
    _port: int
    name: str = guest.NODE
    kind: dict[str, Any] = field(default_factory=lambda: dict(KIND))

    @property
    def kubelet_file(self) -> KubeletFile:
        """What makes the configurations of its kubelet."""
        return KubeletFile(self.machine, self.kind)

    async def run(self, command: str, *, within: float = 60.0) -> str:
        """Run a shell command in the guest and return what it prints."""
        process = await asyncio.create_subprocess_exec(
            *self._ssh(command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(within * self.slowness):
                out, errors = await process.communicate()
        except TimeoutError:
            process.kill()
            raise NodeFailed(f"{command}: not done after {within * self.slowness:.0f} s") from None
        if process.returncode:
            raise NodeFailed(f"{command}: {errors.decode()}{out.decode()}")
        return out.decode()

    async def read(self, path: str) -> str | None:
        """Return a file of the guest; ``None`` if there is none."""
        quoted = shlex.quote(path)
        found = await self.run(f"if [ -e {quoted} ]; then echo yes; cat {quoted}; fi")
        return found.removeprefix("yes\n") if found else None

    async def write(self, path: str, text: str) -> None:
        """Write a file in the guest."""
        process = await asyncio.create_subprocess_exec(
            *self._ssh(f"mkdir -p $(dirname {path}); cat > {path}"), stdin=asyncio.subprocess.PIPE
        )
        await process.communicate(text.encode())

    async def configure(self, document: Mapping[str, Any]) -> None:
        """Stop the kubelet, forget its state, and start it with another configuration."""
        await self.run("systemctl stop kubelet || true")
        await self.write(f"{_STATE}/config.yaml", dump_yaml(dict(document)))
        files = " ".join(f"{_STATE}/{name}" for name in _FILES)
        await self.run(f"rm -f {files}; systemctl daemon-reload; systemctl start kubelet")

    async def use_driver(self, driver: str) -> None:
        """Let runtime and kubelet make control groups by systemd or by themselves.

        There must be no pods: the groups that the other driver has left are removed.
        """
        self.kind["cgroupDriver"] = driver
        change = f"s/SystemdCgroup = .*/SystemdCgroup = {str(driver == 'systemd').lower()}/"
        await self.run(
            f"systemctl stop kubelet kubepods.slice; sed -i '{change}' /etc/containerd/config.toml;"
            " find /sys/fs/cgroup/kubepods -depth -type d -exec rmdir {} + 2>/dev/null;"
            " systemctl restart containerd"
        )

    async def load_numakube_image(self) -> None:
        """Give the runtime the image that manifests of components name."""
        await self.run(f"ctr -n k8s.io images import {guest.STUFF}/later/numakube.tar", within=60)

    async def restart_kubelet(self) -> None:
        """Kill the kubelet and start it again."""
        await self.run("systemctl kill -s KILL kubelet; systemctl restart kubelet")

    async def restart_plugins(self) -> None:
        """Kill the device plugin and start it again."""
        await self.kill("sriov")
        await self.start("sriov")

    async def state_files(self) -> StateFiles:
        """Return the state files of the managers, all read at once."""
        script = (
            f"cd {_STATE}; for f in {' '.join(_FILES)}; do cat $f 2>/dev/null; echo; echo --; done"
        )
        parts = [part.strip().encode() or None for part in (await self.run(script)).split("--\n")]
        return StateFiles(cpu=parts[0], memory=parts[1], devices=parts[2])

    async def pod_resources(self) -> tuple[PodResources, ...]:
        """Ask the kubelet what pods hold."""
        socket = self.folder / "podresources.sock"
        return await PodResourcesClient(socket, timeout=60.0).list_pods()

    async def start(self, component: str, arguments: Sequence[str] = ()) -> None:
        """Start a component as a unit of systemd."""
        words = ["numakube", component, *_defaults(component), *arguments]
        log = f"/var/log/numakube-{component}.log"
        await self.run(
            f"systemctl reset-failed numakube-{component} 2>/dev/null; "
            f"systemd-run --quiet --unit=numakube-{component} -p StandardOutput=append:{log} "
            f"-p StandardError=append:{log} {shlex.join(words)}"
        )

    async def kill(self, component: str) -> None:
        """End a component on the spot."""
        await self.run(f"systemctl kill -s KILL numakube-{component}; {_gone(component)}")

    async def stop(self, component: str) -> None:
        """End a component politely."""
        await self.run(f"systemctl stop numakube-{component}")

    async def usage(self, component: str) -> tuple[float, int]:
        """Return the CPU seconds and resident bytes of a component."""
        pid = f"$(systemctl show -P MainPID numakube-{component})"
        text = await self.run(f"cat /proc/{pid}/stat; getconf CLK_TCK; getconf PAGESIZE")
        stat, ticks, page = text.strip().splitlines()
        numbers = stat.split(")")[1].split()
        return (int(numbers[11]) + int(numbers[12])) / int(ticks), int(numbers[21]) * int(page)

    async def log(self, component: str) -> str:
        """Return the end of a log."""
        if component == "kubelet":
            return await self.run("journalctl -u kubelet -n 60 --no-pager -o cat")
        return await self.run(f"tail -n 40 /var/log/numakube-{component}.log")

    async def pod_log(self, component: str) -> str:
        """Return the end of what the pods of a component have written."""
        return await self.run(f"tail -n 20 /var/log/pods/*{component}*/*/*.log 2>&1 || true")

    def _ssh(self, *command: str) -> list[str]:
        return [
            *("ssh", "-q", "-i", str(self._key), "-p", str(self._port)),
            *("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"),
            *("-o", f"ControlPath={self.folder}/ssh.sock", "-o", "ConnectTimeout=30"),
            "root@127.0.0.1",
            *command,
        ]

    def connection(self) -> list[str]:
        """Return the command of the connection that all others share."""
        socket = f"{self.folder}/podresources.sock:{_STATE}/pod-resources/kubelet.sock"
        options = ("-N", "-M", "-o", "StreamLocalBindUnlink=yes", "-L", socket)
        first, *rest = self._ssh()
        return [first, *options, *rest]


@contextlib.asynccontextmanager
async def virtual_node(
    folder: Path, machine: Machine, *, kubeconfig: Path, numakube: Path
) -> AsyncIterator[VirtualNode]:
    """Boot a machine of that shape; the kubelet starts when it is configured."""
    made = await asyncio.to_thread(image)
    folder.mkdir(parents=True)
    overlay, stuff = folder / "root.qcow2", folder / "stuff.ext4"
    _make_overlay(overlay, made.disk)
    await asyncio.to_thread(_make_stuff, stuff, made, kubeconfig, numakube)
    (port,) = free_ports(1)
    arguments = command(
        made, machine, overlay=overlay, stuff=stuff, console=folder / "console.log", ssh_port=port
    )
    slowness = _SLOWNESS[accelerator_of(made)]
    guest_machine = Program(arguments, folder / "qemu.log")
    node = VirtualNode(folder, machine, slowness, made.key, port)
    connection = Program(node.connection(), folder / "ssh.log")
    guest_machine.start()
    try:
        await _connect(node, guest_machine, connection)
        await _prepare(node, machine, kubeconfig)
        yield node
    finally:
        await connection.stop()
        guest_machine.kill()


async def _connect(node: VirtualNode, machine: Program, connection: Program) -> None:
    end = time.monotonic() + _BOOT_SECONDS
    while True:
        if not connection.running:
            connection.start()
        with contextlib.suppress(NodeFailed):
            await node.run("true", within=4)
            return
        if not machine.running or time.monotonic() > end:
            console = (node.folder / "console.log").read_text(errors="replace")[-2000:]
            raise NodeFailed(f"the guest does not answer: {machine.last_words()}{console}")
        await elapse(1)


async def _prepare(node: VirtualNode, shape: Machine, kubeconfig: Path) -> None:
    """Let the guest reach the API server where pods look for it, and get its devices ready."""
    port = load_config(kubeconfig=kubeconfig, env={}).server.rpartition(":")[2]
    to = f"-d 10.0.0.1 -p tcp --dport 443 -j DNAT --to 10.0.2.2:{port}"
    await node.run(f"iptables -t nat -A OUTPUT {to} && iptables -t nat -A PREROUTING {to}")
    await node.run(f"for i in {guest.STUFF}/*.tar; do ctr -n k8s.io images import $i; done")
    node.machine = replace(await _machine(node), devices=shape.devices)
    if shape.devices:
        await node.write("/etc/pcidp/config.json", json.dumps(POOLS))
        await node.run(_MAKE_FUNCTIONS)
        await node.start("sriov")


async def _machine(node: VirtualNode) -> Machine:
    """Return the machine as the guest's kernel describes it."""
    patterns = " ".join(_PATTERNS)
    text = await node.run(f"cd /sys && grep -H '' {patterns} 2>/dev/null || true")
    files: dict[str, str] = {}
    for line in text.splitlines():
        path, _, content = line.partition(":")
        files[path] = files.get(path, "") + content + "\n"
    return from_sysfs(files, subject="the guest's /sys")


def _make_overlay(overlay: Path, disk: Path) -> None:
    """Make a disk that has everything of *disk*, which stays as it is."""
    _do("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(disk), str(overlay))


def _make_stuff(disk: Path, made: Image, kubeconfig: Path, numakube: Path) -> None:
    """Make the disk with what is tried: kubelet, numakube, images and how to reach the API."""
    with tempfile.TemporaryDirectory(dir=disk.parent) as name:
        folder = Path(name)
        shutil.copy(asset("kubelet"), folder / "kubelet")
        package = folder / "site" / "numakube"
        for source in sources_of(numakube):
            shutil.copytree(source, package, ignore=_no_caches, dirs_exist_ok=True)
        for file, content in basic_images(made.busybox).items():
            (folder / file).write_bytes(content)
        (folder / "later").mkdir()
        numakube_tar = numakube_image(made.python, package)
        (folder / "later/numakube.tar").write_bytes(numakube_tar)
        (folder / "kubeconfig").write_text(_inner_kubeconfig(kubeconfig))
        _do("mke2fs", "-q", "-t", "ext4", "-d", str(folder), str(disk), "512M")


def _inner_kubeconfig(kubeconfig: Path) -> str:
    """Return how the guest reaches the API server.

    It does so by the service address, which the certificate names and which the guest's kernel
    sends on to the host.
    """
    config = msgspec.yaml.decode(kubeconfig.read_bytes())
    cluster = config["clusters"][0]["cluster"]
    authority = Path(cluster.pop("certificate-authority")).read_bytes()
    cluster["certificate-authority-data"] = b64encode(authority).decode()
    cluster["server"] = "https://10.0.0.1:443"
    return dump_yaml(config)


def sources_of(numakube: Path) -> list[Path]:
    """Return the folders of the package that the command *numakube* runs: one a distribution."""
    code = "import numakube; print(*numakube.__path__, sep='\\n')"
    printed = _do(str(numakube.with_name("python")), "-c", code)
    return [Path(line) for line in printed.splitlines()]


def _no_caches(_: str, names: list[str]) -> list[str]:
    return [name for name in names if name == "__pycache__"]


def _do(*command: str) -> str:
    return subprocess.run(  # noqa: S603 - the developer's own
        command,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PATH": search_path()},
    ).stdout


def _defaults(component: str) -> tuple[str, ...]:
    if component == "sriov":
        return ("--resource-prefix=vendor.example",)
    return (f"--kubeconfig={guest.STUFF}/kubeconfig", f"--hostname={guest.NODE}")


def _gone(component: str) -> str:
    return f"while systemctl is-active -q numakube-{component}; do sleep 0.1; done"
