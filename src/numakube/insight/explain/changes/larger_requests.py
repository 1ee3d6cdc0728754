"""Ask for more: whole cores, or as much as needs the same number of zones.

A kubelet with ``full-pcpus-only`` gives out whole cores: it refuses 11 CPUs and takes 12. Policy
``restricted`` wants everything to need the same number of zones. Eight GPUs of eight zones need all
of them; CPUs that would fit into seven do not, and the kubelet rejects the pod. With as many CPUs,
and as much memory, as do not fit into seven it takes it.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final

from numakube.insight.explain.explanation_document import Change
from numakube.insight.planned_pods import (
    all_containers,
    asked_by,
    step_of,
    text_of,
    whole_cores_above,
    with_amounts,
)
from numakube.scheduling.numa.alignment_refusal import Kind
from numakube.values.resources import CPU, MEMORY, is_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.api.pod import Pod
    from numakube.insight.explain.node_verdicts import Judgement
    from numakube.insight.explain.what_if import Bench
    from numakube.scheduling.numa.alignment_refusal import AlignmentRefusal
    from numakube.topology.topology_view import NodeTopology, ZoneView

_MOST_NODES: Final = 6
_GI: Final = 1 << 30
_WHOLE_CORES: Final = (Kind.WHOLE_CORES, Kind.KUBELET)
"""What stands in the way of CPUs that make up no whole cores, by counts and by the model."""


def larger(bench: Bench, judgement: Judgement) -> Iterator[Change]:
    """Yield the least that makes up whole cores, or needs as many zones for all resources."""
    yield from _whole_cores(bench, judgement)
    for group in judgement.refusals:
        refusal = group.refusal
        if refusal is None or refusal.kind is not Kind.SIZES:
            continue
        for name in group.nodes[:_MOST_NODES]:
            found = _on(bench, name, refusal)
            if found is not None:
                yield found
                return


def _whole_cores(bench: Bench, judgement: Judgement) -> Iterator[Change]:
    if not any(_may_lack_whole_cores(group.refusal) for group in judgement.refusals):
        return
    for container, _ in all_containers(bench.pod):
        wanted = asked_by(container).get(CPU, 0)
        for amount in whole_cores_above(wanted):
            node = bench.taker(with_amounts(bench.pod, container.name, {CPU: amount}))
            if node is not None:
                part = _part(container.name, CPU, wanted, amount, node)
                text = f"Ask for {part.text} in container {container.name}, which are whole cores"
                yield Change(kind="more", text=f"{text}: fits on {node}.", node=node, parts=(part,))
                break


def _may_lack_whole_cores(refusal: AlignmentRefusal | None) -> bool:
    return refusal is not None and refusal.kind in _WHOLE_CORES


def _on(bench: Bench, name: str, refusal: AlignmentRefusal) -> Change | None:
    node = bench.node(name)
    topology = node.numa.topology if node is not None and node.numa is not None else None
    if topology is None:
        return None
    container = refusal.container or _largest_container(bench.pod)
    wanted = _wanted(bench.pod, refusal.container)
    # How much a zone counts for is the kubelet's affair: all of it, or what pods may have.
    for capacity, even in product((True, False), (False, True)):
        more = _more(wanted, topology, capacity=capacity, even=even)
        added = {resource: amount - wanted[resource] for resource, amount in more.items()}
        pod = _with_more(bench.pod, container, added)
        if more and bench.taker(pod, among=(name,)) is not None:
            return _change(bench.pod, pod, container, name)
    return None


def _wanted(pod: Pod, container: str) -> dict[str, int]:
    """Return what a container asks for, or all of them together if it is empty."""
    total: dict[str, int] = {}
    for one, role in all_containers(pod):
        if container in ("", one.name) and (container or role != "init"):
            for resource, amount in asked_by(one).items():
                total[resource] = total.get(resource, 0) + amount
    return total


def _largest_container(pod: Pod) -> str:
    return max(pod.spec.containers, key=lambda container: asked_by(container).get(CPU, 0)).name


def _more(
    wanted: Mapping[str, int], topology: NodeTopology, *, capacity: bool, even: bool
) -> dict[str, int]:
    """Return the least amounts of CPU and memory that need as many zones as what needs most."""
    sizes = {name: _sizes(topology.zones, name, capacity=capacity) for name in wanted}
    widths = {name: _width(wanted[name], sizes[name]) for name in wanted if sizes[name]}
    most = max(widths.values(), default=0)
    return {
        name: _rounded(name, sum(sizes[name][: most - 1]), even=even)
        for name, width in widths.items()
        if width < most and (name == CPU or is_memory(name))
    }


def _sizes(zones: tuple[ZoneView, ...], resource: str, *, capacity: bool) -> list[int]:
    """Return what zones have of *resource* when idle, the largest first."""
    found = ((zone.capacity if capacity else zone.allocatable).get(resource, 0) for zone in zones)
    return sorted((size for size in found if size), reverse=True)


def _width(amount: int, sizes: list[int]) -> int:
    """Return how many zones *amount* needs; one more than there are if it does not fit."""
    for count in range(1, len(sizes) + 1):
        if sum(sizes[:count]) >= amount:
            return count
    return len(sizes) + 1


def _rounded(resource: str, too_little: int, *, even: bool) -> int:
    """Return the next amount above *too_little*; of memory a round one, of CPUs whole cores."""
    step = _GI if resource == MEMORY else step_of(resource) * (2 if even and resource == CPU else 1)
    return (too_little // step + 1) * step


def _with_more(pod: Pod, container: str, added: Mapping[str, int]) -> Pod:
    before = next(asked_by(one) for one, _ in all_containers(pod) if one.name == container)
    amounts = {name: before.get(name, 0) + amount for name, amount in added.items()}
    return with_amounts(pod, container, amounts)


def _change(before: Pod, after: Pod, container: str, node: str) -> Change:
    then, now = (
        next(asked_by(one) for one, _ in all_containers(pod) if one.name == container)
        for pod in (before, after)
    )
    parts = tuple(
        _part(container, name, then[name], now[name], node)
        for name in now
        if now[name] != then[name]
    )
    listed = " and ".join(part.text for part in parts)
    text = f"Ask for more in container {container}, {listed}, so that all of it needs as many zones"
    return Change(kind="more", text=f"{text}: fits on {node}.", node=node, parts=parts)


def _part(container: str, resource: str, was: int, now: int, node: str) -> Change:
    before, after = text_of(resource, was), text_of(resource, now)
    return Change(
        kind="more-cpus" if resource == CPU else "more-memory",
        text=f"{after} {'CPUs' if resource == CPU else resource} instead of {before}",
        node=node,
        container=container,
        resource=resource,
        was=before,
        to=after,
    )
