"""What exporters measure is what programs do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from tests.worlds.measuring import FALSE_ALARMS
from tests.worlds.oracles.books import cpus_of, zones_of
from tests.worlds.virtual_lab import EXACT, Lab

from numakube.api.pod import has_ended
from numakube.insight.doctor.all_checks import diagnose
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES
from numakube.topology.exact_report import uid_hash
from numakube_measured.measurement import Unmeasured, read_measurement

_SETTLED_SECONDS: Final = 600.0
"""By then what is published is of the present: changes that are no news are written rarely."""


async def nothing_is_measured_to_be_elsewhere(lab: Lab) -> AsyncIterator[str]:
    """In a lab pods are where they were promised to be, if they have CPUs for themselves."""
    if not lab.measuring.nodes:
        return
    for entry in diagnose(await lab.facts()).entries:
        for finding in entry.findings if entry.rule.id in FALSE_ALARMS else ():
            kubelet = lab.pool.kubelets.get(finding.node)
            named = (finding.subject.namespace, finding.subject.name)
            (pod,) = (
                pod for pod in lab.pods if (pod.metadata.namespace, pod.metadata.name) == named
            )
            if kubelet is None or kubelet.admission is None:
                continue
            if cpus_of(kubelet.admission.model, pod.metadata.uid):
                yield f"{entry.rule.id}: {named[1]} on {finding.node}: {finding.detail}"


async def measurements_are_true(lab: Lab) -> AsyncIterator[str]:
    """A pod that is measured runs there, and its threads are on the CPUs that it was given."""
    reports = (await lab.through(lab.client.list(NODE_RESOURCE_TOPOLOGIES))).items
    for report in reports:
        name = report.metadata.name
        kubelet = lab.pool.kubelets.get(name)
        measured = name in lab.measuring.nodes and lab.producers.get(name) in EXACT
        if not measured or kubelet is None or kubelet.admission is None:
            continue
        found = read_measurement(report)
        if isinstance(found, Unmeasured):
            yield f"{name} is not measured: {found.why}"
            continue
        model = kubelet.admission.model
        told = {pod.uid: pod for pod in found.pods}
        for pod in lab.pods:
            if pod.spec.node_name != name or has_ended(pod):
                continue
            uid = pod.metadata.uid
            pod_told, cpus = told.get(uid_hash(uid)), cpus_of(model, uid)
            if pod_told is None and lab.age(pod) > _SETTLED_SECONDS and not found.left_out:
                yield f"{pod.metadata.name} runs on {name}, and is not measured"
            shared = len(pod.spec.containers) + len(pod.spec.init_containers) > 1
            if pod_told is not None and cpus and pod_told.threads and not shared:
                zones = zones_of(model, cpus)
                if not set(pod_told.threads) <= zones:
                    where = f"threads on zones {dict(pod_told.threads)}"
                    yield f"{pod.metadata.name} on {name} has CPUs {cpus}, measured are {where}"
