"""Do claims have what they were allocated, and do pods find their claims?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.pod import has_ended
from numakube.dra.device_ids import DeviceId
from numakube.dra.pod_claims import claim_keys, claim_name, pod_claims
from numakube.errors import InvalidValue
from numakube.insight.doctor.findings import Finding, FindingSubject, Rule, Severity, maker_of
from numakube.insight.object_ages import pod_age

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.pod import Pod
    from numakube.api.resource_claims import ResourceClaim
    from numakube.insight.facts import ClusterFacts

DEVICE_GONE: Final = Rule(
    id="NUMA-DRA-DEVICE-GONE",
    severity=Severity.WARNING,
    title="A claim has a device that no ResourceSlice offers",
    why=(
        "The device, its node or its driver is gone. Pods that run may keep it; pods that start"
        " with the claim do not get it, and the claim does not move to another device by itself."
    ),
    fix=(
        "kubectl get resourceslices --field-selector spec.driver=DRIVER   # does the driver run?\n"
        "# if the device is not coming back, delete the pods that use the claim"
    ),
)
MISSING: Final = Rule(
    id="NUMA-POD-CLAIM-MISSING",
    severity=Severity.ERROR,
    title="Pods wait for resource claims that they cannot get",
    why="No scheduler looks at a pod before all of its claims exist.",
    fix="kubectl get resourceclaims,resourceclaimtemplates -n NAMESPACE",
)
NO_CLASS: Final = Rule(
    id="NUMA-POD-NO-DEVICE-CLASS",
    severity=Severity.ERROR,
    title="Pods wait for devices of a class that does not exist",
    why="They wait until somebody creates the DeviceClass, which the driver's chart usually does.",
    fix="kubectl get deviceclasses",
)

RULES: Final = (DEVICE_GONE, MISSING, NO_CLASS)

_PATIENCE_SECONDS: Final = 60.0
"""How long the claim of a template may take; the controller needs less than a second."""


def check_devices(facts: ClusterFacts) -> Iterator[Finding]:
    """Look for every allocated device in the slices."""
    if facts.missing("resourceslices") is not None:
        return
    slices = [fact.spec for fact in facts.objects.resource_slices.values()]
    drivers = {spec.driver for spec in slices}
    offered = {
        DeviceId(spec.driver, spec.pool.name, device.name)
        for spec in slices
        for device in spec.devices
    }
    for claim in facts.objects.resource_claims.values():
        gone = [device for device in _allocated(claim) if device not in offered]
        if gone:
            yield _gone(claim, gone, vanished=gone[0].driver not in drivers)


def _allocated(claim: ResourceClaim) -> list[DeviceId]:
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    return [DeviceId(result.driver, result.pool, result.device) for result in results]


def _gone(claim: ResourceClaim, gone: list[DeviceId], *, vanished: bool) -> Finding:
    driver = gone[0].driver
    users = ", ".join(consumer.name for consumer in claim.status.reserved_for)
    detail = ", ".join(map(str, gone))
    detail += f"; {driver} offers no devices at all" if vanished else ""
    detail += f"; used by {users}" if users else "; no pod uses it"
    metadata = claim.metadata
    subject = FindingSubject(
        "ResourceClaim", metadata.name, metadata.namespace, "status.allocation"
    )
    fix = DEVICE_GONE.fix_for(DRIVER=driver)
    return Finding(rule=DEVICE_GONE, subject=subject, detail=detail, fix=fix)


def check_claims(facts: ClusterFacts) -> Iterator[Finding]:
    """Look for the claims of pods that wait, their templates and their classes."""
    if not facts.claims_known:
        return
    seen: set[tuple[str, FindingSubject]] = set()
    for pod in facts.pods:
        if pod.spec.node_name or has_ended(pod) or not pod.spec.resource_claims:
            continue
        for finding in (*_unusable(facts, pod), *_classless(facts, pod)):
            if (finding.rule.id, finding.subject) not in seen:
                seen.add((finding.rule.id, finding.subject))
                yield finding


def _unusable(facts: ClusterFacts, pod: Pod) -> Iterator[Finding]:
    problem = _template_problem(facts, pod)
    if not problem:
        try:
            list(pod_claims(pod, facts.objects.resource_claims.get))
        except InvalidValue as error:
            problem = str(error) if _is_late(facts, pod) else ""
    if problem:
        yield _about(MISSING, pod, problem)


def _template_problem(facts: ClusterFacts, pod: Pod) -> str:
    """Say which template of a claim that was not made yet does not exist."""
    if facts.missing("resourceclaimtemplates") is not None:
        return ""
    for entry in pod.spec.resource_claims:
        key = f"{pod.metadata.namespace}/{entry.resource_claim_template_name}"
        try:
            claim_name(pod, entry)
        except InvalidValue:
            if entry.resource_claim_template_name and key not in facts.claim_templates:
                return f"there is no ResourceClaimTemplate {key}"
    return ""


def _is_late(facts: ClusterFacts, pod: Pod) -> bool:
    """Tell whether the claims of *pod* should be there by now."""
    age = pod_age(facts, pod)
    return age is None or age > _PATIENCE_SECONDS


def _classless(facts: ClusterFacts, pod: Pod) -> Iterator[Finding]:
    if facts.missing("deviceclasses") is not None:
        return
    for key in sorted(claim_keys(pod)):
        claim = facts.objects.resource_claims.get(key)
        for name in _classes(claim) if claim is not None else ():
            if name not in facts.objects.device_classes:
                yield _about(NO_CLASS, pod, f"claim {key} asks for class {name}")


def _classes(claim: ResourceClaim) -> Iterator[str]:
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            yield request.exactly.device_class_name
        for other in request.first_available:
            yield other.device_class_name


def _about(rule: Rule, pod: Pod, detail: str) -> Finding:
    maker = maker_of(pod)
    subject = FindingSubject(maker.kind, maker.name, maker.namespace, "spec.resourceClaims")
    fix = rule.fix_for(NAMESPACE=pod.metadata.namespace)
    return Finding(rule=rule, subject=subject, detail=detail, fix=fix)


CHECKS: Final = (check_devices, check_claims)
