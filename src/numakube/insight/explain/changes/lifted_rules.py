"""Lift a rule: tolerate a taint, drop a selector, uncordon a node.

That may be all it takes, or, where no single change helps, go with asking for less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.api.affinity_and_taints import Affinity, Toleration
from numakube.insight.explain.changes.smaller_requests import smaller
from numakube.insight.explain.explanation_document import Change
from numakube.insight.explain.what_if import Bench
from numakube.scheduling.matching import taint_text, untolerated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numakube.api.affinity_and_taints import Taint
    from numakube.api.nodes import Node
    from numakube.api.pod import Pod
    from numakube.insight.explain.node_verdicts import Judgement

_MOST_NODES: Final = 512
"""Nodes whose taints and cordons are looked at."""


def lifted(bench: Bench, judgement: Judgement) -> Iterator[Change]:
    """Yield the rules whose lifting alone lets the pod fit."""
    plugins = {refusal.status.plugin for refusal in judgement.refusals}
    for plugin, find in _FINDERS.items():
        if plugin in plugins:
            yield from find(bench, _refused_by(judgement, plugin))


def next_obstacle(bench: Bench, plugin: str, name: str) -> str:
    """Return what else keeps the pod from a node that *plugin* refused; empty if nothing does."""
    node, relax = bench.node(name), _RELAXED.get(plugin)
    if node is None or relax is None:
        return ""
    pod = relax(bench.pod, node.node)
    trial = bench.trial(name, pod=pod)
    return "" if trial is None else trial.verdict().message


def lifted_in_thought(bench: Bench, judgement: Judgement) -> Iterator[tuple[Change, str, Pod]]:
    """Yield rules about nodes, each with a node behind it and the pod that would pass."""
    for group in judgement.refusals:
        relax = _RELAXED.get(group.status.plugin)
        node = bench.node(group.nodes[0]) if group.nodes else None
        if relax is not None and node is not None:
            change = _naming(group.status.plugin, bench.pod, node.node)
            yield change, node.name, relax(bench.pod, node.node)


def _naming(plugin: str, pod: Pod, node: Node) -> Change:
    name = node.metadata.name
    match plugin:
        case "NodeUnschedulable":
            return Change(kind="uncordon", text=f"Uncordon {name}", node=name)
        case "TaintToleration":
            listed = ", ".join(taint_text(taint) for taint in untolerated(pod, node))
            return Change(kind="tolerate", text=f"Tolerate the taint {listed}", to=listed)
        case _:
            text = "Drop the node selector and the required node affinity"
            return Change(kind="node-affinity", text=text)


def ungated(gates: str, node: str) -> Change:
    """Return the removal of a pod's scheduling *gates*, after which it fits on *node*."""
    text = f"Have the scheduling gates removed ({gates}): it then fits on {node}."
    return Change(kind="scheduling-gates", text=text, node=node, was=gates)


def _refused_by(judgement: Judgement, plugin: str) -> list[str]:
    groups = (refusal.nodes for refusal in judgement.refusals if refusal.status.plugin == plugin)
    return [name for nodes in groups for name in nodes][:_MOST_NODES]


def _uncordoned(bench: Bench, nodes: list[str]) -> Iterator[Change]:
    for name in nodes:
        info = bench.node(name)
        if info is None:
            continue
        spec = msgspec.structs.replace(info.node.spec, unschedulable=False, taints=tuple(
            taint
            for taint in info.node.spec.taints
            if taint.key != "node.kubernetes.io/unschedulable"
        ))  # fmt: skip
        with bench.node_changed(msgspec.structs.replace(info.node, spec=spec)):
            fits = bench.taker(bench.pod, among=(name,)) is not None
        if fits:
            text = f"Uncordon {name} (kubectl uncordon {name}): it has room."
            yield Change(kind="uncordon", text=text, node=name)
            return


def _tolerated(bench: Bench, nodes: list[str]) -> Iterator[Change]:
    seen: set[tuple[Taint, ...]] = set()
    for name in nodes:
        info = bench.node(name)
        taints = untolerated(bench.pod, info.node) if info is not None else ()
        if not taints or taints in seen:
            continue
        seen.add(taints)
        added = tuple(_toleration(taint) for taint in taints)
        spec = bench.pod.spec
        pod = _with_spec(bench.pod, tolerations=(*spec.tolerations, *added))
        among = [node for node in nodes if _has_only(bench, node, taints)]
        taker = bench.taker(pod, among=among)
        if taker is not None:
            listed = ", ".join(taint_text(taint) for taint in taints)
            text = f"Tolerate the taint {listed}: fits on {taker}."
            yield Change(kind="tolerate", text=text, node=taker, to=listed)


def _has_only(bench: Bench, name: str, taints: tuple[Taint, ...]) -> bool:
    info = bench.node(name)
    return info is not None and set(untolerated(bench.pod, info.node)) <= set(taints)


def _toleration(taint: Taint) -> Toleration:
    return Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)


def _unselected(bench: Bench, nodes: list[str]) -> Iterator[Change]:
    spec = bench.pod.spec
    for key, value in spec.node_selector.items():
        rest = {name: text for name, text in spec.node_selector.items() if name != key}
        taker = bench.taker(_with_spec(bench.pod, node_selector=rest), among=nodes)
        if taker is not None:
            label = f"{key}={value}"
            text = f"Drop nodeSelector {label}, or label a node with it: fits on {taker}."
            yield Change(kind="node-selector", text=text, node=taker, was=label)
            return
    taker = bench.taker(_without_node_rules(bench.pod), among=nodes)
    if taker is not None:
        text = f"Drop the node selector and the required node affinity: fits on {taker}."
        yield Change(kind="node-affinity", text=text, node=taker)


def _without_node_rules(pod: Pod) -> Pod:
    affinity = pod.spec.affinity
    if affinity is not None:
        affinity = msgspec.structs.replace(affinity, node_affinity=None)
    return _with_spec(pod, node_selector={}, affinity=affinity)


def _without_ports(bench: Bench, nodes: list[str]) -> Iterator[Change]:
    ports = [
        port.host_port
        for container in bench.pod.spec.containers
        for port in container.ports
        if port.host_port
    ]
    containers = tuple(
        msgspec.structs.replace(
            container,
            ports=tuple(msgspec.structs.replace(port, host_port=0) for port in container.ports),
        )
        for container in bench.pod.spec.containers
    )
    taker = bench.taker(_with_spec(bench.pod, containers=containers), among=nodes)
    if taker is not None:
        listed = ", ".join(map(str, ports))
        text = f"Do without hostPort {listed}, or take another one: fits on {taker}."
        yield Change(kind="host-port", text=text, node=taker, was=listed)


def _spread_softly(bench: Bench, nodes: list[str]) -> Iterator[Change]:
    soft = tuple(
        msgspec.structs.replace(constraint, when_unsatisfiable="ScheduleAnyway")
        for constraint in bench.pod.spec.topology_spread_constraints
    )
    taker = bench.taker(_with_spec(bench.pod, topology_spread_constraints=soft), among=nodes)
    if taker is not None:
        keys = ", ".join(dict.fromkeys(constraint.topology_key for constraint in soft))
        text = f"Spread over {keys} with whenUnsatisfiable: ScheduleAnyway: fits on {taker}."
        yield Change(kind="topology-spread", text=text, node=taker, was=keys)


def _without_pod_rules(bench: Bench, nodes: list[str]) -> Iterator[Change]:
    affinity = bench.pod.spec.affinity or Affinity()
    for field, what in (("pod_affinity", "affinity"), ("pod_anti_affinity", "anti-affinity")):
        rule = getattr(affinity, field)
        if rule is None or not rule.required:
            continue
        soft = msgspec.structs.replace(affinity, **{field: None})
        taker = bench.taker(_with_spec(bench.pod, affinity=soft), among=nodes)
        if taker is not None:
            text = f"Make the required pod {what} a preferred one: fits on {taker}."
            yield Change(kind=f"pod-{what}", text=text, node=taker)


def _without_volumes(bench: Bench, nodes: list[str]) -> Iterator[Change]:
    for volume in bench.pod.spec.volumes:
        rest = tuple(other for other in bench.pod.spec.volumes if other is not volume)
        taker = bench.taker(_with_spec(bench.pod, volumes=rest))
        if taker is not None:
            text = f"Settle volume {volume.name} (see above); without it the pod fits on {taker}."
            yield Change(kind="volume", text=text, node=taker, was=volume.name)
            return


def _tolerant(pod: Pod, node: Node) -> Pod:
    added = tuple(_toleration(taint) for taint in untolerated(pod, node))
    return _with_spec(pod, tolerations=(*pod.spec.tolerations, *added))


def _despite_cordon(pod: Pod, node: Node) -> Pod:
    del node
    cordon = Toleration(key="node.kubernetes.io/unschedulable", operator="Exists")
    return _with_spec(pod, tolerations=(*pod.spec.tolerations, cordon))


def _unruled(pod: Pod, node: Node) -> Pod:
    del node
    return _without_node_rules(pod)


_RELAXED: Final[dict[str, Callable[[Pod, Node], Pod]]] = {
    "NodeUnschedulable": _despite_cordon,
    "TaintToleration": _tolerant,
    "NodeAffinity": _unruled,
}
"""How a pod would pass a rule that is about nodes alone, so that the next one can be seen."""


def _with_spec(pod: Pod, **fields: Any) -> Pod:  # noqa: ANN401 - fields of a spec
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, **fields))


_FINDERS: Final[dict[str, Callable[[Bench, list[str]], Iterator[Change]]]] = {
    "NodeUnschedulable": _uncordoned,
    "TaintToleration": _tolerated,
    "NodeAffinity": _unselected,
    "NodePorts": _without_ports,
    "PodTopologySpread": _spread_softly,
    "InterPodAffinity": _without_pod_rules,
    "VolumeRestrictions": _without_volumes,
    "NodeVolumeLimits": _without_volumes,
    "VolumeBinding": _without_volumes,
    "VolumeZone": _without_volumes,
}


_MOST: Final = 2


def combined(bench: Bench, judgement: Judgement) -> Iterator[Change]:
    """Yield pairs of changes that help together, for the nodes behind the first few rules."""
    found = 0
    for rule, node, pod in lifted_in_thought(bench, judgement):
        behind = Bench(bench.engine, bench.runtime, pod, only=(node,))
        less = next(smaller(behind), None)
        if less is None:
            continue
        text = f"{rule.text}, and {less.text[0].lower()}{less.text[1:]}"
        yield Change(kind="combined", text=text, node=node, parts=(rule, less))
        found += 1
        if found == _MOST:
            return
