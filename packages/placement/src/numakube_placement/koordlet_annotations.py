"""What koordlet tells of a node, for schedulers and tools that read it there (``--koordinator``).

Koordinator's scheduler knows a node's CPUs and pools from annotations of its NodeResourceTopology.
Keys and JSON are koordlet's (its ``apis/extension``); zones and attributes stay ours: what
is ``available`` in a zone is what is left, while koordlet repeats what is allocatable there.

* ``cpu-topology``: every online CPU with its core, socket and NUMA node;
* ``cpu-manager-policy``: of the kubelet: policy, options, and the CPUs that it reserves;
* ``pod-cpu-allocs``: what it has given out, but for pods that a scheduler looks after;
* ``cpu-shared-pools``: CPUs that no pod has for itself, by NUMA node;
* ``be-cpu-shared-pools``: the same for pods of class ``BE``, which share with ``LSR`` pods;
* ``cpu-basic-info``: model and maker of the CPUs.

The node's own ``reservation`` and ``system-qos-resource`` are copied.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.codec import encode
from numakube.api.koordinator import keys
from numakube.api.koordinator.node_annotations import (
    AnnotatedCpuTopology,
    CpuBasicInfo,
    CpuInfo,
    CpuManagerPolicy,
    CpuSharedPool,
    NodeReservation,
    PodCpuAlloc,
)
from numakube.api.pod import has_ended
from numakube.values.cpuset import CpuMask, CpuSet, union
from numakube_placement.koordinator.allotments import allotment_of
from numakube_placement.koordinator.annotation_values import read_json
from numakube_placement.koordinator.cpu_pick import pools_of
from numakube_placement.koordinator.pod_wish import BE, LSE, qos_of
from numakube_placement.koordinator.read_cpus import kept_by_owner, layout_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numakube.api.pod import Pod
    from numakube.apps.exporter import NodeSources
    from numakube.apps.exporter.node_scan import NodeInputs
    from numakube_placement.koordinator.node_facts import CpuLayout

COPIED: Final = (keys.NODE_RESERVATION, keys.NODE_SYSTEM_QOS)
WRITTEN: Final = frozenset(
    {
        keys.CPU_TOPOLOGY,
        keys.CPU_MANAGER_POLICY,
        keys.POD_CPU_ALLOCS,
        keys.CPU_SHARED_POOLS,
        keys.BE_CPU_SHARED_POOLS,
        keys.CPU_BASIC_INFO,
        *COPIED,
    }
)
"""Annotations that are ours to write and to remove while the option is on."""

_STATIC: Final = "static"
_SHARING: Final = frozenset({"LS", BE})


@dataclass(frozen=True, slots=True, kw_only=True)
class KoordinatorInputs:
    """What koordlet's annotations are made of, besides what every scan reads.

    Attributes:
        pods: the node's pods in the API.
        node: annotations of the Node.
        cpu_info: the make of the CPUs.
    """

    pods: tuple[Pod, ...] = ()
    node: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    cpu_info: CpuBasicInfo = field(default_factory=CpuBasicInfo)

    def annotations(self, inputs: NodeInputs, problems: list[str]) -> dict[str, str]:
        """Return koordlet's annotations; none if sysfs tells too little of the CPUs."""
        machine = inputs.hardware.machine
        return {} if machine is None else _annotations(self, inputs, layout_of(machine), problems)


class KoordinatorReader:
    """Reads the node's pods and annotations; its make is read once."""

    def __init__(self, sources: NodeSources) -> None:
        self._sources = sources
        self._cpu_info = read_cpu_info(sources.sysfs, sources.proc)

    def read(self) -> KoordinatorInputs:
        """Return what the annotations are made of."""
        return KoordinatorInputs(
            pods=self._sources.pods(), node=self._sources.node(), cpu_info=self._cpu_info
        )

    async def run(self) -> None:
        """Return at once: everything is read with the scans."""


class KoordletAnnotations:
    """What the exporter finds by its entry point."""

    written = WRITTEN

    def reader(self, sources: NodeSources) -> KoordinatorReader:
        """Return what reads the node's pods and annotations."""
        return KoordinatorReader(sources)


def _annotations(
    known: KoordinatorInputs, inputs: NodeInputs, layout: CpuLayout, problems: list[str]
) -> dict[str, str]:
    bound = _bound(known.pods, problems)
    kept = kept_by_owner(known.node, layout, problems)
    state = inputs.checkpoints.cpu
    pinned = state.by_pod if state is not None else {}
    pools = pools_of(
        layout,
        taken=union(bound.values()),
        taken_for_good=union(bound[pod.metadata.uid] for pod in _of_class(known.pods, LSE, bound)),
        apart=kept | union(pinned.values()),
    )
    parts: dict[str, object] = {
        keys.CPU_TOPOLOGY: _topology(layout),
        keys.CPU_MANAGER_POLICY: _manager_policy(inputs, layout),
        keys.POD_CPU_ALLOCS: _allocs(known.pods, pinned, bound) or None,
        keys.CPU_SHARED_POOLS: _pool(layout, pools.shared),
        keys.BE_CPU_SHARED_POOLS: _pool(layout, pools.best_effort),
        keys.CPU_BASIC_INFO: msgspec.structs.replace(
            known.cpu_info, hyper_thread_enabled=layout.cpus_per_core > 1
        ),
    }
    written = {key: encode(part).decode() for key, part in parts.items()}
    return written | _copied(known.node, layout)


def _topology(layout: CpuLayout) -> AnnotatedCpuTopology:
    return AnnotatedCpuTopology(
        detail=tuple(
            CpuInfo(id=place.id, core=place.core, socket=place.socket, node=place.numa)
            for place in layout.places
        )
    )


def _manager_policy(inputs: NodeInputs, layout: CpuLayout) -> CpuManagerPolicy:
    config = inputs.kubelet.config
    policy = (config.cpu_manager_policy if config else None) or inputs.kubelet.cpu_policy or "none"
    if policy != _STATIC:
        return CpuManagerPolicy(policy=policy)
    given_out = CpuSet.of(inputs.allocatable.cpu_ids).bits
    return CpuManagerPolicy(
        policy=policy,
        options=dict(config.cpu_manager_policy_options) if config else {},
        reserved_cpus=str(CpuSet(layout.all & ~given_out)),
    )


def _allocs(
    pods: Iterable[Pod], pinned: Mapping[str, CpuMask], bound: Mapping[str, CpuMask]
) -> tuple[PodCpuAlloc, ...]:
    """Return what the kubelet has given out to pods that are its own business."""
    by_uid = {pod.metadata.uid: pod for pod in pods}
    allocs = []
    for uid, cpus in sorted(pinned.items()):
        pod = by_uid.get(uid)
        sharing = pod is not None and qos_of(pod.metadata.labels) in _SHARING
        if not cpus or uid in bound or sharing:
            continue
        allocs.append(
            PodCpuAlloc(
                namespace=pod.metadata.namespace if pod else "",
                name=pod.metadata.name if pod else "",
                uid=uid,
                cpuset=str(CpuSet(cpus)),
                managed_by_kubelet=True,
            )
        )
    return tuple(allocs)


def _pool(layout: CpuLayout, pool: Mapping[int, CpuMask]) -> tuple[CpuSharedPool, ...]:
    sockets: dict[int, int] = {}
    for place in layout.places:
        sockets[place.numa] = min(place.socket, sockets.get(place.numa, place.socket))
    entries = [
        CpuSharedPool(socket=sockets[numa], node=numa, cpuset=str(CpuSet(cpus)))
        for numa, cpus in pool.items()
    ]
    return tuple(sorted(entries, key=lambda entry: (entry.socket, entry.node)))


def _bound(pods: Iterable[Pod], problems: list[str]) -> dict[str, CpuMask]:
    """Return the CPUs that a scheduler gave to pods, by uid."""
    bound: dict[str, CpuMask] = {}
    for pod in pods:
        if has_ended(pod) or keys.RESOURCE_STATUS not in pod.metadata.annotations:
            continue
        odd: list[str] = []
        allotment = allotment_of(pod, odd)
        problems += [f"pod {pod.metadata.key}: {text}" for text in odd]
        if allotment is not None and allotment.total.cpus:
            bound[pod.metadata.uid] = allotment.total.cpus
    return bound


def _of_class(pods: Iterable[Pod], word: str, bound: Mapping[str, CpuMask]) -> list[Pod]:
    return [
        pod for pod in pods if pod.metadata.uid in bound and qos_of(pod.metadata.labels) == word
    ]


def _copied(node: Mapping[str, str], layout: CpuLayout) -> dict[str, str]:
    """Return the node's own annotations, with the CPUs that a mere number of them amounts to."""
    copied = {key: node[key] for key in COPIED if key in node}
    reservation = read_json(NodeReservation, copied, keys.NODE_RESERVATION, [])
    if reservation is not None and not reservation.reserved_cpus:
        own = {keys.NODE_RESERVATION: node[keys.NODE_RESERVATION]}
        cpus = str(CpuSet(kept_by_owner(own, layout, [])))
        picked = msgspec.structs.replace(reservation, reserved_cpus=cpus)
        copied[keys.NODE_RESERVATION] = encode(picked).decode()
    return copied


def read_cpu_info(sysfs: Path, proc: Path) -> CpuBasicInfo:
    """Return the make of the CPUs, as far as the host tells; threads are known from elsewhere."""
    facts: dict[str, str] = {}
    for line in _text(proc / "cpuinfo").splitlines():
        name, _, value = line.partition(":")
        facts.setdefault(name.strip(), value.strip())
    cpus = sysfs / "devices/system/cpu"
    turbo = _text(cpus / "intel_pstate/no_turbo") == "0" or _text(cpus / "cpufreq/boost") == "1"
    return CpuBasicInfo(
        cpu_model=facts.get("model name", ""),
        turbo_enabled=turbo,
        cat_l3_cbm_mask=_text(sysfs / "fs/resctrl/info/L3/cbm_mask"),
        vendor_id=facts.get("vendor_id", ""),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


KOORDLET: Final = KoordletAnnotations()
