"""Pods and groups of every API become one kind of gang."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from numakube.api.pod import Pod
from numakube.api.pod_groups import MemberGroup, PodGroup
from numakube.scheduling.plugins.gang_scheduling import GangMembers
from numakube.scheduling.plugins.pod_gangs import Gang, MissingGang, gang_of
from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
from numakube.scheduling.snapshot.pods import PodInfo

RACK = "example.com/rack"


def pod(name: str = "p", **more: Any) -> PodInfo:
    """Return a pod; *more* are metadata, ``spec`` or ``status``."""
    spec, status = more.pop("spec", {}), more.pop("status", {})
    metadata = {"name": name, "uid": name, "namespace": "ns", **more}
    document = {"metadata": metadata, "spec": spec, "status": status}
    return PodInfo(msgspec.convert(document, Pod))


def labelled(name: str = "p", least: str = "2", **more: Any) -> PodInfo:
    """Return a pod of a gang without an object."""
    group = "pod-group.scheduling.sigs.k8s.io"
    return pod(name, labels={f"{group}/name": "g", f"{group}/min-available": least}, **more)


def test_a_pod_that_names_no_group_is_on_its_own() -> None:
    """So is one whose group has another policy than gang."""
    objects = ClusterObjects()
    assert gang_of(pod(), objects) is None
    objects.pod_groups["ns/g"] = PodGroup()
    assert gang_of(pod(spec={"schedulingGroup": {"podGroupName": "g"}}), objects) is None


def test_a_group_of_kubernetes_says_what_its_gang_needs() -> None:
    """Count, topology, priority, and whether it is evicted as a whole."""
    objects = ClusterObjects()
    member = pod(spec={"schedulingGroup": {"podGroupName": "g"}})
    assert gang_of(member, objects) == MissingGang("ns/g")
    spec = {
        "schedulingPolicy": {"gang": {"minCount": 3}},
        "schedulingConstraints": {"topology": [{"key": RACK}]},
        "disruptionMode": {"all": {}},
        "priority": 7,
    }
    objects.pod_groups["ns/g"] = msgspec.convert({"spec": spec}, PodGroup)
    assert gang_of(member, objects) == Gang(
        name="ns/g", min_count=3, required_topology=RACK, evicted_together=True, priority=7
    )


@pytest.mark.parametrize(
    ("api", "named"),
    [
        ("coscheduling_groups", {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}),
        ("volcano_groups", {"annotations": {"scheduling.k8s.io/group-name": "g"}}),
    ],
)
def test_groups_with_members_say_what_their_gang_needs(api: str, named: dict[str, Any]) -> None:
    """Coscheduling's and Volcano's."""
    objects = ClusterObjects()
    assert gang_of(pod(**named), objects) == MissingGang("ns/g")
    document = {
        "metadata": {"annotations": {"numakube.dev/gang-preferred-topology": RACK}},
        "spec": {"minMember": 4, "scheduleTimeoutSeconds": 10},
    }
    getattr(objects, api)["ns/g"] = msgspec.convert(document, MemberGroup)
    assert gang_of(pod(**named), objects) == Gang(
        name="ns/g", min_count=4, timeout_seconds=10.0, preferred_topology=RACK
    )


@pytest.mark.parametrize("least", ["", "two", "-1"])
def test_a_label_that_is_no_number_makes_no_gang(least: str) -> None:
    """The pod is scheduled on its own."""
    assert gang_of(labelled(least=least), ClusterObjects()) is None
    assert gang_of(labelled(), ClusterObjects()) == Gang(name="ns/g", min_count=2)


def test_members_are_counted_wherever_they_are() -> None:
    """Those that have succeeded have had their turn; failed and deleted ones are missing."""
    members = GangMembers()
    for name in ("a", "a", "b"):
        members.waits(labelled(name))
    members.placed(labelled("a"))
    assert (members.of(labelled()).running, members.of(labelled()).known) == (1, 2)
    members.gone(labelled("a", status={"phase": "Succeeded"}), deleted=False)
    assert (members.of(labelled()).running, members.of(labelled()).known) == (1, 2)
    members.gone(labelled("b", status={"phase": "Failed"}), deleted=False)
    assert members.of(labelled()).known == 1
    members.gone(labelled("a", status={"phase": "Succeeded"}), deleted=True)
    assert len(members) == 0


def test_a_member_counts_in_one_gang_and_as_long_as_it_stays() -> None:
    """Its label may be changed, and it may be on its way out."""
    members = GangMembers()
    members.placed(labelled("a"))
    other = pod("a", labels={"scheduling.x-k8s.io/pod-group": "other"})
    members.placed(other)
    assert (members.of(labelled()).known, members.of(other).known) == (0, 1)
    members.placed(pod("a", labels=other.labels, deletionTimestamp="2026-01-01T00:00:00Z"))
    assert len(members) == 0


def test_a_gang_is_not_overdue_while_the_rest_of_it_is_under_way() -> None:
    """Its members would be evicted at the moment when it becomes whole."""
    members, objects = GangMembers(), ClusterObjects()
    members.placed(labelled("a"))
    members.waits(labelled("b"))
    assert not list(members.incomplete(objects, 0.0, 10.0))
    assert not list(members.incomplete(objects, 10.0, 10.0, {"b"}.__contains__))
    assert len(list(members.incomplete(objects, 10.0, 10.0))) == 1


def test_a_gang_is_overdue_when_too_few_have_run_for_too_long() -> None:
    """The clock starts when that is first seen, and stops when it is whole again."""
    members, objects = GangMembers(), ClusterObjects()
    members.placed(labelled("a"))

    def overdue(now: float) -> list[str]:
        return [gang.name for gang, _ in members.incomplete(objects, now, 10.0)]

    assert overdue(100.0) == []
    assert overdue(109.0) == []
    assert overdue(110.0) == ["ns/g"]
    members.placed(labelled("b"))
    assert overdue(200.0) == []
    members.gone(labelled("b"), deleted=True)
    assert overdue(201.0) == []
    assert overdue(211.0) == ["ns/g"]
    assert list(members.incomplete(objects, 999.0, 0.0)) == []
