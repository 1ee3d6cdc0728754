"""How a kubelet comes to its answer, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.kubelet.admission_outcome import Admitted, Rejected
from numakube.kubelet.admission_trace import AdmissionTrace, amount
from numakube.kubelet.device_pairs import foresee
from numakube.values.cpuset import CpuSet
from numakube.values.display import zones_text
from numakube.values.numamask import nodes_of
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.api.pod import Pod
    from numakube.kubelet.admission_trace import AlignmentTrace, ResourceTrace
    from numakube.kubelet.device_pairs import Prospect
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.values.numamask import NumaMask


_FEW: Final = 4
_RANGE: Final = 3
"""From this many zones on, a range is shown; two are named."""

_POLICY_WORDS: Final = {
    TopologyPolicy.SINGLE_NUMA_NODE: "accepts nothing but a single NUMA zone",
    TopologyPolicy.RESTRICTED: "accepts only as few NUMA zones as an idle machine would need",
    TopologyPolicy.BEST_EFFORT: "accepts it all the same",
    TopologyPolicy.NONE: "aligns nothing",
}


def steps_of(pod: Pod, model: KubeletNode) -> tuple[str, ...]:
    """Say how the kubelet *model* comes to its verdict about *pod*."""
    trace = AdmissionTrace()
    demand = model.demand_of(pod)
    outcome = model.clone().admit(demand, trace=trace)
    sentences = [line for step in trace.alignments for line in _alignment(step)]
    if model.topology.policy is TopologyPolicy.NONE:
        sentences.append("policy none aligns nothing: managers take what they find.")
    if trace.failed and isinstance(outcome, Rejected):
        aligned = {resource.resource for step in trace.alignments for resource in step.resources}
        sentences += [
            f"container {outcome.container}: {_resource(other)}."
            for other in trace.failed
            if other.resource not in aligned
        ]
        sentences.append(f"The allocation fails: {outcome.reason}: {outcome.message}.")
    if isinstance(outcome, Admitted) and model.machine.tree.paths:
        sentences += map(_closeness, foresee(model, demand, outcome))
    return tuple(dict.fromkeys(sentences))


def _closeness(prospect: Prospect) -> str:
    """Say how close devices will be, in the words of ``nvidia-smi topo -m``."""
    who = f"container {prospect.container}" if prospect.container else "the pod as a whole"
    names = " and ".join(prospect.resources)
    if not prospect.chances:
        unknown = " and ".join(prospect.unknown) or names
        return f"{who}: it is not known how {unknown} are connected to other devices."
    if len(prospect.chances) == 1:
        return f"{who}: {names} will be {prospect.chances[0][0].name}."
    ways = " or ".join(
        level.name if share is None else f"{level.name} ({share:.0%})"
        for level, share in prospect.chances
    )
    return f"{who}: {names} may be {ways}: which devices the kubelet takes is luck."


def _alignment(step: AlignmentTrace) -> Iterator[str]:
    who = f"container {step.container}" if step.container else "the pod as a whole"
    for resource in step.resources:
        yield f"{who}: {_resource(resource)}."
    decision = step.decision
    if decision.hint.preferred:
        yield f"{who}: {_agreed(decision.hint.mask)}."
        return
    verb = "rejects the pod" if not decision.admitted else _POLICY_WORDS[step.policy]
    rule = "" if decision.admitted else f", which {_POLICY_WORDS[step.policy]},"
    yield f"{who}: no set of zones suits all of it; policy {step.policy}{rule} {verb}."


def _agreed(mask: NumaMask | None) -> str:
    if mask is None:
        return "no zone is better than another"
    return f"{mask_text(mask)} suit{'s' if len(nodes_of(mask)) == 1 else ''} all of it"


def _resource(resource: ResourceTrace) -> str:
    name = resource.resource
    wanted = amount(name, resource.wanted)
    if not resource.free_by_node:
        return f"{name} {wanted}, no NUMA zone is known of it"
    texts = {zone: amount(name, size) for zone, size in resource.free_by_node.items()}
    free = ", ".join(
        f"{zones} {'has' if zones.startswith('zone ') else 'have'} {text}{_each(zones)}"
        for zones, text in folded_zones(texts)
    )
    return f"{name} {wanted} wanted; {free}{_preference(resource)}"


def _each(zones: str) -> str:
    return "" if zones.startswith("zone ") else " each"


def _preference(resource: ResourceTrace) -> str:
    if resource.fits_nowhere:
        return "; that fits nowhere"
    masks = resource.preferred_masks
    if resource.hints is None:
        return "; any zone will do"
    if not masks and resource.shortfall is not None:
        return "; no zone alone has enough"
    if not masks:
        return "; what is left needs more zones than on an idle machine"
    listed = [zones_text(nodes_of(mask)) for mask in masks[:_FEW]]
    more = f" and {len(masks) - _FEW} more" if len(masks) > _FEW else ""
    return f"; prefers {' or '.join(listed)}{more}"


def folded_zones(texts: Mapping[int, str]) -> Iterator[tuple[str, str]]:
    """Yield each text with its zones; of more than two, those with the same text together."""
    zones_of: dict[str, list[int]] = {}
    for zone, text in texts.items():
        zones_of.setdefault(text if len(texts) >= _RANGE else f"{zone}", []).append(zone)
    for zones in zones_of.values():
        ranges = f"zone {zones[0]}" if len(zones) == 1 else f"zones {CpuSet.of(zones)}"
        yield ranges, texts[zones[0]]


def mask_text(mask: NumaMask) -> str:
    """Name the zones of a mask."""
    return zones_text(nodes_of(mask))
