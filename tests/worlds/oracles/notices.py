"""What programs say by themselves is true: logs, events, reports, and the doctor's findings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from tests.worlds.virtual_lab import Lab

from numakube.api.pod import has_ended
from numakube.insight.doctor.all_checks import diagnose
from numakube.insight.explain import explain, pod_subject
from numakube.insight.explain.pod_explanation import ExplainOptions
from numakube.insight.scheduler_engine import engine_of
from numakube.kube.catalog import CORE_EVENTS
from numakube.values.times import parse_time


async def nothing_is_logged_as_an_error(lab: Lab) -> AsyncIterator[str]:
    """No program complains."""
    for line in lab.complaints:
        yield line


async def a_quiet_cluster_is_quiet(lab: Lab) -> AsyncIterator[str]:
    """No report is written again when nothing has happened for a while."""
    for name in lab.rewritten if not lab.unsettled else ():
        # Silence has an end, and it may be just now; what is measured is told a minute later.
        if lab.producers.get(name) != "surprises" and name not in lab.measuring.nodes:
            yield f"the report of {name} was written although nothing had changed"


async def events_are_true(lab: Lab) -> AsyncIterator[str]:
    """An event names the node that a pod was really on, and a pod that runs was scheduled."""
    for event in (await lab.through(lab.client.list(CORE_EVENTS))).items:
        uid = event.involved_object.uid
        if event.reason == "Scheduled":
            where = (event.message or "").rpartition(" to ")[2]
            if lab.seen.nodes.get(uid, {where}) != {where}:
                yield f"{event.message}; it was on {lab.seen.nodes[uid]}"
    for pod in lab.pods:
        told = {
            condition.type: condition.status
            for condition in (pod.status.conditions if pod.status else ())
        }
        # The last word about a pod that runs is its kubelet's.
        runs = pod.spec.node_name and not has_ended(pod)
        if runs and told.get("PodScheduled", "True") != "True":
            yield f"{pod.metadata.name} is on {pod.spec.node_name}, and told not to be scheduled"


async def doctor_is_right(lab: Lab) -> AsyncIterator[str]:
    """It names nodes without reports, and nothing that is not so."""
    facts = await lab.facts()
    diagnosis = diagnose(facts)
    named = {
        (entry.rule.id, finding.node) for entry in diagnosis.entries for finding in entry.findings
    }
    for entry in diagnosis.entries:
        if entry.rule.id in _NEVER:
            yield f"{entry.rule.id}: {entry.findings[0]}"
        lab.told[entry.rule.id] += 1
    for name, node in facts.nodes.items():
        created = parse_time(node.metadata.creation_timestamp or "")
        age = (lab.clock.now() - created).total_seconds()
        if name not in facts.topologies and age > NEW_NODE_SECONDS and (MISSING, name) not in named:
            yield f"{name} has had no report for {age:.0f} s, and nothing is said of it"
    for name, since in lab.orphaned_since.items():
        known = name in facts.nodes and name in facts.topologies
        gone = known and lab.producers.get(name) == "none"
        long_ago = lab.clock.monotonic() - since > 2 * GRACE_SECONDS
        if gone and long_ago and (NO_EXPORTER, name) not in named:
            yield f"the exporter of {name} is gone, and nothing is said of it"


async def doctor_tells_of_pods_that_fit(lab: Lab) -> AsyncIterator[str]:
    """Nothing is wrong only if no pod waits that fits; beside a scheduler that works none does."""
    facts = await lab.facts()
    diagnosis = diagnose(facts)
    if lab.served and not lab.unsettled:
        for finding in (entry.findings[0] for entry in diagnosis.entries if entry.rule.id == FITS):
            yield f"{FITS}: {finding}"
    elif not lab.served and diagnosis.is_clean:
        for pod in lab.waiting():
            told = explain(facts, engine_of(facts), pod_subject(pod), ExplainOptions(changes=False))
            if told.verdict == "fits" and lab.age(pod) > LONG_SECONDS:
                yield f"{pod.metadata.name} fits and no scheduler runs, and nothing is wrong"


_NEVER: Final = {"NUMA-DOCTOR-INCOMPLETE", "NUMA-GANG-UNTRIED"}
FITS: Final = "NUMA-POD-FITS"
LONG_SECONDS: Final = 300.0
"""How long a pod may wait until that is a matter for the doctor."""
NO_EXPORTER: Final = "NUMA-NRT-NO-EXPORTER"
GRACE_SECONDS: Final = 45.0
"""How long a new exporter may take to start."""
MISSING: Final = "NUMA-NRT-MISSING"
NEW_NODE_SECONDS: Final = 300.0
"""How long a node may take until its first report."""
