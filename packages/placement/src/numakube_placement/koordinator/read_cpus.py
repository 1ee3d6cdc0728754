"""Where a node's CPUs are, and which of them are never bound to pods.

The layout stands in koordlet's annotation or in our exporter's exact report. CPUs are kept back by
the kubelet (for system daemons, and for pods that it has pinned itself), by the owner of the node,
and for processes of the system.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from numakube.api.koordinator import keys
from numakube.api.koordinator.node_annotations import (
    AnnotatedCpuTopology,
    CpuManagerPolicy,
    NodeReservation,
    PodCpuAlloc,
    SystemQosResource,
)
from numakube.errors import ConfigError, InvalidValue
from numakube.kubelet import KubeletSettings
from numakube.kubelet.cpu_manager import start_cpu_manager
from numakube.kubelet.cpu_topology import CpuTopology as KubeletCpus
from numakube.kubelet.kubelet_versions import behaviour_of
from numakube.values.cpuset import MAX_CPU_ID, NO_CPUS, CpuMask, CpuSet, cpu_mask, union
from numakube.values.numamask import MAX_NODE_ID
from numakube.values.quantity import milli_value
from numakube.values.resources import MILLI_PER_CPU
from numakube_placement.koordinator.annotation_values import annotation, read_json
from numakube_placement.koordinator.node_facts import CpuLayout, CpuPlace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.kubelet.machine import Machine
    from numakube.topology import ExactReport


def cpu_layout_of(
    annotations: Mapping[str, str], report: ExactReport | None, problems: list[str]
) -> CpuLayout | None:
    """Return where the CPUs are, by the NRT's *annotations* or its *report*."""
    text = annotations.get(keys.CPU_TOPOLOGY)
    if text is not None:
        layout, said = _layout_in(text)
        problems += said
        if layout is not None:
            return layout
    return _layout_of_model(_Model(report.machine)) if report is not None else None


class _Model:
    """Machines whose cores are the very same objects: reports of one model of machine share them.

    Reports come with every pod and say the same of the machine each time, so this is asked often.
    """

    __slots__ = ("_cores", "machine")

    def __init__(self, machine: Machine) -> None:
        # The machine is kept, so that no other cores can have the same identity.
        self.machine = machine
        self._cores = tuple((node.id, id(node.cores)) for node in machine.nodes)

    def __hash__(self) -> int:
        return hash(self._cores)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Model) and self._cores == other._cores


@lru_cache(maxsize=256)
def _layout_of_model(model: _Model) -> CpuLayout:
    return layout_of(model.machine)


@lru_cache(maxsize=256)
def _layout_in(text: str) -> tuple[CpuLayout | None, tuple[str, ...]]:
    """Return the layout that koordlet's annotation tells; machines of one model share it."""
    key, problems = keys.CPU_TOPOLOGY, list[str]()
    found = read_json(AnnotatedCpuTopology, {key: text}, key, problems)
    if found is None:
        return None, tuple(problems)
    places = sorted(
        (CpuPlace(cpu.id, cpu.core, cpu.socket, cpu.node) for cpu in found.detail),
        key=lambda place: place.id,
    )
    if not places:
        problems.append(f"{annotation(key, 'detail')}: lists no CPU")
    elif len({place.id for place in places}) < len(places):
        problems.append(f"{annotation(key, 'detail')}: lists a CPU twice")
    elif not all(map(_is_sane, places)):
        problems.append(f"{annotation(key, 'detail')}: has ids out of range")
    return (None if problems else CpuLayout(tuple(places))), tuple(problems)


def _is_sane(place: CpuPlace) -> bool:
    return (
        0 <= place.id <= MAX_CPU_ID
        and 0 <= place.numa <= MAX_NODE_ID
        and place.core >= 0
        and place.socket >= 0
    )


def kept_by_owner(
    annotations: Mapping[str, str], layout: CpuLayout | None, problems: list[str]
) -> CpuMask:
    """Return the CPUs that annotations of a Node, or their copies on an NRT, keep from pods."""
    kept = NO_CPUS
    reservation = read_json(NodeReservation, annotations, keys.NODE_RESERVATION, problems)
    if reservation is not None:
        place = annotation(keys.NODE_RESERVATION, "reservedCPUs")
        kept |= _cpus(reservation.reserved_cpus, place, problems)
        if not kept and layout is not None:
            kept |= _first_cores(layout, _reserved_count(reservation, problems))
    system = read_json(SystemQosResource, annotations, keys.NODE_SYSTEM_QOS, problems)
    if system is not None and system.cpuset_exclusive is not False:
        kept |= _cpus(system.cpuset, annotation(keys.NODE_SYSTEM_QOS, "cpuset"), problems)
    return kept


def kept_by_kubelet(annotations: Mapping[str, str], problems: list[str]) -> CpuMask:
    """Return the CPUs that koordlet says the kubelet has reserved or given to pods itself."""
    key = keys.CPU_MANAGER_POLICY
    # The view of the same object reports what cannot be read.
    policy = read_json(CpuManagerPolicy, annotations, key, [])
    kept = (
        _cpus(policy.reserved_cpus, annotation(key, "reservedCPUs"), problems)
        if policy
        else NO_CPUS
    )
    return kept | union(_pinned(annotations, problems))


def _pinned(annotations: Mapping[str, str], problems: list[str]) -> Iterator[CpuMask]:
    key = keys.POD_CPU_ALLOCS
    if annotations.get(key) == "null":
        return
    allocations = read_json(tuple[PodCpuAlloc, ...], annotations, key, problems) or ()
    for index, one in enumerate(allocations):
        if one.managed_by_kubelet and one.uid:
            yield _cpus(one.cpuset, annotation(key, f"[{index}].cpuset"), problems)


def kept_in_report(report: ExactReport) -> CpuMask:
    """Return the CPUs that the kubelet has reserved or given to pods, by our exact report."""
    return _reserved_in(report) | union(held.cpus.mask for held in report.pods.values())


def _reserved_in(report: ExactReport) -> CpuMask:
    settings = report.settings
    if settings.reserved_cpus:
        return settings.reserved_cpus.mask
    if settings.cpu_policy != "static":
        return NO_CPUS
    milli = settings.reserved_cpu_milli
    options = tuple(sorted(settings.cpu_options.items()))
    return _reserved_by(_Model(report.machine), milli, options, report.kubernetes)


@lru_cache(maxsize=256)
def _reserved_by(
    model: _Model, milli: int | None, options: tuple[tuple[str, str], ...], kubernetes: str
) -> CpuMask:
    """Return the CPUs that a static CPU Manager reserves if none are listed."""
    settings = KubeletSettings(
        cpu_policy="static",
        cpu_options=dict(options),
        reserved_cpu_milli=milli,
        # The kubelet runs, so its options are allowed.
        feature_gates={"CPUManagerPolicyAlphaOptions": True, "CPUManagerPolicyBetaOptions": True},
    )
    try:
        cpus = KubeletCpus.of(model.machine)
        manager = start_cpu_manager(cpus, settings, behaviour_of(kubernetes))
    except ConfigError:
        # A kubelet that should not run by all that the model knows.
        return _first_cores(_layout_of_model(model), -(-(milli or 0) // MILLI_PER_CPU))
    return manager.reserved if manager is not None else NO_CPUS


def _cpus(text: str, place: str, problems: list[str]) -> CpuMask:
    try:
        return CpuSet.parse(text).mask
    except InvalidValue as error:
        problems.append(f"{place}: {error}")
        return NO_CPUS


def _reserved_count(reservation: NodeReservation, problems: list[str]) -> int:
    """Return how many whole CPUs a reservation asks for that lists none."""
    try:
        return -(-milli_value(reservation.resources.get("cpu", 0)) // MILLI_PER_CPU)
    except InvalidValue as error:
        problems.append(f"{annotation(keys.NODE_RESERVATION, 'resources')}: {error}")
        return 0


def _first_cores(layout: CpuLayout, count: int) -> CpuMask:
    """Return *count* CPUs, core by core, as the kubelet takes them from an idle machine."""
    in_order = sorted(
        layout.places, key=lambda place: (place.socket, place.numa, place.core, place.id)
    )
    return cpu_mask(place.id for place in in_order[:count])


def layout_of(machine: Machine) -> CpuLayout:
    """Return where the logical CPUs of *machine* are."""
    places = [
        CpuPlace(cpu, core.id, core.socket, node.id)
        for node in machine.nodes
        for core in node.cores
        for cpu in core.threads
    ]
    return CpuLayout(tuple(sorted(places, key=lambda place: place.id)))
