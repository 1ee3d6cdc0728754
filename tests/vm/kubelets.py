"""The configurations of the kubelet that pods are tried under."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from numakube.api.kubelet_config import TOPOLOGY_POLICIES, TOPOLOGY_SCOPES
from numakube.kubelet.machine import Machine

_MIB: Final = 1 << 20
# Of every NUMA node, so that none has all its memory to give; at least the 100Mi of eviction.
RESERVED_MIB: Final = 128
FEATURE_GATES: Final[Mapping[str, bool]] = {"CPUManagerPolicyAlphaOptions": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """How a kubelet aligns.

    Attributes:
        policy: of the Topology Manager.
        scope: of the Topology Manager.
        cpu_options: of the CPU Manager's static policy.
        topology_options: of the Topology Manager's policy.
        memory: policy of the Memory Manager.
        cpu: policy of the CPU Manager.
    """

    policy: str = "single-numa-node"
    scope: str = "container"
    cpu_options: tuple[str, ...] = ()
    topology_options: tuple[str, ...] = ()
    memory: str = "Static"
    cpu: str = "static"

    @property
    def name(self) -> str:
        """What distinguishes it from others, in a few words."""
        words = [self.policy, self.scope, *self.cpu_options, *self.topology_options]
        if self.memory != "Static":
            words.append(f"memory {self.memory}")
        if self.cpu != "static":
            words.append(f"cpu {self.cpu}")
        return " ".join(words)


def every_choice() -> Iterator[Choice]:
    """Yield all policies and scopes, and some options that change what a pod gets."""
    for policy in TOPOLOGY_POLICIES:
        for scope in TOPOLOGY_SCOPES:
            yield Choice(policy=policy, scope=scope)
    full = ("full-pcpus-only",)
    closest = ("prefer-closest-numa-nodes",)
    yield Choice(policy="restricted", cpu_options=full, topology_options=closest)
    yield Choice(policy="best-effort", cpu_options=("distribute-cpus-across-numa",))
    yield Choice(policy="single-numa-node", scope="pod", cpu_options=full)
    yield Choice(policy="restricted", scope="pod", memory="None")
    yield Choice(
        policy="best-effort",
        scope="pod",
        cpu_options=("distribute-cpus-across-numa", *full),
        topology_options=closest,
    )
    yield Choice(policy="single-numa-node", cpu_options=("strict-cpu-reservation",))


def parse_choice(text: str) -> Choice:
    """Return the choice whose name is *text*: policy, scope and options with blanks between.

    Raises:
        ValueError: a word means nothing.
    """
    words = text.split()
    choice: dict[str, Any] = {"cpu_options": [], "topology_options": []}
    while words:
        word = words.pop(0)
        if word in TOPOLOGY_POLICIES:
            choice["policy"] = word
        elif word in TOPOLOGY_SCOPES:
            choice["scope"] = word
        elif word in ("memory", "cpu") and words:
            choice[word] = words.pop(0)
        elif word in _TOPOLOGY_OPTIONS:
            choice["topology_options"].append(word)
        elif word in _CPU_OPTIONS:
            choice["cpu_options"].append(word)
        else:
            raise ValueError(f"{word!r} is no policy, scope or option of the kubelet")
    return Choice(**{key: _frozen(value) for key, value in choice.items()})


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


_TOPOLOGY_OPTIONS: Final = ("prefer-closest-numa-nodes",)
_CPU_OPTIONS: Final = (
    "full-pcpus-only",
    "distribute-cpus-across-numa",
    "strict-cpu-reservation",
    "align-by-socket",
    "distribute-cpus-across-cores",
    "prefer-align-cpus-by-uncorecache",
)
_BASE: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "featureGates": FEATURE_GATES,
        "healthzPort": 0,
        "readOnlyPort": 0,
        "failSwapOn": False,
        "maxPods": 250,
        "registryPullQPS": 0,
        "nodeStatusUpdateFrequency": "5s",
        # So that a pod's end is seen as soon as the runtime lets it be.
        "syncFrequency": "10s",
    }
)


@dataclass(frozen=True, slots=True)
class KubeletFile:
    """A KubeletConfiguration to be: what a kind of machine needs, and how pods are aligned.

    Attributes:
        machine: the machine, as the kubelet sees it.
        kind: what this kind of machine needs besides.
    """

    machine: Machine
    kind: Mapping[str, Any] = field(default_factory=dict)

    def document(self, choice: Choice) -> dict[str, Any]:
        """Return the configuration for *choice*."""
        nodes = self.machine.nodes
        document = {
            **_BASE,
            **self.kind,
            "cpuManagerPolicy": choice.cpu,
            "memoryManagerPolicy": choice.memory,
            "topologyManagerPolicy": choice.policy,
            "topologyManagerScope": choice.scope,
            "reservedSystemCPUs": str(min(nodes[0].cores[0].threads)),
            "kubeReserved": {"memory": f"{RESERVED_MIB * len(nodes)}Mi"},
            "evictionHard": {"memory.available": "0%"},
        }
        if choice.memory == "Static":
            document["reservedMemory"] = [
                {"numaNode": node.id, "limits": {"memory": f"{RESERVED_MIB}Mi"}} for node in nodes
            ]
        if choice.cpu_options:
            document["cpuManagerPolicyOptions"] = dict.fromkeys(choice.cpu_options, "true")
        if choice.topology_options:
            document["topologyManagerPolicyOptions"] = dict.fromkeys(
                choice.topology_options, "true"
            )
        return document
