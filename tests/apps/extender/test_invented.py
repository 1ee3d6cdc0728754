"""Pods that do not exist keep no room, no matter who asks about them."""

from __future__ import annotations

from msgspec.structs import replace
from tests.apps.extender.place import Place, asked, pod_document

from numakube.api.codec import convert
from numakube.api.pod import Pod
from numakube.kube.catalog import PODS
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import turns


def invented(name: str, cpu: str = "6") -> Pod:
    """Return a pod that the API server does not have."""
    pod = convert(Pod, pod_document(name, cpu))
    return replace(pod, metadata=replace(pod.metadata, uid=f"uid-of-{name}"))


async def test_room_is_not_kept_for_a_pod_that_does_not_exist(place: Place) -> None:
    """It gets an honest answer, and the pod that does exist the zone."""
    extender = await place.start(hold_seconds=30.0)
    await place.node("n", 8)
    real = await place.pod("real")
    for number in range(3):
        pod = invented(f"invented-{number}")
        assert extender.verbs.filter(asked(pod, "n")).node_names == ("n",)
    assert extender.verbs.filter(asked(real, "n")).node_names == ("n",)


async def test_a_pod_that_does_not_exist_turns_nobody_away_from_the_best_node(
    place: Place,
) -> None:
    """Neither does a guess where it might go."""
    extender = await place.start(hold_seconds=30.0)
    await place.node("tight", 6)
    await place.node("wide", 8)
    real = await place.pod("real")
    extender.verbs.prioritize(asked(invented("invented"), "tight", "wide"))
    assert extender.verbs.filter(asked(real, "tight", "wide")).node_names == ("tight", "wide")


async def test_another_pod_of_the_same_name_is_not_the_one_that_exists(place: Place) -> None:
    """Pods are known by uid."""
    extender = await place.start(hold_seconds=30.0)
    await place.node("n", 8)
    real, _ = await place.pod("real"), await place.pod("other")
    assert extender.verbs.filter(asked(invented("other"), "n")).node_names == ("n",)
    assert extender.verbs.filter(asked(real, "n")).node_names == ("n",)


async def test_what_is_kept_is_what_the_pod_asks_for_and_not_the_caller(place: Place) -> None:
    """A small pod made large in the request keeps little."""
    extender = await place.start(hold_seconds=30.0)
    await place.node("n", 8)
    small, real = await place.pod("small", "2"), await place.pod("real", "6")
    large = replace(small, spec=convert(Pod, pod_document("small", "8")).spec)
    assert extender.verbs.filter(asked(large, "n")).node_names == ("n",)
    assert extender.verbs.filter(asked(real, "n")).node_names == ("n",)
    assert extender.verbs.filter(asked(await place.pod("more", "6"), "n")).node_names == ()


async def test_a_pod_that_has_a_node_keeps_no_room_elsewhere(place: Place) -> None:
    """Its uid can be read by many."""
    extender = await place.start(hold_seconds=30.0)
    await place.node("n", 8)
    await place.node("there", 8)
    placed = await place.client.create(PODS, pod_document("placed", nodeName="there"))
    await place.seen(lambda one: one.mirror.cluster.node_of(placed.metadata.uid) == "there")
    asking = replace(placed, spec=replace(placed.spec, node_name=""))
    assert "there" in extender.verbs.filter(asked(asking, "n")).error
    real = await place.pod("real")
    assert extender.verbs.filter(asked(real, "n")).node_names == ("n",)


async def test_room_is_kept_as_soon_as_the_pod_is_seen(place: Place) -> None:
    """kube-scheduler's watch may be ahead of ours."""
    extender = await place.start(hold_seconds=30.0)
    await place.node("n", 8)
    early, real = invented("early"), await place.pod("real")
    extender.verbs.filter(asked(early, "n"))
    extender.verbs.pod_waits(PodInfo(early))
    assert extender.verbs.filter(asked(real, "n")).node_names == ()


async def test_a_refused_pod_waits_to_be_woken_as_soon_as_it_is_seen(place: Place) -> None:
    """And one that is never seen takes no part, and no memory to speak of."""
    extender = await place.start()
    await place.node("n", 4)
    for number in range(1500):
        extender.verbs.filter(asked(invented(f"never-{number}"), "n"))
    early = invented("early")
    assert extender.verbs.filter(asked(early, "n")).node_names == ()
    assert len(extender.waking) == 0
    extender.verbs.pod_waits(PodInfo(early))
    assert len(extender.waking) == 1


async def test_thousands_of_invented_pods_leave_nothing_behind(place: Place) -> None:
    """The gauge of holds counts what really keeps room."""
    extender = await place.start(hold_seconds=30.0)
    await place.node("n", 8)
    for number in range(1500):
        extender.verbs.filter(asked(invented(f"never-{number}"), "n"))
        await turns()
    extender.verbs.tidy()
    assert extender.registry.get_sample_value("numakube_extender_holds") == 0
    real = await place.pod("real")
    assert extender.verbs.filter(asked(real, "n")).node_names == ("n",)
