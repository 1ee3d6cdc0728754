"""What a pod wishes, and the classes that decide who gets CPUs of its own.

A `PodWish` is read once from annotations, labels and requests (`read_pod`). The classes are
Koordinator's quality of service and priority.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.api.koordinator import keys
from numakube.topology.allotments import CpuExclusive
from numakube.values.topology_policy import TopologyPolicy, TopologyScope
from numakube_placement.koordinator.annotation_values import BindPolicy, Exclusive, Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.koordinator.devices import DeviceHint
    from numakube.api.strictness import RequiredCloseness
    from numakube.kubelet.pod_demand import ContainerRole
    from numakube.values.resources import Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuWish:
    """How the CPUs of a pod or a container are bound.

    Attributes:
        bound: whether it gets CPUs of its own because of its QoS and priority; nodes may demand it.
        required: the policy that must be met; `BindPolicy.NONE` if there is none.
        preferred: the policy otherwise, the plugin's default filled in.
        exclusive: whom it does not share cores or NUMA nodes with.
    """

    bound: bool = False
    required: BindPolicy = BindPolicy.NONE
    preferred: BindPolicy = BindPolicy.FULL_PCPUS
    exclusive: CpuExclusive = CpuExclusive.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerWish:
    """What one container wishes.

    Attributes:
        requests: in base units (`numakube.values.resources`), limits standing in for requests of
            extended resources.
        ignored: it is not aligned and blocks nothing; `why_ignored` tells people why.
        uneven: it is ignored only because its limits differ from its requests, which makes a
            difference with scope container alone.
        policy: its own policy where an annotation overrides the pod's; ``None`` if none does.
        exclusive: likewise.
    """

    name: str
    role: ContainerRole
    requests: Amounts
    cpus: CpuWish
    policy: TopologyPolicy | None = None
    exclusive: Exclusive | None = None
    ignored: bool = False
    why_ignored: str = ""
    uneven: bool = False

    @property
    def aligns_itself(self) -> bool:
        """Whether an annotation names a policy that aligns this container."""
        return self.policy is not None and self.policy.aligns

    def ignored_under(self, scope: TopologyScope) -> bool:
        """Whether it is ignored where *scope* holds."""
        return self.ignored and (scope is TopologyScope.CONTAINER or not self.uneven)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodWish:
    """What a pod wishes.

    Attributes:
        policy: empty if the pod leaves it to the node.
        scope: ``None`` if the pod leaves it to the node.
        exclusive: ``None`` if the pod does not say; see `rules`.
        strategy: ``None`` if the pod leaves it to the node.
        ignored_resources: what is not aligned, wherever on the node it comes from; bound CPUs and
            devices that the scheduler gives out are aligned all the same.
        requests: of the pod as a whole, overhead included; containers that are ignored under scope
            pod are left out.
        cpus: of the pod as a whole.
        containers: init containers first, in order of start.
        devices: what it wants of devices; see `numakube_placement.koordinator.device_choice`.
        container_keys: annotations that only make sense with scope container; a pod that has them
            is refused where the scope is ``pod``.
        problems: what is wrong with its annotations, each naming the key and the field; a pod with
            problems is refused everywhere.
    """

    policy: TopologyPolicy = TopologyPolicy.NONE
    scope: TopologyScope | None = None
    exclusive: Exclusive | None = None
    strategy: Strategy | None = None
    ignored_resources: frozenset[str] = frozenset()
    requests: Amounts = field(default_factory=lambda: MappingProxyType({}))
    cpus: CpuWish = CpuWish()
    containers: tuple[ContainerWish, ...] = ()
    devices: DeviceWish | None = None
    container_keys: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def plain(self) -> bool:
        """Whether the pod itself wishes nothing, so that only a node could make it special."""
        return not (
            self.policy.aligns
            or self.problems
            or self.cpus.bound
            or self.devices
            or self.container_keys
        )


@dataclass(frozen=True, slots=True)
class PartitionWish:
    """What a pod wants of the GPU partition that it gets.

    Attributes:
        restricted: whether only partitions of the highest score will do.
        bandwidth: of the ring between its GPUs at least, in base units.
    """

    restricted: bool = False
    bandwidth: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceWish:
    """What a pod wants of the devices in `node_facts.NodeFacts.devices`.

    Attributes:
        joint: device types that are placed together, the leading one first.
        same_pcie: whether each leading device needs the others on its own PCIe switch.
        closeness: how close devices of different types must be; ``None`` if the pod does not say.
        requests: by device type and resource, for the pod as a whole; whole GPUs of a vendor and
            percents of GPUs are given as core and memory ratio.
        by_container: the same by container name, for containers that want any.
        hints: by device type, how devices are chosen.
        partition: set if whole GPUs must be a partition of the node.
    """

    requests: Mapping[str, Amounts]
    by_container: Mapping[str, Mapping[str, Amounts]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    joint: tuple[str, ...] = ()
    same_pcie: bool = False
    closeness: RequiredCloseness | None = None
    hints: Mapping[str, DeviceHint] = field(default_factory=lambda: MappingProxyType({}))
    partition: PartitionWish | None = None


LSE: Final = "LSE"
LSR: Final = "LSR"
BE: Final = "BE"
PROD: Final = "koord-prod"
BATCH: Final = "koord-batch"
QOS_CLASSES: Final = (LSE, LSR, "LS", BE, "SYSTEM")
BANDS: Final = {
    PROD: range(9000, 10000),
    "koord-mid": range(7000, 8000),
    BATCH: range(5000, 6000),
    "koord-free": range(3000, 4000),
}
"""Values of ``spec.priority`` that stand for a priority class."""


def qos_of(labels: Mapping[str, str]) -> str:
    """Return the QoS class that the label names; unknown words name none."""
    word = labels.get(keys.QOS_CLASS, "")
    return word if word in QOS_CLASSES else ""


def priority_of(labels: Mapping[str, str], priority: int | None) -> str:
    """Return the priority class: the label's, else that of the priority's band, else the QoS's."""
    word = labels.get(keys.PRIORITY_CLASS, "")
    if word in BANDS:
        return word
    for name, band in BANDS.items():
        if priority is not None and priority in band:
            return name
    qos = qos_of(labels)
    return BATCH if qos == BE else PROD if qos else ""


def may_bind(labels: Mapping[str, str], priority: int | None) -> bool:
    """Tell whether pods of this class get CPUs of their own, whatever the kubelet calls them."""
    return qos_of(labels) in {LSE, LSR} and priority_of(labels, priority) == PROD
