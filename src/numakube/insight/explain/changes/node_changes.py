"""Change a node (fresh data, another scope or policy of its Topology Manager) or add one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.nrt import Attribute, with_attribute, without_attribute
from numakube.insight.explain.explanation_document import Change
from numakube.scheduling.numa.alignment_refusal import Kind
from numakube.topology import nrt_names
from numakube.topology.report_codec import with_exact
from numakube.topology.topology_view import NodeTopology
from numakube.values.topology_policy import ALIGNING_POLICIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.nrt import NodeResourceTopology
    from numakube.insight.explain.node_verdicts import Judgement
    from numakube.insight.explain.what_if import Bench
    from numakube.insight.facts import ClusterFacts
    from numakube.scheduling.snapshot.nodes import NodeInfo


_MOST_NODES: Final = 6
_FULL_CORES: Final = "full-pcpus-only"


def refreshed(bench: Bench, judgement: Judgement, facts: ClusterFacts) -> Iterator[Change]:
    """Yield the nodes on which nothing but old data stands in the way."""
    for name in _refused_by_numa(judgement, blocked=True):
        topology = facts.topologies.get(name)
        if topology is None:
            continue
        fresh = msgspec.structs.replace(
            topology, attributes=without_attribute(topology.attributes, nrt_names.STALE)
        )
        with bench.report_changed(fresh):
            fits = bench.taker(bench.pod, among=(name,)) is not None
        if fits:
            text = (
                f"Get the exporter on {name} to publish again: the pod fits there if its data"
                " still holds."
            )
            yield Change(kind="refresh-nrt", text=text, node=name)
            return
    yield from _accounted(bench, judgement, facts)


def _accounted(bench: Bench, judgement: Judgement, facts: ClusterFacts) -> Iterator[Change]:
    """Yield a node whose report may have all pods already, which then are counted twice."""
    for name in _refused_by_numa(judgement, blocked=False)[:_MOST_NODES]:
        view, topology = facts.view(name), facts.topologies.get(name)
        if topology is None or not isinstance(view, NodeTopology) or view.report is not None:
            continue
        with bench.report_changed(topology, pods=False):
            fits = bench.taker(bench.pod, among=(name,)) is not None
        if fits:
            text = (
                f"Wait for the next NodeResourceTopology of {name}: pods that it may not contain"
                " yet are counted on every zone until then."
            )
            yield Change(kind="refresh-nrt", text=text, node=name)
            return


def reconfigured(bench: Bench, judgement: Judgement, facts: ClusterFacts) -> Iterator[Change]:
    """Yield what another configuration of a node's kubelet would do, the mildest first."""
    for name in _refused_by_numa(judgement, blocked=False)[:_MOST_NODES]:
        topology, view = facts.topologies.get(name), facts.view(name)
        if topology is None or not isinstance(view, NodeTopology):
            continue
        found = list(_variants(bench, topology, view))
        if found:
            yield from found
            return


def _variants(bench: Bench, topology: NodeResourceTopology, view: NodeTopology) -> Iterator[Change]:
    other = "pod" if view.scope == "container" else "container"
    policies = [policy for policy in ALIGNING_POLICIES if policy.code < view.policy.code]
    options = {**view.cpu_manager_options}
    if view.report is not None:
        options = {**view.report.settings.cpu_options}
    if options.get(_FULL_CORES) == "true" and _fits(bench, topology, view, full_cores=False):
        what = f"the CPU Manager option {_FULL_CORES} switched off"
        yield _change("cpu-option", view.node, what, _FULL_CORES, "true", "false")
    if _fits(bench, topology, view, scope=other):
        what = f"topologyManagerScope {other} instead of {view.scope}"
        yield _change("scope", view.node, what, "topologyManagerScope", view.scope, other)
    for policy in policies:
        if _fits(bench, topology, view, policy=policy):
            what = f"topologyManagerPolicy {policy} instead of {view.policy}"
            yield _change("policy", view.node, what, "topologyManagerPolicy", view.policy, policy)
            return


def _fits(
    bench: Bench,
    topology: NodeResourceTopology,
    view: NodeTopology,
    *,
    policy: str = "",
    scope: str = "",
    full_cores: bool = True,
) -> bool:
    changed = _with_settings(topology, view, policy=policy, scope=scope, full_cores=full_cores)
    with bench.report_changed(changed):
        return bench.taker(bench.pod, among=(view.node,)) is not None


def _with_settings(
    topology: NodeResourceTopology,
    view: NodeTopology,
    *,
    policy: str,
    scope: str,
    full_cores: bool,
) -> NodeResourceTopology:
    """Return the report that the node would publish with other settings and the same pods."""
    told = {
        nrt_names.TOPOLOGY_POLICY: policy or view.policy,
        nrt_names.TOPOLOGY_SCOPE: scope or view.scope,
    }
    if not full_cores:
        told[nrt_names.option_attribute(nrt_names.CPU_OPTION_PREFIX, _FULL_CORES)] = "false"
    attributes = topology.attributes
    for name, value in told.items():
        attributes = with_attribute(attributes, Attribute(name=name, value=value))
    changed = msgspec.structs.replace(topology, attributes=attributes, topology_policies=())
    if view.report is not None:
        before = view.report.settings
        options = dict(before.cpu_options)
        if not full_cores:
            options.pop(_FULL_CORES, None)
        settings = replace(
            before,
            topology_policy=policy or before.topology_policy,
            topology_scope=scope or before.topology_scope,
            cpu_options=options,
        )
        return with_exact(changed, replace(view.report, settings=settings))
    return changed


def _change(kind: str, node: str, what: str, setting: str, was: str, to: str) -> Change:
    text = f"Run the kubelet of {node} with {what} (drain it first): fits there."
    return Change(kind=kind, text=text, node=node, resource=setting, was=was, to=to)


def _refused_by_numa(judgement: Judgement, *, blocked: bool) -> list[str]:
    found: list[str] = []
    for group in judgement.refusals:
        refusal = group.refusal
        if refusal is not None and (refusal.kind is Kind.BLOCKED) == blocked:
            found += group.nodes
    return found


_MOST_KINDS: Final = 8
_HOSTNAME: Final = "kubernetes.io/hostname"


def added(bench: Bench, judgement: Judgement, facts: ClusterFacts) -> Iterator[Change]:
    """Yield the node of which one more would take the pod, unless room is being made already."""
    if judgement.nomination is not None:
        return
    names = [name for group in judgement.refusals for name in group.nodes]
    for name in _one_of_each_kind(bench, names):
        with bench.node_added(name, facts.topologies.get(name)) as new:
            fits = new and bench.taker(bench.pod, among=(new,)) is not None
        if fits:
            text = f"Add a node like {name}: an empty one would take it."
            yield Change(kind="add-node", text=text, node=name)
            return


def _one_of_each_kind(bench: Bench, names: list[str]) -> list[str]:
    """Return the first node of each kind, the closest to fitting first."""
    kinds: dict[object, str] = {}
    for name in names:
        node = bench.node(name)
        if node is not None:
            kinds.setdefault(_kind(node), name)
    return list(kinds.values())[:_MOST_KINDS]


def _kind(node: NodeInfo) -> object:
    labels = {key: value for key, value in node.labels.items() if key != _HOSTNAME}
    topology = node.numa.topology if node.numa is not None else None
    settings = (topology.policy, topology.scope) if topology is not None else ()
    return frozenset(labels.items()), frozenset(node.allocatable.items()), settings
