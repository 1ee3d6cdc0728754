"""Devices of claims are near the CPUs that kubelets give the pods which use them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final

import msgspec
from tests.worlds.enforced import is_allotted
from tests.worlds.oracles.books import cpus_of, zones_of
from tests.worlds.oracles.placement import is_plain, takes
from tests.worlds.virtual_lab import Lab

from numakube.api.pod import Pod, has_ended
from numakube.kube.catalog import RESOURCE_CLAIMS, RESOURCE_SLICES
from numakube.kube.resource_types import Document
from numakube.kubelet.admission_outcome import Admitted
from numakube.kubelet.machine import Device
from numakube.scheduling.plugins.dynamic_resources.claim_alignment import ANNOTATION, REQUIRED
from numakube.testing.pods import GPU
from numakube_lab.nodes.dra_driver import NUMA_NODE, device_name, driver_of
from numakube_lab.nodes.lab_kubelet import LabKubelet
from numakube_lab.nodes.node_documents import NodePlan

_ALIGNING: Final = ("single-numa-node", "restricted")


async def claimed_devices_are_near(lab: Lab) -> AsyncIterator[str]:
    """Where that is asked for, or the kubelet insists on alignment, and all of it was known."""
    claims = (await lab.through(lab.client.list(RESOURCE_CLAIMS))).items
    told_of = await _told_of(lab)
    for pod in lab.pods:
        kubelet = lab.pool.kubelets.get(pod.spec.node_name)
        if kubelet is None or kubelet.admission is None or has_ended(pod) or is_allotted(pod):
            continue
        model, told = kubelet.admission.model, pod.metadata.annotations.get(ANNOTATION)
        insists = told == REQUIRED if told else model.settings.topology_policy in _ALIGNING
        cpus = cpus_of(model, pod.metadata.uid)
        if not insists or not cpus or not lab.could_know(pod):
            continue
        zones = zones_of(model, cpus)
        for device in _devices(kubelet.plan, pod, claims):
            is_told = (kubelet.name, device_name(device)) in told_of
            if is_told and not zones & set(device.numa_nodes):
                nodes = ", ".join(map(str, device.numa_nodes))
                yield (
                    f"{pod.metadata.name} has CPUs {cpus} on NUMA nodes {sorted(zones)} of"
                    f" {kubelet.name}, and device {device.id} of a claim on {nodes}"
                )


async def no_pod_waits_for_devices_that_are_near(lab: Lab) -> AsyncIterator[str]:
    """A pod whose kubelet would give it CPUs beside enough free devices for its claim runs."""
    if not lab.served or lab.unsettled or not lab.all_exact:
        return
    claims = (await lab.through(lab.client.list(RESOURCE_CLAIMS))).items
    taken = {
        (result["driver"], result["pool"], result["device"])
        for claim in claims
        for result in results_of(claim)
    }
    nodes, told_of = (await lab.facts()).nodes, await _told_of(lab)
    for pod in lab.waiting():
        own = [claim for claim in claims if is_owned(claim, pod)]
        spec = msgspec.structs.replace(pod.spec, resource_claims=())
        alone = msgspec.structs.replace(pod, spec=spec)
        if len(own) != 1 or not is_plain(alone) or lab.age(pod) < lab.young_seconds:
            continue
        (request,) = own[0]["spec"]["devices"]["requests"]
        if request["exactly"]["deviceClassName"] != driver_of(GPU):
            continue
        for name, kubelet in lab.pool.kubelets.items():
            zones = _foreseen(kubelet, alone) if takes(lab, nodes.get(name), name, alone) else set()
            near = [
                device
                for device in kubelet.plan.claimable.get(GPU, ())
                if device.healthy
                and (name, device_name(device)) in told_of
                and zones & set(device.numa_nodes)
                and (driver_of(GPU), name, device_name(device)) not in taken
            ]
            if len(zones) == 1 and len(near) >= request["exactly"].get("count", 1):
                yield f"{pod.metadata.name} waits, and {near[0].id} of {name} is near its CPUs"


async def _told_of(lab: Lab) -> set[tuple[str, str]]:
    """Return nodes and names of the devices whose place their slices tell.

    A server that refuses attributes with several values hears of no place between NUMA nodes.
    """
    slices = (await lab.through(lab.client.list(RESOURCE_SLICES))).items
    return {
        (found["spec"]["pool"]["name"], device["name"])
        for found in slices
        for device in found["spec"].get("devices") or ()
        if NUMA_NODE in (device.get("attributes") or ())
    }


def _foreseen(kubelet: LabKubelet, pod: Pod) -> set[int]:
    """Return the NUMA nodes of the CPUs that a kubelet would give *pod*."""
    model = kubelet.admission.model.clone() if kubelet.admission is not None else None
    if model is None or not isinstance(model.admit(pod), Admitted):
        return set()
    return zones_of(model, cpus_of(model, pod.metadata.uid))


def is_owned(claim: Document, pod: Pod) -> bool:
    """Tell whether a claim was made for *pod*."""
    owners = claim["metadata"].get("ownerReferences") or ()
    return pod.metadata.uid in {owner["uid"] for owner in owners}


def results_of(claim: Document) -> list[Document]:
    """Return the devices that a claim has got."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results: list[Document] = (allocation.get("devices") or {}).get("results") or []
    return results


def _devices(plan: NodePlan, pod: Pod, claims: Sequence[Document]) -> Iterator[Device]:
    """Yield what the claims that are kept for *pod* have got."""
    known = {
        (driver_of(resource), device_name(device)): device
        for resource, devices in plan.claimable.items()
        for device in devices
    }
    for claim in claims:
        status = claim.get("status") or {}
        if pod.metadata.uid in {user["uid"] for user in status.get("reservedFor") or ()}:
            for result in results_of(claim):
                if (place := (result["driver"], result["device"])) in known:
                    yield known[place]
