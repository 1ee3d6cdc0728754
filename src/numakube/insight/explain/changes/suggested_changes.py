"""Which changes are suggested for a pod that fits nowhere: the smallest that help, first.

Wish for less by annotation: devices that are less close.

Claim less: fewer devices of one request, or a claim without one of its constraints.
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from numakube.api.resource_claims import ALL
from numakube.api.strictness import CLOSENESS, RequiredCloseness
from numakube.insight.explain.changes.evictions import evictions
from numakube.insight.explain.changes.larger_requests import larger
from numakube.insight.explain.changes.lifted_rules import combined, lifted
from numakube.insight.explain.changes.node_changes import added, reconfigured, refreshed
from numakube.insight.explain.changes.smaller_requests import smaller
from numakube.insight.explain.claim_details import PLUGIN, constraint_text
from numakube.insight.explain.explanation_document import Change
from numakube.insight.explain.plugin_explainer import changes_by_plugins
from numakube.scheduling.plugins.dynamic_resources.claim_tracker import CYCLE_CLAIMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.pod import Pod
    from numakube.api.resource_claims import DeviceClaim, ResourceClaim
    from numakube.insight.explain.node_verdicts import Judgement
    from numakube.insight.explain.what_if import Bench
    from numakube.insight.facts import ClusterFacts

_MOST_CHANGES: Final = 6

ORDER: Final = (
    "scheduling-gates", "refresh-nrt", "preempt", "uncordon", "tolerate", "node-selector",
    "node-affinity", "host-port", "topology-spread", "pod-affinity", "pod-anti-affinity", "volume",
    "whole-cpus", "guaranteed", "numa-scope", "closeness", "offer", "more", "fewer-cpus",
    "less-memory", "fewer-hugepages", "fewer-devices", "fewer-claimed-devices", "claim-constraint",
    "numa-policy", "evict", "less-of-everything", "combined",
    "cpu-option", "scope", "policy", "add-node",
)  # fmt: skip
"""From what costs nothing to what needs a node drained."""


def suggested(bench: Bench, judgement: Judgement, facts: ClusterFacts) -> tuple[Change, ...]:
    """Return the changes that make the pod fit, each one tried, from the smallest on."""
    found = list(
        chain(
            refreshed(bench, judgement, facts),
            lifted(bench, judgement),
            changes_by_plugins(
                bench.pod, (refusal.status for refusal in judgement.refusals), bench.taker
            ),
            farther_apart(bench, judgement),
            claimed_otherwise(bench, judgement),
            smaller(bench),
            larger(bench, judgement),
            evictions(bench, judgement),
            reconfigured(bench, judgement, facts),
            added(bench, judgement, facts),
        )
    )
    if not {change.kind for change in found} - {"add-node"}:
        found += combined(bench, judgement)
    return _foremost(found)


def _foremost(changes: list[Change]) -> tuple[Change, ...]:
    """Return the first few changes, none of a kind twice as long as another kind is left out."""
    ordered = sorted(changes, key=lambda change: ORDER.index(change.kind))
    firsts = {change.kind: change for change in reversed(ordered)}
    rest = [change for change in ordered if change is not firsts[change.kind]]
    kept = [*sorted(firsts.values(), key=ordered.index), *rest][:_MOST_CHANGES]
    return tuple(sorted(kept, key=ordered.index))


def farther_apart(bench: Bench, judgement: Judgement) -> Iterator[Change]:
    """Yield the closest that the pod's devices can be, if they cannot be as close as it asks."""
    asked = bench.pod.metadata.annotations.get(CLOSENESS, "")
    words = tuple(RequiredCloseness)
    refused = any("not close enough" in refusal.status.message for refusal in judgement.refusals)
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


def claimed_otherwise(bench: Bench, judgement: Judgement) -> Iterator[Change]:
    """Yield what of the pod's claims could be changed so that it fits."""
    if all(refusal.status.plugin != PLUGIN for refusal in judgement.refusals):
        return
    known = bench.cycle_state().read(CYCLE_CLAIMS)
    waiting = list(known.to_allocate()) if known is not None else []
    for index, claim in waiting:
        if known is not None and index != known.extended:
            yield from _fewer(bench, claim)
            yield from _unconstrained(bench, claim)


def _fewer(bench: Bench, claim: ResourceClaim) -> Iterator[Change]:
    """Yield the largest number of devices that fits, for each request of several."""
    requests = claim.spec.devices.requests
    for place, request in enumerate(requests):
        body = request.exactly
        if body is None or body.allocation_mode == ALL:
            continue
        for count in range(body.count - 1, 0, -1):
            less = replace(request, exactly=replace(body, count=count))
            changed = (*requests[:place], less, *requests[place + 1 :])
            node = _taker(bench, claim, replace(claim.spec.devices, requests=changed))
            if node is not None:
                yield _less(claim, request.name, node, was=body.count, to=count)
                break


def _less(claim: ResourceClaim, request: str, node: str, *, was: int, to: int) -> Change:
    key, devices = claim.metadata.key, "device" if to == 1 else "devices"
    text = f"Ask for {to} {devices} instead of {was} in request {request} of claim {key}"
    return Change(
        kind="fewer-claimed-devices",
        text=f"{text}: fits on {node}.",
        node=node,
        claim=key,
        resource=request,
        was=str(was),
        to=str(to),
    )


def _unconstrained(bench: Bench, claim: ResourceClaim) -> Iterator[Change]:
    every = claim.spec.devices.constraints
    for index, one in enumerate(every):
        rest = (*every[:index], *every[index + 1 :])
        node = _taker(bench, claim, replace(claim.spec.devices, constraints=rest))
        if node is not None:
            key, what = claim.metadata.key, constraint_text(one)
            text = f"Leave out the constraint {what} of claim {key}: fits on {node}."
            yield Change(kind="claim-constraint", text=text, node=node, claim=key, was=str(index))


def _taker(bench: Bench, claim: ResourceClaim, devices: DeviceClaim) -> str | None:
    changed = replace(claim, spec=replace(claim.spec, devices=devices))
    with _claim_changed(bench, changed):
        return bench.taker(bench.pod)


@contextmanager
def _claim_changed(bench: Bench, claim: ResourceClaim) -> Iterator[None]:
    """Have *claim* in place of the one with its name for a while."""
    cluster, key = bench.engine.cluster, claim.metadata.key
    before = cluster.objects.resource_claims[key]
    cluster.objects.resource_claims[key] = claim
    cluster.objects_changed()
    try:
        yield
    finally:
        cluster.objects.resource_claims[key] = before
        cluster.objects_changed()
