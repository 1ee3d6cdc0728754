"""Claims of CPUs have CPUs of their own, and no pod waits for CPUs that nobody has claimed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import msgspec
from tests.worlds.claimed_cpus import RunningDriver
from tests.worlds.enforced import confined
from tests.worlds.oracles.claimed_devices import is_owned, results_of
from tests.worlds.oracles.placement import is_plain, takes
from tests.worlds.virtual_lab import Lab

from numakube.api.pod import has_ended
from numakube.kube.catalog import RESOURCE_CLAIMS
from numakube.kube.resource_types import Document
from numakube.values.cpuset import CpuSet
from numakube.values.quantity import value
from numakube_dra_driver.devices import CPU_CAPACITY, DRIVER


async def claims_have_cpus_of_their_own(lab: Lab) -> AsyncIterator[str]:
    """As many as they ask for; their pods run there, and nobody else."""
    if not lab.claim_drivers.running:
        return
    claims = {
        claim["metadata"]["uid"]: claim
        for claim in (await lab.through(lab.client.list(RESOURCE_CLAIMS))).items
    }
    for name, running in lab.claim_drivers.running.items():
        if running.has_failed:
            yield f"the driver of {name} has ended: {running.tasks}"
        taken, owned = CpuSet(0), dict[str, CpuSet]()
        for prepared, cpus in lab.claim_drivers.given(name):
            if both := taken & cpus:
                yield f"claim {prepared.name} of {name} has CPUs {both} of another one"
            taken |= cpus
            claim = claims.get(prepared.uid)
            wanted = _allocated(claim) if claim is not None else 0
            if len(cpus) != wanted:
                yield f"claim {prepared.name} of {name} is for {wanted} CPUs, and has {cpus}"
            owned |= dict.fromkeys(prepared.holders, cpus)
        for text in _elsewhere(lab, name, owned, taken):
            yield text


def _allocated(claim: Document) -> int:
    """Return how many CPUs a scheduler has given to a claim."""
    return sum(_consumed(result) for result in results_of(claim) if result["driver"] == DRIVER)


def _consumed(result: Document) -> int:
    return value(str((result.get("consumedCapacity") or {}).get(CPU_CAPACITY, "0")))


def _elsewhere(lab: Lab, name: str, owned: dict[str, CpuSet], taken: CpuSet) -> list[str]:
    """Return who runs on other CPUs than those of its claim, or on those of another one's."""
    kubelet = lab.pool.kubelets[name]
    if kubelet.cgroups is None or kubelet.admission is None:
        return []
    pods = [pod for pod in lab.pods if pod.spec.node_name == name and not has_ended(pod)]
    found = []
    for one in confined(kubelet.cgroups.tree, pods):
        own = owned.get(one.pod.metadata.uid)
        who = f"{one.pod.metadata.name}/{one.container} on {name}"
        if own and one.can_use != own:
            found.append(f"{who} has a claim of CPUs {own}, and can use {one.can_use}")
        if not own and one.can_use & taken and len(taken) < len(one.can_use | taken):
            found.append(f"{who} can use CPUs {one.can_use & taken}, which claims have")
    return found


async def no_pod_waits_for_cpus_that_claims_can_have(lab: Lab) -> AsyncIterator[str]:
    """A pod with a claim of CPUs runs if some NUMA node has as many that nobody has claimed."""
    if not lab.claim_drivers.running or not lab.served or lab.unsettled or not lab.all_exact:
        return
    claims = (await lab.through(lab.client.list(RESOURCE_CLAIMS))).items
    nodes = (await lab.facts()).nodes
    for pod in lab.waiting():
        own = [claim for claim in claims if is_owned(claim, pod)]
        spec = msgspec.structs.replace(pod.spec, resource_claims=())
        alone = msgspec.structs.replace(pod, spec=spec)
        if len(own) != 1 or not is_plain(alone) or lab.age(pod) < lab.young_seconds:
            continue
        wanted = _wanted(own[0])
        for name, running in lab.claim_drivers.running.items():
            free = _most_free(running, name, claims)
            if wanted and wanted <= free and takes(lab, nodes.get(name), name, alone):
                yield f"{pod.metadata.name} waits for {wanted} CPUs, and {name} has {free}"


def _wanted(claim: Document) -> int:
    """Return how many CPUs a claim asks for; 0 if it asks for something else."""
    (request,) = claim["spec"]["devices"]["requests"]
    capacity = (request["exactly"].get("capacity") or {}).get("requests") or {}
    return value(str(capacity.get(CPU_CAPACITY, "0")))


def _most_free(running: RunningDriver, node: str, claims: Sequence[Document]) -> int:
    """Return how many CPUs of one device claims can still have, by what is allocated.

    Old API servers do not keep that several claims may have parts of one device.
    """
    if running.driver.lost:
        return 0
    free = {name: len(CpuSet(group.cpus)) for name, group in running.offer.groups.items()}
    for claim in claims:
        for result in results_of(claim):
            mine = result["driver"] == DRIVER and result["pool"].startswith(f"{node}/")
            if mine and result["device"] in free:
                free[result["device"]] -= _consumed(result)
    return max(free.values(), default=0)
