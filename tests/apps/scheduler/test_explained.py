"""What tools say of a cluster is what the scheduler that runs there has said."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from numakube.apps.anonymising import anonymise
from numakube.apps.bundle import pack, unpack
from numakube.apps.gathering import SCHEDULING, gather
from numakube.insight.bundle_replay import redecide
from numakube.insight.explain import explain, pod_subject
from numakube.insight.facts import ClusterFacts, facts_of
from numakube.insight.scheduler_engine import engine_of
from numakube.testing import pod_document, refusal_of
from numakube_lab.testing import LabCluster, Opener, lab_cluster

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
async def world(sites: Opener) -> AsyncIterator[LabCluster]:
    """Two nodes, half full, with a scheduler at work."""
    async with lab_cluster(2, shape="2 sockets, 4 cores, smt 2, 16Gi", on=sites) as world:
        await world.start()
        await world.create(*(pod_document(f"small-{number}", "4") for number in range(4)))
        await world.until(lambda: len(world.by_phase("Running")) == 4)
        yield world


async def read(world: LabCluster) -> tuple[ClusterFacts, ClusterFacts, ClusterFacts]:
    """Return the facts live, from a bundle, and from one without names."""
    collected = await gather(world.client, what=SCHEDULING)
    bundled = unpack(pack(collected))
    return facts_of(collected), facts_of(bundled), facts_of(anonymise(bundled))


async def test_pods_that_wait_are_explained_in_the_schedulers_words(world: LabCluster) -> None:
    """Live, offline and without names."""
    await world.create(pod_document("wide", "6"), pod_document("huge", "64"))
    await world.until(lambda: all(refusal_of(world.pod(name)) for name in ("wide", "huge")))
    live, offline, hidden = await read(world)
    for facts in (live, offline):
        found = {redecision.pod: redecision for redecision in redecide(facts, engine_of(facts))}
        assert set(found) == {"default/wide", "default/huge"}
        assert all(redecision.agrees for redecision in found.values()), found
    assert len(list(redecide(hidden, engine_of(hidden)))) == 2
    explanations = [
        explain(facts, engine_of(facts), pod_subject(pod))
        for facts in (live, offline)
        if (pod := facts.pod("default", "wide")) is not None
    ]
    assert len(explanations) == 2
    assert explanations[0] == explanations[1]
    assert explanations[0].changes[0].kind == "fewer-cpus"


async def test_a_suggestion_works_on_the_cluster(world: LabCluster) -> None:
    """The pod, changed as was suggested, runs where was said."""
    await world.create(pod_document("wide", "6"))
    await world.refuses("wide")
    (facts, _, _) = await read(world)
    pod = facts.pod("default", "wide")
    assert pod is not None
    change = explain(facts, engine_of(facts), pod_subject(pod)).changes[0]
    await world.delete("wide")
    await world.create(pod_document("narrow", change.to))
    await world.runs("narrow")
    assert world.by_phase("Failed") == set()
