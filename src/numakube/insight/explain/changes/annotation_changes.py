"""Wish for less by annotation: container scope, any policy, devices that are less close."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.api.codec import decode_tree
from numakube.api.koordinator import keys
from numakube.api.strictness import CLOSENESS, RequiredCloseness
from numakube.errors import MalformedObject
from numakube.insight.explain.explanation_document import Change
from numakube.scheduling.koordinator.node_numa_resource import NodeNUMAResource
from numakube.values.topology_policy import TopologyPolicy, TopologyScope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.pod import Pod
    from numakube.insight.explain.node_verdicts import Judgement
    from numakube.insight.explain.what_if import Bench

_BEST_EFFORT: Final = TopologyPolicy.BEST_EFFORT.api_name
_SCOPE: Final = "numaTopologyScope"
_POLICY: Final = "numaTopologyPolicy"


def wished_otherwise(bench: Bench, judgement: Judgement) -> Iterator[Change]:
    """Yield what of the pod's own annotation could be changed so that it fits."""
    refused = any(one.status.plugin == NodeNUMAResource.name for one in judgement.refusals)
    spec = _spec_of(bench.pod) if refused else None
    if spec is None:
        return
    several = len(bench.pod.spec.containers) + len(bench.pod.spec.init_containers) > 1
    if several and spec.get(_SCOPE) != TopologyScope.CONTAINER:
        yield from _tried(bench, spec, "numa-scope", _SCOPE, TopologyScope.CONTAINER)
    if spec.get(_POLICY) not in (None, "", _BEST_EFFORT):
        yield from _tried(bench, spec, "numa-policy", _POLICY, _BEST_EFFORT)


def farther_apart(bench: Bench, judgement: Judgement) -> Iterator[Change]:
    """Yield the closest that the pod's devices can be, if they cannot be as close as it asks."""
    asked = bench.pod.metadata.annotations.get(CLOSENESS, "")
    words = tuple(RequiredCloseness)
    refused = any("not close enough" in one.status.message for one in judgement.refusals)
    if not refused or asked not in words:
        return
    for word in (*words[words.index(RequiredCloseness(asked)) + 1 :], ""):
        node = bench.taker(_asking(bench.pod, word))
        if node is not None:
            done = f"Set the annotation {CLOSENESS} to {word}" if word else f"Drop {CLOSENESS}"
            text = f"{done}: fits on {node}."
            yield Change(kind="closeness", text=text, node=node, was=asked, to=word)
            return


def _asking(pod: Pod, closeness: str) -> Pod:
    """Return *pod* with another required closeness, or none."""
    kept = {key: text for key, text in pod.metadata.annotations.items() if key != CLOSENESS}
    annotations = {**kept, CLOSENESS: closeness} if closeness else kept
    metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
    return msgspec.structs.replace(pod, metadata=metadata)


def _tried(
    bench: Bench, spec: dict[str, Any], kind: str, field: str, word: str
) -> Iterator[Change]:
    node = bench.taker(with_wish(bench.pod, {**spec, field: str(word)}))
    if node is not None:
        text = f"Set {field}: {word} in the annotation {keys.NUMA_TOPOLOGY_SPEC}: fits on {node}."
        was = str(spec.get(field, ""))
        yield Change(kind=kind, text=text, node=node, resource=field, was=was, to=str(word))


def _spec_of(pod: Pod) -> dict[str, Any] | None:
    """Return what stands in the pod's annotation; ``None`` if it has none that can be read."""
    text = pod.metadata.annotations.get(keys.NUMA_TOPOLOGY_SPEC)
    try:
        tree = decode_tree(text, keys.NUMA_TOPOLOGY_SPEC) if text else None
    except MalformedObject:
        return None
    return tree if isinstance(tree, dict) else None


def with_wish(pod: Pod, spec: dict[str, Any]) -> Pod:
    """Return *pod* with another annotation."""
    text = msgspec.json.encode(spec).decode()
    annotations = {**pod.metadata.annotations, keys.NUMA_TOPOLOGY_SPEC: text}
    metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
    return msgspec.structs.replace(pod, metadata=metadata)
