"""Work on claims that goes on beside the loop, and comes to an end."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import msgspec
import pytest

from numakube.api.codec import convert
from numakube.api.resource_claims import ResourceClaim
from numakube.apps.scheduler.binders import ApiClaimActions
from numakube.errors import ClusterUnreachable
from numakube.kube.client import Client
from numakube.kube.clock import ManualClock
from numakube.kube.connection.transport import Request, Response
from numakube.testing import turns


@pytest.fixture
def actions() -> ApiClaimActions:
    """Actions whose server is not asked."""
    nobody: Any = None
    return ApiClaimActions(Client(nobody, clock=ManualClock()), nobody)


async def test_work_under_way_is_finished_also_if_some_of_it_fails(
    actions: ApiClaimActions,
) -> None:
    """A server that is away costs the work that needed it."""
    go, done = asyncio.Event(), list[str]()

    async def work() -> None:
        await go.wait()
        done.append("work")

    async def fails() -> None:
        raise ClusterUnreachable("no route")

    actions.later(work())
    actions.later(fails())
    task = asyncio.create_task(actions.finish())
    await turns(3)
    assert not task.done()
    go.set()
    await task
    assert done == ["work"]
    await actions.finish()


async def test_work_that_is_abandoned_ends_where_it_is(actions: ApiClaimActions) -> None:
    """Whoever ends does not wait for a server that does not answer."""
    ends = list[str]()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("early")

    actions.later(work())
    await turns(1)
    await actions.abandon()
    assert ends == ["early"]


async def test_work_that_is_done_is_forgotten(actions: ApiClaimActions) -> None:
    """A scheduler does some for every pod with a claim, for months."""

    async def work() -> None:
        await turns()

    before = asyncio.all_tasks()
    actions.later(work())
    (task,) = map(weakref.ref, asyncio.all_tasks() - before)
    await actions.finish()
    await turns(2)
    gc.collect()
    assert task() is None


@pytest.mark.parametrize(
    ("has_device", "allocation", "written"),
    [
        (True, True, {"reservedFor", "allocation"}),
        (True, False, {"reservedFor"}),
        (False, True, {"reservedFor", "allocation", "devices"}),
        (False, False, {"reservedFor"}),
    ],
)
async def test_what_drivers_say_of_devices_goes_with_the_allocation(
    has_device: bool, allocation: bool, written: set[str]
) -> None:
    """It is about devices that the claim has no longer; a reservation alone leaves all as it is."""
    sent: list[dict[str, Any]] = []

    class Server:
        async def send(self, request: Request) -> Response:
            sent.append(msgspec.json.decode(request.body or b"{}"))
            document = {"metadata": {"name": "c", "namespace": "default"}}
            headers = {"Content-Type": "application/json"}
            return Response(200, headers, msgspec.json.encode(document))

    wire: Any = Server()
    nobody: Any = None
    actions = ApiClaimActions(Client(wire, clock=ManualClock(), rate=0), nobody)
    status: dict[str, Any] = {"allocation": {"devices": {"results": []}}} if has_device else {}
    meta = {"name": "c", "namespace": "default", "uid": "u", "resourceVersion": "7"}
    claim = convert(ResourceClaim, {"metadata": meta, "status": status})
    await actions.set_status(claim, allocation=allocation)
    (document,) = sent
    assert document["metadata"] == {"resourceVersion": "7", "uid": "u"}
    assert set(document["status"]) == written
    assert document["status"]["reservedFor"] is None
    assert document["status"].get("devices") is None
