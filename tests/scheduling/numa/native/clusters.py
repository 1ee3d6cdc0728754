"""Random clusters for property tests: nodes of every policy, with any amounts in their zones."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from msgspec import structs
from tests.kubelet.conftest import GIB
from tests.kubelet.scenarios import GPU, NIC, pods

from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node
from numakube.api.nrt import NodeResourceTopology
from numakube.api.pod import Pod, ResourceRequirements
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Core, Machine, NumaNode
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.topology.exact_report import DeviceTable, ExactReport
from numakube.topology.topology_view import NodeTopology, ZoneView
from numakube.values.resources import CPU, MEMORY, Amounts
from numakube.values.topology_policy import TopologyPolicy, TopologyScope

HUGE = "hugepages-2Mi"


@dataclass(frozen=True)
class Belief:
    """A report taken at its word."""

    topology: NodeTopology | None
    blocked: str = ""
    kubelet: KubeletNode | None = None

    @property
    def available(self) -> tuple[Amounts, ...]:
        """What the report says."""
        return tuple(zone.available for zone in self.topology.zones) if self.topology else ()

    @property
    def nrt(self) -> NodeResourceTopology:
        """Nothing that native mode looks at."""
        return NodeResourceTopology()

    def model(self) -> KubeletNode | None:
        """The model, if there is one."""
        return self.kubelet

    def without(self, uids: object) -> Belief:
        """Nothing changes."""
        del uids
        return self


@st.composite
def amounts(draw: st.DrawFn, largest: int, unit: int) -> tuple[int, int, int]:
    """Capacity, allocatable and available; the latter are at most the first."""
    capacity = draw(st.sampled_from((largest, largest, draw(st.integers(0, largest)))))
    allocatable = draw(st.sampled_from((capacity, max(0, capacity - 1))))
    some = draw(st.integers(0, allocatable))
    available = draw(st.sampled_from((allocatable, allocatable, some, some, capacity)))
    return capacity * unit, allocatable * unit, available * unit


@st.composite
def zones(draw: st.DrawFn, ids: tuple[int, ...], names: tuple[str, ...]) -> tuple[ZoneView, ...]:
    """Zones with some of *names* each."""
    found = []
    for one in ids:
        listed = {
            name: draw(
                {
                    CPU: amounts(6, 1000),
                    MEMORY: amounts(10, GIB),
                    HUGE: amounts(3, 300 << 20),
                }.get(name, amounts(draw(st.sampled_from((3, 3, 11, 7000))), 1))
            )
            for name in names
            if draw(st.integers(0, 7))
        }
        costs = {to: 10 if to == one else draw(st.sampled_from((12, 20, 21, 255))) for to in ids}
        found.append(
            ZoneView(
                id=one,
                name=f"node-{one}",
                capacity={name: three[0] for name, three in listed.items()},
                allocatable={name: three[1] for name, three in listed.items()},
                available={name: three[2] for name, three in listed.items()},
                costs=costs,
            )
        )
    return tuple(found)


def report(shared: tuple[str, ...]) -> ExactReport:
    """An exact report of which only the devices near two zones matter."""
    return ExactReport(
        machine=Machine((NumaNode(0, GIB, (Core(0, (0, 1), 0),)),), 2, 1),
        settings=KubeletSettings(feature_gates={"PodLevelResourceManagers": True}),
        kubernetes="1.36",
        devices={name: DeviceTable(((0, 1),)) for name in shared},
    )


@st.composite
def topologies(draw: st.DrawFn, name: str) -> NodeTopology:
    """What may be known of a node."""
    count = draw(st.integers(1, 4))
    hole = draw(st.booleans())
    ids = tuple(one + (one > 0 and hole) for one in range(count))
    names = tuple(one for one in (CPU, MEMORY, HUGE, GPU, NIC) if draw(st.integers(0, 9)))
    shared = draw(st.sampled_from(((), (), (GPU,), (GPU, NIC))))
    exact = bool(shared) or draw(st.booleans())
    return NodeTopology(
        node=name,
        zones=draw(zones(ids, names)),
        policy=draw(st.sampled_from((*TopologyPolicy, TopologyPolicy.RESTRICTED))),
        scope=draw(st.sampled_from((*TopologyScope, TopologyScope.CONTAINER))),
        topology_options=draw(st.sampled_from(({}, {"prefer-closest-numa-nodes": "true"}))),
        cpu_manager_policy=draw(st.sampled_from(("static", "static", "none", None))),
        cpu_manager_options=draw(
            st.sampled_from(({}, {}, {"align-by-socket": "true"}, {"full-pcpus-only": "true"}))
        ),
        memory_manager_policy=draw(st.sampled_from(("Static", "Static", "None", None))),
        report=report(shared) if exact else None,
    )


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Up to ten nodes; some without data, some blocked, many of one kind."""
    cluster = Cluster()
    for index in range(draw(st.integers(1, 10))):
        name = f"node{index}"
        cluster.set_node(Node(metadata=ObjectMeta(name=name)))
        what = draw(st.integers(0, 30))
        if what == 0:
            continue
        topology = None if what == 1 else draw(topologies(name))
        blocked = draw(st.sampled_from(("",) * 10 + ("waits for a report",)))
        cluster.suppose(name, Belief(topology, blocked))
    return cluster


@st.composite
def large_pods(draw: st.DrawFn) -> Pod:
    """A pod whose first container may need several zones."""
    small = draw(pods())
    requests: dict[str, str | int | float] = {
        "cpu": draw(st.sampled_from(("6", "8", "10", "14"))),
        "memory": draw(st.sampled_from(("1Gi", "12Gi", "18Gi"))),
    }
    if draw(st.integers(0, 3)) == 0:
        requests[GPU] = draw(st.sampled_from(("1", "4")))
    large = ResourceRequirements(requests=requests, limits=requests)
    first, *others = small.spec.containers
    containers = (structs.replace(first, resources=large), *others)
    spec = structs.replace(small.spec, containers=containers, init_containers=())
    return structs.replace(small, spec=spec)


any_pods = st.one_of(pods(), large_pods())
