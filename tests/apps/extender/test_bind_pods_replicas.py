"""Several replicas: none of them gives a zone away that another gave away already."""

from __future__ import annotations

import asyncio

from tests.apps.extender.place import Place, binding, info_of

from numakube.apps.extender.bind_pods import PREFIX
from numakube.apps.extender.filter_nodes import MARK
from numakube.kube.catalog import LEASES


async def test_a_replica_that_has_not_seen_a_pod_yet_learns_of_it_by_its_claim(
    place: Place,
) -> None:
    """Its watch stands still: it knows neither the pod nor that it was bound."""
    await place.node("n", 8)
    quick = await place.start()
    before = asyncio.all_tasks()
    lagging = await place.start()
    first, second = await place.pod("first"), await place.pod("second")
    third = await place.pod("third", "2")
    for task in asyncio.all_tasks() - before:
        if task.get_name().startswith("mirror-"):
            task.cancel()
    assert not (await quick.verbs.bind(binding(first, "n"))).error
    answer = await lagging.verbs.bind(binding(second, "n"))
    assert answer.error.startswith(MARK)
    assert await place.on("second") == ""
    assert lagging.mirror.cluster.node_of(first.metadata.uid) == "n"
    # What fits beside is bound all the same.
    assert not (await lagging.verbs.bind(binding(third, "n"))).error


async def test_claims_race_and_one_wins(place: Place) -> None:
    """At the same moment, over and over."""
    replicas = [await place.start() for _ in range(3)]
    for number in range(6):
        name = f"node-{number}"
        await place.node(name, 8)
        pods = [await place.pod(f"p{number}-{index}") for index in range(3)]
        answers = await asyncio.gather(
            *(one.verbs.bind(binding(pod, name)) for one, pod in zip(replicas, pods, strict=True))
        )
        assert sorted(bool(answer.error) for answer in answers) == [False, True, True]
    assert sum(replica.claims.conflicts for replica in replicas if replica.claims) > 0


async def test_a_claim_that_came_to_nothing_is_forgotten(place: Place) -> None:
    """When kube-scheduler tries the pod again, its former claim must not stand in its way."""
    await place.node("n", 8)
    one, other = await place.start(), await place.start()
    pod, second = await place.pod("p"), await place.pod("second", "2")
    assert one.claims is not None
    assert other.claims is not None
    assert not await one.claims.claim(info_of(one, "p"), "n", lambda: "")
    assert not (await other.verbs.bind(binding(second, "n"))).error
    assert other.mirror.cluster.node_of(pod.metadata.uid) == "n"
    other.claims.disbelieve(pod.metadata.uid)
    assert other.mirror.cluster.node_of(pod.metadata.uid) is None
    assert not (await other.verbs.bind(binding(pod, "n"))).error


async def test_a_lease_holds_the_claims_of_its_node(place: Place) -> None:
    """One write a bind as long as nobody else writes; alone it can do without."""
    await place.node("n", 8)
    extender = await place.start()
    for number in range(3):
        pod = await place.pod(f"p{number}", "2")
        assert not (await extender.verbs.bind(binding(pod, "n"))).error
    lease = await place.client.get(LEASES, f"{PREFIX}n", namespace="numakube")
    text = lease.metadata.annotations["numakube.dev/claims"]
    assert [f"default/p{number}" in text for number in range(3)] == [True] * 3
    alone = await place.start(claims=False)
    pod = await place.pod("p3", "2")
    assert not (await alone.verbs.bind(binding(pod, "n"))).error
    lease = await place.client.get(LEASES, f"{PREFIX}n", namespace="numakube")
    assert "default/p3" not in lease.metadata.annotations["numakube.dev/claims"]
