"""Metrics, dashboard and command line show the same numbers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from tests.worlds.virtual_lab import Lab, RunningScheduler

from numakube.api.pod import has_ended
from numakube.insight.facts import ClusterFacts
from numakube.insight.usage.zone_usage import cluster_usage, node_usage
from numakube.topology.topology_view import NodeTopology
from numakube_pages.endpoints import source_of
from numakube_pages.overview import overview_of


async def figures_are_the_same_everywhere(lab: Lab) -> AsyncIterator[str]:
    """What a scheduler's metrics and its dashboard count is what the API server has."""
    facts = await lab.facts()
    for name, running in lab.schedulers.items():
        if not running.process.leading or running.task.done() or running.shard:
            continue
        for text in _metrics(lab, running, facts):
            yield f"metrics of scheduler {name}: {text}"
        async for text in _pages(lab, running, facts):
            yield f"dashboard of scheduler {name}: {text}"


def _metrics(lab: Lab, running: RunningScheduler, facts: ClusterFacts) -> Iterator[str]:
    figures = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in running.process.registry.collect()
        for sample in family.samples
    }
    pending = sum(value for key, value in figures.items() if key[0] == "scheduler_pending_pods")
    if pending != len(lab.waiting()):
        yield f"{pending:.0f} pods are pending, {len(lab.waiting())} wait"
    states = {
        key[1]: int(value) for key, value in figures.items() if key[0] == "numakube_cache_nodes"
    }
    exact = sum(
        isinstance(view := facts.view(name), NodeTopology)
        and view.report is not None
        and not view.stale
        and not view.orphaned
        for name in facts.nodes
    )
    unknown = sum(not isinstance(facts.view(name), NodeTopology) for name in facts.nodes)
    if sum(states.values()) != len(facts.nodes):
        yield f"{states} for {len(facts.nodes)} nodes"
    if states.get("unknown", 0) != unknown or states.get("exact", 0) > exact:
        yield f"{states}, by the reports {exact} are exact and {unknown} unknown"


async def _pages(lab: Lab, running: RunningScheduler, facts: ClusterFacts) -> AsyncIterator[str]:
    process = running.process
    source = source_of(lab.client, process.deciding())
    source.open()
    try:
        overview = overview_of(source, await source.zone_book.rows())
    finally:
        source.close()
    waiting = sum(not pod.spec.node_name and not has_ended(pod) for pod in facts.pods)
    if overview.nodes != len(facts.nodes) or overview.waiting != waiting:
        shown = f"{overview.nodes} nodes and {overview.waiting} waiting pods"
        yield f"{shown}, there are {len(facts.nodes)} and {waiting}"
    usages = [node_usage(facts, name)[0] for name in sorted(facts.nodes)]
    whole = cluster_usage(usages)
    if not lab.all_exact or lab.unsettled:
        return
    several = {
        resource
        for kubelet in lab.pool.kubelets.values()
        for resource, devices in kubelet.plan.machine.devices.items()
        if any(len(device.numa_nodes) > 1 for device in devices)
    }
    # Reports of amounts count such devices of plugins in each of their zones, and so do pages.
    pages = {
        total.name: (total.total, total.free)
        for total in overview.totals
        if total.name not in several
    }
    top = {name: (amount, whole.free.get(name, 0)) for name, amount in whole.allocatable.items()}
    wrong = {
        name: (pages.get(name), top.get(name))
        for name in pages.keys() & top.keys()
        if pages[name] != top[name]
    }
    if wrong:
        yield f"of zones (total, free) it shows, and top says: {wrong}"
