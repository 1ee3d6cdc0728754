"""Whatever a gang waited for, and in whichever order it came: in the end all members are tried."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, TypeAlias

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.api.pod import Pod, PodStatus
from numakube.api.pod_groups import MemberGroup, PodGroup
from numakube.api.resource_claims import ResourceClaim
from numakube.scheduling.framework.cluster_events import ClusterEvent, EventKind
from numakube.scheduling.framework.plugins import Nominations
from numakube.scheduling.framework.registry import profile_of
from numakube.scheduling.framework.runtime import Runtime
from numakube.scheduling.plugins.default_plugins import PrioritySort, SchedulingGates
from numakube.scheduling.plugins.dynamic_resources.claims_plugin import DynamicResources
from numakube.scheduling.plugins.gang_scheduling import (
    GangMembers,
    GangScheduling,
    GangSchedulingArgs,
)
from numakube.scheduling.plugins.pod_gangs import (
    COSCHEDULING_LABEL,
    MIN_LABEL,
    NAME_LABEL,
    REQUIRED_TOPOLOGY,
    VOLCANO_ANNOTATION,
)
from numakube.scheduling.scheduling_queue import Place, ProfileHints, SchedulingQueue
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import pod

APIS = ("labels", "scheduling.k8s.io", "scheduling.x-k8s.io", "scheduling.volcano.sh")
NAME = "default-scheduler"
RACK = "example.com/rack"
Step: TypeAlias = Callable[[], None]


@dataclass
class Waiting:
    """A queue, and all that its gates depend on.

    Attributes:
        api: how pods name their gang.
        least: how many the gang needs.
        claims: whether every pod has a claim of a template.
    """

    api: str
    least: int
    claims: bool = False
    cluster: Cluster = field(default_factory=Cluster)
    members: GangMembers = field(default_factory=GangMembers)

    def __post_init__(self) -> None:
        """Assemble a scheduler's queue."""
        objects = self.cluster.objects
        gangs = GangScheduling(GangSchedulingArgs(), objects, self.members)
        claims = DynamicResources(objects=objects)
        plugins = [PrioritySort(), SchedulingGates(), claims, gangs]
        hints = ProfileHints(
            {NAME: Runtime(profile_of(NAME, plugins))}, self.cluster, Nominations()
        )
        self.queue = SchedulingQueue(hints)
        self.members.on_growth = lambda opener: self.queue.recheck_gates(0, opener)

    def pod(self, name: str, *, has_claim: bool = True, gated: bool = False) -> PodInfo:
        """Return a member."""
        metadata: dict[str, Any] = {"name": name, "uid": name, "namespace": "ns"}
        spec: dict[str, Any] = {"schedulerName": NAME}
        spec |= {"schedulingGates": [{"name": "wait"}]} if gated else {}
        if self.api == "labels":
            metadata["labels"] = {NAME_LABEL: "g", MIN_LABEL: str(self.least)}
            metadata["annotations"] = {REQUIRED_TOPOLOGY: RACK}
        elif self.api == "scheduling.x-k8s.io":
            metadata["labels"] = {COSCHEDULING_LABEL: "g"}
        elif self.api == "scheduling.volcano.sh":
            metadata["annotations"] = {VOLCANO_ANNOTATION: "g"}
        else:
            spec["schedulingGroup"] = {"podGroupName": "g"}
        status: dict[str, Any] = {}
        if self.claims:
            spec["resourceClaims"] = [{"name": "nic", "resourceClaimTemplateName": "nic"}]
            named = [{"name": "nic", "resourceClaimName": f"{name}-nic"}]
            status = {"resourceClaimStatuses": named} if has_claim else {}
        return PodInfo(msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Pod))

    def see(self, pod: PodInfo) -> None:
        """Learn of a waiting pod."""
        self.members.waits(pod)
        self.queue.add(pod, 0)

    def see_ended(self, name: str) -> None:
        """Learn of a pod that has succeeded."""
        pod = msgspec.structs.replace(self.pod(name).pod, status=PodStatus(phase="Succeeded"))
        self.members.gone(PodInfo(pod), deleted=False)

    def create_claim(self, name: str) -> None:
        """Learn of the claim that was made for a pod."""
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True}
        metadata = {"name": f"{name}-nic", "namespace": "ns", "ownerReferences": [owner]}
        claim = msgspec.convert({"metadata": metadata}, ResourceClaim)
        self.cluster.objects.resource_claims[f"ns/{name}-nic"] = claim
        self.queue.recheck_gates(0, f"ns/{name}-nic")

    def set_group(self, least: int) -> None:
        """Learn of the object of the gang."""
        objects, group = self.cluster.objects, {"minMember": least}
        if self.api == "scheduling.k8s.io":
            spec = {"schedulingPolicy": {"gang": {"minCount": least}}}
            objects.pod_groups["ns/g"] = msgspec.convert({"spec": spec}, PodGroup)
        elif self.api != "labels":
            groups = {
                "scheduling.x-k8s.io": objects.coscheduling_groups,
                "scheduling.volcano.sh": objects.volcano_groups,
            }
            groups[self.api]["ns/g"] = msgspec.convert({"spec": group}, MemberGroup)
        self.queue.recheck_gates(0, (self.api, "ns", "g"))

    def held(self) -> dict[str, str]:
        """Return why each pod is held back that is."""
        return {pod.pod.name: pod.gate.message for pod in self.queue if pod.place is Place.GATED}


def stories_of(waiting: Waiting, names: list[str], rng: Random) -> list[list[Step]]:
    """Return what happens to each pod and to the group, each in its order."""
    stories: list[list[Step]] = [[partial(waiting.set_group, waiting.least)]]
    for name in names:
        if rng.random() < 0.2:
            stories.append([partial(waiting.see_ended, name)])
            continue
        created = waiting.pod(name, has_claim=False, gated=rng.random() < 0.2)
        later = [partial(waiting.see, waiting.pod(name))]
        if waiting.claims:
            later.insert(rng.randint(0, 1), partial(waiting.create_claim, name))
        stories.append([partial(waiting.see, created), *later])
    return stories


@given(
    seed=st.integers(0, 1 << 32),
    api=st.sampled_from(APIS),
    claims=st.booleans(),
    size=st.integers(1, 9),
)
def test_a_complete_gang_is_tried_in_whichever_order_all_of_it_came(
    seed: int, api: str, *, claims: bool, size: int
) -> None:
    """Pods, their claims, their gates and the group come in any order; some have succeeded."""
    rng = Random(seed)
    waiting = Waiting(api, least=rng.randint(1, size), claims=claims)
    stories = stories_of(waiting, [f"p{number}" for number in range(size)], rng)
    while stories:
        story = rng.choice(stories)
        story.pop(0)()
        stories = [story for story in stories if story]
    assert not waiting.held()


@pytest.mark.parametrize("api", APIS[1:])
def test_a_gang_that_needs_fewer_pods_is_tried(api: str) -> None:
    """And one that needs more holds back those that come, and no other gang is asked about."""
    waiting = Waiting(api, least=3)
    waiting.set_group(3)
    waiting.see(waiting.pod("a"))
    assert waiting.held() == {"a": "waiting for more pods of gang ns/g: there are 1 of 3"}
    waiting.queue.recheck_gates(0, (api, "ns", "another"))
    waiting.set_group(2)
    assert waiting.held() == {"a": "waiting for more pods of gang ns/g: there are 1 of 2"}
    waiting.set_group(1)
    assert not waiting.held()


@pytest.mark.parametrize("api", APIS)
def test_what_happens_to_a_gang_wakes_its_members_whoever_refused_them(api: str) -> None:
    """Another minimum, and a member that was placed or is gone; not those of other gangs."""
    waiting = Waiting(api, least=2)
    waiting.set_group(2)
    for name in ("a", "b"):
        waiting.see(waiting.pod(name))
    plugin = GangScheduling(GangSchedulingArgs(), waiting.cluster.objects, waiting.members)
    mine, other = waiting.pod("a"), PodInfo(msgspec.convert({"metadata": {"name": "x"}}, Pod))
    for kind in (EventKind.POD_ADDED, EventKind.POD_DELETED):
        assert plugin.wakes(mine, ClusterEvent(kind=kind, pod=waiting.pod("b")))
        assert not plugin.wakes(mine, ClusterEvent(kind=kind, pod=other))
    changed = EventKind.POD_GROUP_CHANGED
    assert plugin.wakes(mine, ClusterEvent(kind=changed, pod_group=(api, "ns", "g")))
    assert not plugin.wakes(mine, ClusterEvent(kind=changed, pod_group=(api, "ns", "h")))
    asks_for_a_rack = api == "labels"
    assert plugin.wakes(mine, ClusterEvent(kind=EventKind.NODE_UPDATED)) is asks_for_a_rack


@pytest.mark.parametrize(
    "key",
    [
        "alpha.jobset.sigs.k8s.io/exclusive-topology",
        "leaderworkerset.sigs.k8s.io/exclusive-topology",
    ],
)
def test_a_gang_whose_other_pods_never_come_is_told_so(key: str) -> None:
    """Its leader waits for followers, and they are created once it has a node."""
    members, cluster = GangMembers(), Cluster()
    labels = {NAME_LABEL: "g", MIN_LABEL: "8"}
    leader = PodInfo(pod("leader", labels=labels, annotations={key: RACK}))
    members.waits(leader)
    plugin = GangScheduling(GangSchedulingArgs(), cluster.objects, members)
    told = plugin.pre_enqueue(leader).message
    assert told.startswith("waiting for more pods of gang default/g: there are 1 of 8")
    assert key in told
    assert told.endswith("use numakube.dev/gang-topology instead")
