"""What is measured: the rows of the scoreboard, with their nodes, pods and what runs beside them.

The rows of the first group are those of Kubernetes' own scheduler benchmark, scheduler_perf, with
its sizes: nodes of 4 CPUs and 32Gi, pods of 100m. Sizes are numbers of nodes, of pods that are
there before, and of pods that are measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias

from benchmarks.claims import KINDS, claim_spec, device_class, slices
from benchmarks.scheduler_throughput import KUBELET, NAME, SHAPE
from numakube.kube.catalog import (
    DEVICE_CLASSES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SERVICES,
)
from numakube.kube.resource_types import Document, Resource
from numakube.scheduling.plugins.pod_gangs import MIN_LABEL, NAME_LABEL, REQUIRED_TOPOLOGY

Object: TypeAlias = tuple[Resource[Any], Document]
MakePod: TypeAlias = Callable[[int], Document]

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
RACK: Final = "topology.kubernetes.io/rack"
IMPORTANT: Final = "important"
IMAGE: Final = "registry.example/pause:3"
STOCK_GROUP: Final = "Cases of scheduler_perf"
NUMA_GROUP: Final = "NUMA zones"
CLAIM_GROUP: Final = "Resource claims"
GANG_GROUP: Final = "Gangs"
WITHOUT_DEVICES: Final = SHAPE.removesuffix(", gpu 4")
EIGHT_ZONES: Final = "2 sockets, 4 numa each, 8 cores, smt 2, 64Gi, gpu 1"
_RACKS: Final = 50
_ONE_NODE: Final = "node-0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Churn:
    """What comes while pods are measured.

    Attributes:
        objects: those of one time, by its number.
        seconds: between two times.
        recreated: whether those of a time are deleted before the next.
    """

    objects: Callable[[int], tuple[Object, ...]]
    seconds: float
    recreated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A case.

    Attributes:
        pod: makes a pod that is measured; ``first`` one that is there before.
        gated: pods that are there before and cannot be scheduled.
        most_on_first: pods that the first plain node takes.
        labels: of a node, by its number.
        shape: of the machines, with ``kubelet`` the settings of theirs; empty for plain nodes.
        beside: makes what else is there; needs the names of the measured pods.
        churn: what comes meanwhile.
        claims: whether claims have to be made of templates.
        only_ours: why no other scheduler can take part, if so.
        all_told: whether the number of events tells that every pod was told of.
    """

    name: str
    group: str
    nodes: int
    pods: int
    pod: MakePod
    initial: int = 0
    first: MakePod | None = None
    gated: int = 0
    most_on_first: int = 110
    labels: Callable[[int], dict[str, str]] = lambda _: {}
    shape: str = ""
    kubelet: str = ""
    beside: Callable[[Row], Iterator[Object]] = lambda _: iter(())
    churn: Churn | None = None
    claims: bool = False
    only_ours: str = ""
    all_told: bool = True

    @property
    def title(self) -> str:
        """The name with its sizes."""
        before = f", {self.initial:,} pods before" if self.initial else ""
        return f"{self.name}: {self.nodes:,} nodes{before}, {self.pods:,} pods"

    def scaled(self, share: float) -> Row:
        """Return the row with so many of its nodes and pods, to see that it works."""

        def part(count: int) -> int:
            return max(1, round(count * share)) if count else 0

        return replace(
            self,
            nodes=part(self.nodes),
            pods=part(self.pods),
            gated=part(self.gated),
            initial=part(self.initial),
        )


def plain(
    _: int = 0, *, cpu: str = "100m", labels: dict[str, str] | None = None, **more: object
) -> Document:
    """Return a pod of scheduler_perf; *more* are fields of its spec."""
    amounts = {"cpu": cpu, "memory": "500Mi"}
    container = {
        "name": "pause",
        "image": "registry.example/pause:3",
        "resources": {"requests": amounts},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": labels or {}},
        "spec": {"schedulerName": NAME, "containers": [container], **more},
    }


def _term(color: str, key: str) -> Document:
    return {"labelSelector": {"matchLabels": {"color": color}}, "topologyKey": key}


def _near(color: str, key: str, _: int = 0) -> Document:
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [_term(color, key)]}
    return plain(labels={"color": color}, affinity={"podAffinity": rule})


def _apart(color: str, _: int = 0) -> Document:
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [_term(color, HOSTNAME)]}
    return plain(labels={"color": color}, affinity={"podAntiAffinity": rule})


def _preferred(kind: str, color: str, _: int = 0) -> Document:
    weighted = {"weight": 1, "podAffinityTerm": _term(color, HOSTNAME)}
    rule = {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}
    return plain(labels={"color": color}, affinity={kind: rule})


def _spread(_: int = 0) -> Document:
    rule = {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    rule["labelSelector"] = {"matchLabels": {"color": "blue"}}
    return plain(labels={"color": "blue"}, topologySpreadConstraints=[rule])


def _mixed(number: int) -> Document:
    kinds: tuple[MakePod, ...] = (
        plain,
        partial(_near, "blue", ZONE),
        partial(_apart, "green"),
        partial(_preferred, "podAffinity", "red"),
        partial(_preferred, "podAntiAffinity", "yellow"),
    )
    return kinds[number % len(kinds)](number)


def _of_a_daemon(_: int = 0) -> Document:
    field = {"key": "metadata.name", "operator": "In", "values": [_ONE_NODE]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    document = plain(affinity={"nodeAffinity": required})
    del document["spec"]["containers"][0]["resources"]
    return document


def _important(cpu: str, _: int = 0) -> Document:
    return plain(cpu=cpu, priorityClassName=IMPORTANT)


def _victim(_: int = 0) -> Document:
    return plain(cpu="900m", terminationGracePeriodSeconds=0)


def _priorities(_: Row) -> Iterator[Object]:
    yield PRIORITY_CLASSES, {"metadata": {"name": IMPORTANT}, "value": 10}


def _too_large(number: int) -> tuple[Object, ...]:
    document = _important("9")
    document["metadata"] |= {"name": f"too-large-{number}", "namespace": "default"}
    return ((PODS, document),)


def _node_pod_service(number: int) -> tuple[Object, ...]:
    service = {
        "metadata": {"name": f"churn-{number}", "namespace": "default"},
        "spec": {"selector": {"app": "churn"}, "ports": [{"port": 80}]},
    }
    return (NODES, plain_node(f"churn-{number}", {})), *_too_large(number), (SERVICES, service)


def plain_node(name: str, labels: dict[str, str], pods: int = 110) -> Document:
    """Return a node of scheduler_perf."""
    amounts = {"pods": str(pods), "cpu": "4", "memory": "32Gi"}
    ready = {"type": "Ready", "status": "True"}
    return {
        "metadata": {"name": name, "labels": {HOSTNAME: name, **labels}},
        "spec": {},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }


def _one_zone(_: int) -> dict[str, str]:
    return {ZONE: "zone1"}


def _three_zones(number: int) -> dict[str, str]:
    return {ZONE: f"moon-{number % 3 + 1}"}


_stock = partial(Row, group=STOCK_GROUP)
_TOO_LARGE: Final = Churn(objects=_too_large, seconds=0.2)
_MIXED_CHURN: Final = Churn(objects=_node_pod_service, seconds=1.0, recreated=True)


def _of_scheduler_perf() -> Iterator[Row]:
    for nodes, initial, pods in ((500, 500, 1000), (5000, 1000, 10_000)):
        yield _stock(name="basic", nodes=nodes, initial=initial, pods=pods, pod=plain)
    for nodes, initial, pods in ((500, 1000, 1000), (5000, 5000, 2000)):
        yield _stock(
            name="topology spreading", nodes=nodes, initial=initial, pods=pods, pod=_spread,
            first=plain, labels=_three_zones,
        )  # fmt: skip
    for nodes, initial, pods in ((500, 500, 1000), (5000, 5000, 1000)):
        yield _stock(
            name="pod affinity", nodes=nodes, initial=initial, pods=pods,
            pod=partial(_near, "blue", ZONE), labels=_one_zone,
        )  # fmt: skip
    for nodes, initial, pods in ((500, 100, 400), (5000, 1000, 2000)):
        yield _stock(
            name="pod anti-affinity", nodes=nodes, initial=initial, pods=pods,
            pod=partial(_apart, "green"),
        )  # fmt: skip
    yield _stock(
        name="preemption", nodes=1000, initial=4000, pods=1000, pod=partial(_important, "3"),
        first=_victim, beside=_priorities, all_told=False,
    )  # fmt: skip
    for nodes, initial, pods in ((500, 10, 1000), (5000, 100, 10_000)):
        yield _stock(
            name="beside unschedulable pods", nodes=nodes, initial=initial, pods=pods, pod=plain,
            beside=_priorities, churn=_TOO_LARGE, all_told=False,
        )  # fmt: skip
    yield _stock(name="beside gated pods", nodes=500, gated=10_000, pods=10_000, pod=plain)
    yield _stock(name="daemon", nodes=15_000, pods=30_000, most_on_first=100_000, pod=_of_a_daemon)
    for nodes, pods in ((1000, 1000), (5000, 10_000)):
        yield _stock(
            name="beside churn", nodes=nodes, pods=pods, pod=plain, beside=_priorities,
            churn=_MIXED_CHURN, all_told=False,
        )  # fmt: skip
    for nodes, initial, pods in ((500, 1000, 1000), (5000, 10_000, 5000)):
        yield _stock(
            name="beside mixed pods", nodes=nodes, initial=initial, pods=pods, pod=plain,
            first=_mixed, labels=_one_zone,
        )  # fmt: skip


def aligned(
    number: int, *, sizes: tuple[int, ...] = (4,), gpus: tuple[int, ...] = (0,)
) -> Document:
    """Return a guaranteed pod of whole CPUs; sizes and GPUs go by its number."""
    cpus, devices = sizes[number % len(sizes)], gpus[number % len(gpus)]
    amounts = {"cpu": str(cpus), "memory": f"{2 * cpus}Gi"}
    if devices:
        amounts["vendor.example/gpu"] = str(devices)
    document = plain()
    document["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return document


_SIZES: Final = (24, 8, 16, 4, 20, 6)
_RESTRICTED: Final = KUBELET.replace("single-numa-node", "restricted")


def _of_numa() -> Iterator[Row]:
    numa = partial(Row, group=NUMA_GROUP, shape=SHAPE)
    one, mixed = aligned, partial(aligned, sizes=_SIZES)
    devices = partial(aligned, sizes=_SIZES, gpus=(2, 0, 1, 1, 0, 4))
    yield numa(name="one zone", nodes=1000, pods=1000, pod=one, kubelet=KUBELET)
    # 1,000 nodes with twice 64 CPUs, less those reserved: nine tenths full at the end.
    yield numa(name="one zone, until full", nodes=100, pods=850, pod=mixed, kubelet=KUBELET)
    yield numa(name="restricted, until full", nodes=100, pods=850, pod=mixed, kubelet=_RESTRICTED)
    yield numa(name="devices, until full", nodes=100, pods=500, pod=devices, kubelet=KUBELET)
    yield Row(
        name="one of eight zones", group=NUMA_GROUP, nodes=5000, pods=1000, pod=one,
        shape=EIGHT_ZONES, kubelet=KUBELET,
    )  # fmt: skip


def claiming(number: int, *, template: bool) -> Document:
    """Return a pod with a claim for a GPU and a NIC on one PCIe root, its own or of a template."""
    name = f"claim-{number}"
    source = {"resourceClaimTemplateName": "devices"} if template else {"resourceClaimName": name}
    document = aligned(number)
    document["spec"]["resourceClaims"] = [{"name": "devices", **source}]
    document["spec"]["containers"][0]["resources"]["claims"] = [{"name": "devices"}]
    return document


def _devices(row: Row) -> Iterator[Object]:
    yield from ((DEVICE_CLASSES, device_class(kind)) for kind in KINDS)
    for number in range(row.nodes):
        yield from ((RESOURCE_SLICES, piece) for piece in slices(f"node-{number}"))
    if row.claims:
        meta = {"name": "devices", "namespace": "default"}
        yield RESOURCE_CLAIM_TEMPLATES, {"metadata": meta, "spec": {"spec": claim_spec()}}
        return
    for number in range(row.pods):
        meta = {"name": f"claim-{number}", "namespace": "default"}
        yield RESOURCE_CLAIMS, {"metadata": meta, "spec": claim_spec()}


def _of_claims() -> Iterator[Row]:
    for nodes in (500, 1000, 5000):
        for template in (False, True):
            yield Row(
                name="claims of a template" if template else "claims by name",
                group=CLAIM_GROUP, nodes=nodes, pods=1000, shape=WITHOUT_DEVICES,
                kubelet=KUBELET, pod=partial(claiming, template=template), beside=_devices,
                claims=template,
            )  # fmt: skip


def _member(number: int, *, size: int) -> Document:
    document = plain(labels={NAME_LABEL: f"gang-{number // size}", MIN_LABEL: str(size)})
    document["metadata"]["annotations"] = {REQUIRED_TOPOLOGY: RACK}
    return document


def _racks(number: int) -> dict[str, str]:
    return {RACK: f"rack-{number % _RACKS}"}


def _of_gangs() -> Iterator[Row]:
    for gangs, size in ((750, 4), (1500, 4), (2250, 4), (3, 1000)):
        yield Row(
            name=f"{gangs:,} gangs of {size:,} in one of {_RACKS} racks", group=GANG_GROUP,
            nodes=5000, pods=gangs * size, pod=partial(_member, size=size), labels=_racks,
            only_ours="kube-scheduler takes gangs by objects that it has behind gates",
        )  # fmt: skip


ROWS: Final[tuple[Row, ...]] = (
    *_of_scheduler_perf(),
    *_of_numa(),
    *_of_claims(),
    *_of_gangs(),
)
