"""Clusters whose gangs have all the pods they need, and wait."""

from __future__ import annotations

from tests.insight.doctor.breaking import Expected, case
from tests.insight.doctor.claim_cases import claim, with_devices
from tests.insight.doctor.documents import NOW, Documents, Tree, pod

from numakube.scheduling.plugins.pod_gangs import MIN_LABEL, NAME_LABEL

UNTRIED = "NUMA-GANG-UNTRIED"


def member(name: str, said: str | None, gang: str = "train", **spec: object) -> Tree:
    """Return a pod of a gang of two, of which a scheduler has *said* something."""
    metadata = {"labels": {NAME_LABEL: gang, MIN_LABEL: "2"}}
    condition = {"type": "PodScheduled", "status": "False", "message": said}
    conditions = [] if said is None else [condition]
    return pod(name, metadata=metadata, spec=spec, status={"conditions": conditions})


@case
def _a_gang_of_which_half_is_held_back(world: Documents) -> Expected:
    too_few = "gang default/train: 1 of 2 needed pods can be tried"
    world.pods += [member("train-0", too_few), member("train-1", None)]
    told = ("PodGroup default/train", "needs 2 pods and has them", "2 of its 2 waiting pods")
    return {UNTRIED: told}


@case
def _a_gang_of_which_one_is_done_and_the_other_is_not_tried(world: Documents) -> Expected:
    done = member("train-0", None)
    done["status"]["phase"] = "Succeeded"
    world.pods += [done, member("train-1", None)]
    return {UNTRIED: ("1 of its 1 waiting pods",)}


@case
def _gangs_that_wait_for_a_reason(world: Documents) -> Expected:
    """Those that were tried, lack pods or claims, have gates, are young, or are another's."""
    with_devices(world)
    world.others["resourceclaims"].append(claim("mine"))
    gate = {"schedulingGates": [{"name": "wait"}]}
    young = member("young-0", None, "young")
    young["metadata"]["creationTimestamp"] = NOW
    world.pods += [
        *(member(f"tried-{number}", "0/2 nodes are available", "tried") for number in range(2)),
        member("alone", None, "alone"),
        *(member(f"gated-{number}", None, "gated", **gate) for number in range(2)),
        *(member(f"young-{number}", None, "young") for number in range(1, 2)),
        young,
        *(
            member(f"foreign-{number}", None, "foreign", schedulerName="volcano")
            for number in range(2)
        ),
    ]
    return {"NUMA-SCHEDULER-UNKNOWN": ("volcano",)}
