"""Templates for pods: made when a pod names one, and deleted when none has for long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dra_bed import Bed
from prometheus_client import CollectorRegistry
from test_claim_writing import SERVING, container, pod, written

from numakube.kube.catalog import CORE_EVENTS, NAMESPACES, PODS, RESOURCE_CLAIM_TEMPLATES
from numakube.kube.client import merge_patch
from numakube.kube.event_recorder import EventRecorder
from numakube.testing import until
from numakube_dra_driver.claims.claim_writing import RECORD, WRITER, without_claims
from numakube_dra_driver.claims.served_resources import Serving
from numakube_dra_driver.claims.template_keeper import TemplateKeeper, TemplateMetrics

KEEP = 100.0


@asynccontextmanager
async def kept(bed: Bed, serving: Serving = SERVING) -> AsyncIterator[TemplateKeeper]:
    """Have templates kept."""
    await bed.client.create(NAMESPACES, {"metadata": {"name": "shop"}})
    events = EventRecorder(bed.client, component=WRITER, instance="x")
    keeper = TemplateKeeper(
        client=bed.client,
        serving=lambda: serving,
        events=events,
        metrics=TemplateMetrics(CollectorRegistry()),
        keep_seconds=KEEP,
    )
    jobs = [keeper.pods.run(), keeper.templates.run(), keeper.run(), events.run()]
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(job) for job in jobs]
        yield keeper
        for task in running:
            task.cancel()


async def templates(bed: Bed) -> list[str]:
    """Return the names of the templates that there are."""
    found = (await bed.client.list(RESOURCE_CLAIM_TEMPLATES)).items
    return sorted(item["metadata"]["name"] for item in found)


async def created(bed: Bed, tree: Any, name: str = "p") -> str:
    """Create a pod with a claim; return the name of its template."""
    found = written(tree)
    found.pod["metadata"]["name"] = name
    await bed.client.create(PODS.raw, found.pod)
    return str(found.template["metadata"]["name"])


async def test_a_template_is_made_for_a_pod_that_names_it(bed: Bed) -> None:
    async with kept(bed):
        tree = pod(container(cpu="4", vfs="2"))
        name = await created(bed, tree)
        await until(lambda: templates(bed), lambda names: names == [name])
        (found,) = (await bed.client.list(RESOURCE_CLAIM_TEMPLATES)).items
        assert found["metadata"]["labels"] == {"app.kubernetes.io/managed-by": WRITER}
        requests = found["spec"]["spec"]["devices"]["requests"]
        assert [one["exactly"]["deviceClassName"] for one in requests] == [
            *("numa-cpus", "numa-memory", "vfs")
        ]


async def test_one_that_is_deleted_too_early_is_made_again(bed: Bed) -> None:
    async with kept(bed):
        name = await created(bed, pod(container(cpu="4")))
        await until(lambda: templates(bed), lambda names: names == [name])
        await bed.client.delete(RESOURCE_CLAIM_TEMPLATES, name, namespace="shop")
        await until(lambda: templates(bed), lambda names: names == [name])


async def test_templates_go_when_no_pod_has_used_them_for_long_and_others_stay(bed: Bed) -> None:
    async with kept(bed) as keeper:
        mine = written(pod(container(cpu="1"))).template
        await bed.client.create(RESOURCE_CLAIM_TEMPLATES, mine)
        own = str(mine["metadata"]["name"])
        name = await created(bed, pod(container(cpu="4")))
        await until(lambda: templates(bed), lambda names: names == sorted([own, name]))
        await bed.client.delete(PODS, "p", namespace="shop", grace_seconds=0)
        await until(lambda: not len(keeper.pods.store))
        await keeper.look()
        await bed.clock.advance(KEEP - 1)
        await keeper.look()
        assert await templates(bed) == sorted([own, name])
        await bed.clock.advance(2)
        await keeper.look()
        assert await templates(bed) == [own]


async def test_what_a_pod_cannot_have_asked_for_is_not_made(bed: Bed) -> None:
    """Whoever writes the record himself gets no more than the webhook would give him."""
    hostile = (
        '{"policy":"none","scope":"pod","requests":[{"name":"a","container":"a","resource":"cpu",'
        '"class":"secret","amount":1}]}'
    )
    async with kept(bed):
        for number, record in enumerate((hostile, "{}", "")):
            found = written(pod(container(cpu="4")))
            found.pod["metadata"]["name"] = f"p{number}"
            found.pod["metadata"]["annotations"][RECORD] = record
            await bed.client.create(PODS.raw, found.pod)

        async def told() -> dict[str, str]:
            events = (await bed.client.list(CORE_EVENTS, namespace="shop")).items
            return {event.involved_object.name: event.message for event in events}

        found_out = await until(told, lambda events: len(events) == 3)
        assert "class secret does not serve cpu any more" in found_out["p0"]
        assert await templates(bed) == []
        name = await created(bed, pod(container(cpu="4")), "good")
        await until(lambda: templates(bed), lambda names: names == [name])


async def test_a_template_under_another_name_is_not_made(bed: Bed) -> None:
    async with kept(bed):
        found = written(pod(container(cpu="4")))
        found.pod["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] = "numa-000000000000"
        await bed.client.create(PODS.raw, found.pod)

        async def told() -> list[str]:
            events = (await bed.client.list(CORE_EVENTS, namespace="shop")).items
            return [event.message for event in events]

        (message,) = await until(told)
        assert "does not describe template numa-000000000000" in message
        assert await templates(bed) == []


async def test_a_pod_that_has_ended_needs_no_template(bed: Bed) -> None:
    async with kept(bed) as keeper:
        name = await created(bed, pod(container(cpu="4")))
        await until(lambda: templates(bed), lambda names: names == [name])
        ended = merge_patch({"status": {"phase": "Succeeded"}})
        await bed.client.patch(PODS, "p", ended, namespace="shop", subresource="status")
        await until(
            lambda: any(one.status and one.status.phase == "Succeeded" for one in keeper.pods.store)
        )
        await keeper.look()
        await bed.clock.advance(KEEP + 1)
        await keeper.look()
        assert await templates(bed) == []


def test_what_was_written_can_be_taken_back() -> None:
    tree = pod(container(cpu="4"))
    assert without_claims(written(tree).pod)["spec"] == tree["spec"]
