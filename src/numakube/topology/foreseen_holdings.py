"""What a scheduler foresaw for a pod: the CPUs, memory and devices that it will hold.

An exporter that reports only surprises does not write what was foreseen. So that every
reader knows what that is, the scheduler writes it on the pod, together with the binding:

    topology.numakube.dev/foreseen: nhGQ4-Wn5Tga c2-3,66 m@0=4Gi

The first word is the hash of the pod's uid: an annotation that was copied from another pod says
nothing. The rest is the notation of exact data (`numakube.topology.report_notation`).

    state of the node = last report - pods that ended + what is foreseen for those it does not name

`state_after` is that formula. The exporter compares it with what the kubelet says and is silent if
both are the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from numakube.api.pod import has_ended, static_uid
from numakube.errors import InvalidValue
from numakube.topology.exact_report import uid_hash
from numakube.topology.model_report import holding_of, moved, node_of, place, report_of, zones_of
from numakube.topology.nrt_names import FORESEEN
from numakube.topology.numa_zones import Unusable
from numakube.topology.report_notation import read_holding, write_holding

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from numakube.api.pod import Pod
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.topology.exact_report import DeviceTable, ExactReport, Holding, UidHash
    from numakube.topology.topology_view import NodeTopology
    from numakube.values.resources import Amounts


def foreseen_text(model: KubeletNode, uid: str) -> str:
    """Return the annotation of a pod that *model* has admitted."""
    resources = {name: index for index, name in enumerate(sorted(model.devices.resources()))}
    return f"{uid_hash(uid)} {write_holding(holding_of(model, uid), resources)}"


def read_foreseen(annotations: Mapping[str, str], uid: str, exact: ExactReport) -> Holding | None:
    """Return what is foreseen for a pod on the node of *exact*; ``None`` if nothing is."""
    text = annotations.get(FORESEEN)
    if text is None:
        return None
    whose, _, holding = text.partition(" ")
    if whose != uid_hash(uid):
        return None
    try:
        return read_holding(holding, tuple(sorted(exact.devices)))
    except InvalidValue:
        return None


def overlap(one: Holding, other: Holding) -> bool:
    """Tell whether two pods hold the same CPU or device, which cannot be."""
    return bool(one.cpus.bits & other.cpus.bits) or any(
        not set(places).isdisjoint(other.devices.get(name, ()))
        for name, places in one.devices.items()
    )


def state_after(
    exact: ExactReport,
    gone: Iterable[UidHash],
    foreseen: Mapping[UidHash, Holding],
    *,
    crowded: bool = False,
) -> ExactReport | None:
    """Return the state in which *gone* have left and *foreseen* came; ``None`` if it is impossible.

    Args:
        exact: the last report.
        gone: pods that it names and that have ended.
        foreseen: what pods that it does not name are expected to hold.
        crowded: whether more memory may be held than there is, since others may be gone.
    """
    model = node_of(exact)
    if isinstance(model, Unusable):
        return None
    for uid in gone:
        model.remove(uid)
    model.collect_garbage()
    if not all(place(model, uid, held, crowded=crowded) for uid, held in foreseen.items()):
        return None
    after = report_of(model)
    # Its pods are known by their hashes already, and are hashed again.
    hashes = {uid_hash(uid): uid for uid in model.pods}
    return replace(after, pods={hashes[uid]: one for uid, one in after.pods.items()})


def unknown_pods(exact: ExactReport, pods: Iterable[Pod]) -> set[UidHash]:
    """Return the pods that *exact* names and that are not among *pods*.

    The kubelet knows a static pod by another uid than the API server.
    """
    known = {uid_hash(uid) for pod in pods for uid in (pod.metadata.uid, static_uid(pod) or "")}
    return exact.pods.keys() - known


def current_view(view: NodeTopology, pods: Collection[Pod]) -> NodeTopology:
    """Return *view* as it would be if its producer reported every change.

    If nobody keeps its report up to date, pods that are gone from the API hold nothing any more.

    Args:
        view: what a report says.
        pods: those that the API has on the node, ended ones too.
    """
    exact = view.report
    if exact is None or (view.heartbeat is None and not view.orphaned):
        return view
    gone, foreseen = set(), {}
    for pod in pods:
        uid = uid_hash(pod.metadata.uid)
        if has_ended(pod):
            gone |= {uid} & exact.pods.keys()
        elif uid not in exact.pods and pod.status is not None and pod.status.start_time:
            holding = read_foreseen(pod.metadata.annotations, pod.metadata.uid, exact)
            if holding is not None:
                foreseen[uid] = holding
    unknown = unknown_pods(exact, pods)
    for uid in unknown:
        if view.orphaned or any(overlap(exact.pods[uid], holding) for holding in foreseen.values()):
            gone.add(uid)
    if not gone and not foreseen:
        return view
    after = state_after(exact, gone, foreseen, crowded=bool(unknown))
    return view if after is None else _with_state(view, exact, after)


def _with_state(view: NodeTopology, before: ExactReport, after: ExactReport) -> NodeTopology:
    old, new = (_free(report) for report in (before, after))
    zones = tuple(
        replace(zone, available=moved(zone, old.get(zone.id, {}), new.get(zone.id, {})))
        for zone in view.zones
    )
    return replace(view, zones=zones, report=after)


def _free(exact: ExactReport) -> dict[int, Amounts]:
    model = node_of(exact)
    return (
        {} if isinstance(model, Unusable) else {zone.id: zone.available for zone in zones_of(model)}
    )


def same_state(one: ExactReport, other: ExactReport) -> bool:
    """Tell whether a kubelet in either state takes every further pod alike.

    Which of several equal devices a pod got does not matter: kubelets choose at random.
    """
    return (
        one.machine == other.machine
        and one.settings == other.settings
        and one.kubernetes == other.kubernetes
        and one.tree == other.tree
        and one.shared_cpus == other.shared_cpus
        and one.memory == other.memory
        and one.devices == other.devices
        and _holdings(one) == _holdings(other)
    )


def _holdings(exact: ExactReport) -> dict[UidHash, tuple[object, ...]]:
    return {
        uid: (
            held.cpus,
            sorted(held.memory, key=lambda block: (block.type, block.numa_nodes, block.size_bytes)),
            {
                name: sorted(_alike(exact.devices[name], position) for position in positions)
                for name, positions in held.devices.items()
            },
        )
        for uid, held in exact.pods.items()
    }


def _alike(table: DeviceTable, position: int) -> tuple[object, ...]:
    """Return what devices have in common that serve equally well."""
    if table.functions or table.choice is not None:
        return (position,)
    return (*table.numa_nodes[position], -1, position in table.unhealthy)
