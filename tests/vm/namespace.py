"""A real kubelet on this host, in a mount namespace in which the machine looks like another one.

It runs at full speed on a machine of any shape: CPUs, NUMA nodes and memory are files that
`numakube.node.sysfs_machine` has written, and which the kubelet finds where the kernel's would be.
Admission, state files, PodResources and statuses are the kubelet's own; containers are entries in
the table of `fake_runtime`. It is root in a user namespace if it is not root.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.real.api_server import free_ports
from tests.vm.devices import FakePlugins
from tests.vm.fake_runtime import FakeRuntime
from tests.vm.kubelets import FEATURE_GATES, KubeletFile
from tests.vm.node import NodeFailed, WouldNotStart
from tests.vm.programs import Program, asset
from tests.vm.truth import truth_of

from numakube.api.kubelet_config import read_kubelet_config
from numakube.api.yaml_text import dump_yaml
from numakube.errors import InvalidValue, KubeletStartError
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Machine
from numakube.kubelet.manager_settings import settings_of
from numakube.kubelet.state_files import StateFiles, restore
from numakube.node.podresources_client import PodResources, PodResourcesClient
from numakube.node.sysfs_machine import write_tree
from numakube.testing import elapse, until

PACKAGES: Final = {"unshare": "util-linux", "mount": "mount"}
NEEDS: Final = "a kubelet in a mount namespace needs root, or user namespaces for plain users"
# What the kubelet needs on a host whose control groups are none of its business.
KIND: Final[Mapping[str, Any]] = {
    "cgroupDriver": "cgroupfs",
    "cgroupsPerQOS": False,
    "enforceNodeAllocatable": [],
    "failCgroupV1": False,
    "localStorageCapacityIsolation": False,
    "makeIPTablesUtilChains": False,
    "imageGCHighThresholdPercent": 100,
    # One that is root in a user namespace may not read the kernel's messages.
    "featureGates": {**FEATURE_GATES, "KubeletInUserNamespace": os.geteuid() != 0},
}
# What makes this process root, as far as mounts and a kubelet go.
_ROOT: Final = () if os.geteuid() == 0 else ("--user", "--map-root-user")
_UNSHARE: Final = ("unshare", *_ROOT, "--mount", "--propagation=private")
_MAKE_FOLDER: Final = (
    "[ -d /var/lib/kubelet ] || { mount -t tmpfs none /var/lib; mkdir /var/lib/kubelet; }"
)
# What a kubelet sets in the kernel; here it finds files, so that the host stays as it is.
TUNABLES: Final[Mapping[str, str]] = {
    "sys/vm/overcommit_memory": "1",
    "sys/vm/panic_on_oom": "0",
    "sys/kernel/panic": "10",
    "sys/kernel/panic_on_oops": "1",
    "sys/kernel/keys/root_maxkeys": "1000000",
    "sys/kernel/keys/root_maxbytes": "25000000",
}
_KIB: Final = 1024
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_WRITE_SECONDS: Final = 0.005
_MOST_WRITES: Final = 200
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def can_be_had() -> bool:
    """Tell whether this user is root, or may be root in a user namespace."""
    try:
        done = subprocess.run([*_UNSHARE, "true"], check=False, capture_output=True)  # noqa: S603
    except FileNotFoundError:
        return False
    return done.returncode == 0


@dataclass(slots=True)
class NamespaceNode:
    """A kubelet in a mount namespace, and numakube's components beside it.

    Attributes:
        folder: where everything of it is; kept short, since sockets are in it.
        machine: what the kubelet sees.
        kubeconfig: how the control plane is reached.
        numakube: the command, of this worktree or of another one.
    """

    folder: Path
    machine: Machine
    kubeconfig: Path
    numakube: Path
    name: str = "numa0"
    slowness: float = 1.0
    runtime: FakeRuntime = field(default_factory=FakeRuntime)
    plugins: FakePlugins = field(init=False)
    _kubelet: Program = field(init=False)
    _components: dict[str, Program] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.plugins = FakePlugins(self.state / "device-plugins", self.machine.devices)
        command = [*_UNSHARE, "sh", "-euc", self._script()]
        self._kubelet = Program(command, self.folder / "kubelet.log")

    @property
    def state(self) -> Path:
        """What is ``/var/lib/kubelet`` to the kubelet."""
        return self.folder / "kubelet"

    @property
    def kubelet_file(self) -> KubeletFile:
        """What makes the configurations of its kubelet."""
        (port,) = free_ports(1)
        return KubeletFile(self.machine, {**KIND, "port": port})

    async def prepare(self) -> None:
        """Write the machine and start the runtime; the kubelet has no configuration yet."""
        for name, text in TUNABLES.items():
            (self.folder / "proc" / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / "proc" / name).write_text(text)
        for name in ("kubelet/device-plugins", "logs", "empty", "sys/kernel/mm/hugepages"):
            (self.folder / name).mkdir(parents=True)
        write_tree(self.machine, self.folder / "sys")
        for path, text in _host_files(self.machine).items():
            file = self.folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        await self.runtime.start(self.folder / "runtime.sock")
        await self.plugins.start()

    async def aclose(self) -> None:
        """End everything."""
        for program in (*self._components.values(), self._kubelet):
            await program.stop()
        await self.plugins.stop()
        await self.runtime.stop()

    async def run(self, command: str, *, within: float = 60.0) -> str:
        """Run a shell command on the host."""
        process = await asyncio.create_subprocess_shell(
            command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(within):
            out, errors = await process.communicate()
        if process.returncode:
            raise NodeFailed(f"{command}: {errors.decode()}")
        return out.decode()

    async def read(self, path: str) -> str | None:
        """Return a file; below ``/var/lib/kubelet`` it is the kubelet's."""
        file = Path(path.replace("/var/lib/kubelet", str(self.state), 1))
        return file.read_text() if file.exists() else None

    async def configure(self, document: Mapping[str, Any]) -> None:
        """Stop the kubelet, forget its state, and start it with another configuration."""
        await self._kubelet.stop()
        for name in ("cpu_manager_state", "memory_manager_state"):
            (self.state / name).unlink(missing_ok=True)
        (self.state / "device-plugins/kubelet_internal_checkpoint").unlink(missing_ok=True)
        (self.state / "config.yaml").write_text(dump_yaml(dict(document)))
        self._kubelet.start()

    async def restart_kubelet(self) -> None:
        """Kill the kubelet and start it again.

        Not between two writes by which it gives out CPUs or memory: it does not start from what is
        in its files then ("please drain node and remove policy state file").

        Raises:
            WouldNotStart: that does not pass.
        """
        for _ in range(_MOST_WRITES):
            os.kill(self._kubelet.pid, signal.SIGSTOP)
            await until(self._has_stopped)
            if await self._would_start():
                break
            os.kill(self._kubelet.pid, signal.SIGCONT)
            await elapse(_WRITE_SECONDS)
        else:
            raise WouldNotStart
        self._kubelet.kill()
        self._kubelet.start()

    def _has_stopped(self) -> bool:
        """Tell whether every thread of the kubelet stands still."""
        threads = Path(f"/proc/{self._kubelet.pid}/task").glob("*/stat")
        return all(thread.read_text().rpartition(")")[2].split()[0] == "T" for thread in threads)

    async def _would_start(self) -> bool:
        config = read_kubelet_config((self.state / "config.yaml").read_text())
        model = KubeletNode(self.machine, settings_of(config, self.machine))
        files = await self.state_files()
        try:
            restore(model, files)
        except (KubeletStartError, InvalidValue):
            return False
        return not truth_of(files).groups_overlap

    async def restart_plugins(self) -> None:
        """End all device plugins, and start them again."""
        await self.plugins.stop()
        await self.plugins.start()

    async def state_files(self) -> StateFiles:
        """Return the state files of the managers."""
        return StateFiles(
            cpu=_bytes(self.state / "cpu_manager_state"),
            memory=_bytes(self.state / "memory_manager_state"),
            devices=_bytes(self.state / "device-plugins/kubelet_internal_checkpoint"),
        )

    async def pod_resources(self) -> tuple[PodResources, ...]:
        """Ask the kubelet what pods hold."""
        return await PodResourcesClient(self.state / "pod-resources/kubelet.sock").list_pods()

    async def start(self, component: str, arguments: Sequence[str] = ()) -> None:
        """Start a component with the paths of this node's files."""
        program = self._components.get(component)
        if program is None:
            program = self.program(component, arguments)
        program.start()

    def program(self, component: str, arguments: Sequence[str] = ()) -> Program:
        """Return a component that is not started yet, and remember it."""
        places = self._exporter_places() if component == "exporter" else ()
        command: list[str | Path] = [
            self.numakube,
            component,
            f"--kubeconfig={self.kubeconfig}",
            *places,
            *arguments,
        ]
        program = Program(command, self.folder / f"{component}.log")
        self._components[component] = program
        return program

    async def kill(self, component: str) -> None:
        """End a component on the spot."""
        self._components[component].kill()

    async def stop(self, component: str) -> None:
        """End a component politely."""
        await self._components[component].stop()

    async def usage(self, component: str) -> tuple[float, int]:
        """Return the CPU seconds and resident bytes of a component."""
        fields = Path(f"/proc/{self._components[component].pid}/stat").read_text().split(")")[1]
        numbers = fields.split()
        return (int(numbers[11]) + int(numbers[12])) / _TICKS, int(numbers[21]) * _PAGE

    async def log(self, component: str) -> str:
        """Return the end of a log."""
        program = self._kubelet if component == "kubelet" else self._components[component]
        return program.last_words()

    def _exporter_places(self) -> tuple[str, ...]:
        return (
            f"--hostname={self.name}",
            f"--sysfs={self.folder / 'sys'}",
            f"--podresources-socket=unix://{self.state}/pod-resources/kubelet.sock",
            f"--kubelet-state-dir={self.state}",
            f"--kubelet-config-file={self.state}/config.yaml",
            "--metrics-port=0",
        )

    def _script(self) -> str:
        """Return what makes the machine look like another one, and becomes the kubelet then."""
        binds = {
            self.folder / "sys/devices/system/node": "/sys/devices/system/node",
            self.folder / "sys/devices/system/cpu": "/sys/devices/system/cpu",
            self.folder / "sys/kernel/mm/hugepages": "/sys/kernel/mm/hugepages",
            self.folder / "proc/meminfo": "/proc/meminfo",
            self.folder / "proc/cpuinfo": "/proc/cpuinfo",
            self.state: "/var/lib/kubelet",
            self.folder / "logs": "/var/log",
            **{self.folder / "proc" / name: f"/proc/{name}" for name in TUNABLES},
        }
        mounts = [shlex.join(["mount", "--bind", str(have), want]) for have, want in binds.items()]
        kubelet = [
            str(asset("kubelet")),
            "--config=/var/lib/kubelet/config.yaml",
            f"--kubeconfig={self.kubeconfig}",
            f"--hostname-override={self.name}",
            f"--container-runtime-endpoint=unix://{self.folder}/runtime.sock",
            f"--volume-plugin-dir={self.folder / 'empty'}",
            "--v=2",
        ]
        return "\n".join([_MAKE_FOLDER, *mounts, f"exec {shlex.join(kubelet)}"])


@contextlib.asynccontextmanager
async def namespace_node(
    folder: Path, machine: Machine, *, kubeconfig: Path, numakube: Path
) -> AsyncIterator[NamespaceNode]:
    """Prepare a node in *folder*; its kubelet starts when it is configured."""
    folder.mkdir(parents=True)
    node = NamespaceNode(folder, machine, kubeconfig, numakube)
    await node.prepare()
    try:
        yield node
    finally:
        await node.aclose()


def _host_files(machine: Machine) -> dict[str, str]:
    """Return what the kubelet reads of a machine outside of its CPU and node folders."""
    total = sum(node.memory_bytes for node in machine.nodes) // _KIB
    files = {
        "proc/meminfo": f"MemTotal: {total} kB\nMemFree: {total} kB\nMemAvailable: {total} kB\n"
        "SwapTotal: 0 kB\nSwapFree: 0 kB\n",
        "proc/cpuinfo": "".join(
            f"processor\t: {cpu}\nvendor_id\t: GenuineIntel\ncpu MHz\t\t: 2000.000\n\n"
            for cpu in range(machine.cpu_count)
        ),
    }
    pools: dict[int, int] = {}
    for node in machine.nodes:
        for pool in node.hugepages:
            pools[pool.page_bytes] = pools.get(pool.page_bytes, 0) + pool.count
    for size, count in pools.items():
        files[f"sys/kernel/mm/hugepages/hugepages-{size // _KIB}kB/nr_hugepages"] = f"{count}\n"
    return files


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
