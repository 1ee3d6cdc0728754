"""What a campaign may expect of a node, whatever it is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tests.vm.kubelets import KubeletFile

from numakube.kubelet.machine import Machine
from numakube.kubelet.state_files import StateFiles
from numakube.node.podresources_client import PodResources

SCHEDULER = "numakube-scheduler"


class NodeFailed(Exception):
    """The node did not do what it was asked for; the message has the end of its log."""


class WouldNotStart(Exception):
    """No kubelet would surely start from what is in the state files, so this one was not killed."""


class Node(Protocol):
    """A machine with a real kubelet, and numakube's components on it."""

    @property
    def name(self) -> str:
        """Name of its Node object."""
        ...

    @property
    def machine(self) -> Machine:
        """The machine, as the kubelet is to see it."""
        ...

    @property
    def kubelet_file(self) -> KubeletFile:
        """What makes the configurations of its kubelet."""
        ...

    @property
    def slowness(self) -> float:
        """How many times slower it is than a machine of its own; limits of time grow with it."""
        ...

    async def run(self, command: str, *, within: float = 60.0) -> str:
        """Run a shell command on the node and return what it prints.

        Raises:
            NodeFailed: it ends with an error.
        """
        ...

    async def read(self, path: str) -> str | None:
        """Return a file of the node; ``None`` if there is none."""
        ...

    async def configure(self, document: Mapping[str, Any]) -> None:
        """Stop the kubelet, forget its state, and start it with another configuration."""
        ...

    async def restart_kubelet(self) -> None:
        """Kill the kubelet and start it again; returns when it has been started.

        Raises:
            WouldNotStart: its state files would keep it from starting.
        """
        ...

    async def restart_plugins(self) -> None:
        """End all device plugins, and start them again."""
        ...

    async def state_files(self) -> StateFiles:
        """Return the state files of the kubelet's managers."""
        ...

    async def pod_resources(self) -> tuple[PodResources, ...]:
        """Return what the kubelet's PodResources lists."""
        ...

    async def start(self, component: str, arguments: Sequence[str] = ()) -> None:
        """Start a component of numakube: ``exporter``, ``enforcer`` or ``sriov``."""
        ...

    async def kill(self, component: str) -> None:
        """End a component on the spot."""
        ...

    async def stop(self, component: str) -> None:
        """End a component politely."""
        ...

    async def usage(self, component: str) -> tuple[float, int]:
        """Return the CPU seconds that a component has used, and its resident bytes."""
        ...

    async def log(self, component: str) -> str:
        """Return the end of a component's log, for messages."""
        ...
