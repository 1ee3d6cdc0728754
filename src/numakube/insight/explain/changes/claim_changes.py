"""Claim less: fewer devices of one request, or a claim without one of its constraints."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from numakube.api.resource_claims import ALL
from numakube.insight.explain.claim_details import PLUGIN, constraint_text
from numakube.insight.explain.explanation_document import Change
from numakube.scheduling.plugins.dynamic_resources.claim_tracker import CYCLE_CLAIMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.resource_claims import DeviceClaim, ResourceClaim
    from numakube.insight.explain.node_verdicts import Judgement
    from numakube.insight.explain.what_if import Bench


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
