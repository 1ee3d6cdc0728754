"""Work on claims that goes on beside the loop, and comes to an end."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import msgspec
import pytest

from numakube.api.codec import convert
from numakube.api.pod import Pod, PodExtendedResourceClaimStatus, PodStatus
from numakube.api.resource_claims import ResourceClaim
from numakube.apps.scheduler.binders import ApiClaimActions
from numakube.errors import ApiError, ClusterUnreachable
from numakube.kube.client import Client
from numakube.kube.clock import ManualClock
from numakube.kube.connection.transport import Request, Response
from numakube.kube.scripted_server import status_document
from numakube.scheduling.plugins.dynamic_resources.claim_binding import ClaimConflict
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


# ------------------------------------------------------------------------------------------------
# What the server is asked for.


class Asked:
    """A server that answers everything alike and remembers what it was asked for."""

    def __init__(self, code: int = 200, reason: str = "") -> None:
        self.requests: list[tuple[str, str, dict[str, Any]]] = []
        self._code, self._reason = code, reason

    async def send(self, request: Request) -> Response:
        """Answer."""
        body = msgspec.json.decode(request.body or b"{}")
        self.requests.append((request.method, request.path.partition("/v1/")[2], body))
        good = {"metadata": {"name": "c", "namespace": "default", "uid": "u"}}
        document = status_document(self._code, self._reason) if self._reason else good
        headers = {"Content-Type": "application/json"}
        return Response(self._code, headers, msgspec.json.encode(document))


def acting(server: Asked) -> ApiClaimActions:
    """Return actions on a server."""
    wire: Any = server
    nobody: Any = None
    return ApiClaimActions(Client(wire, clock=ManualClock(), rate=0), nobody)


META = {"name": "c", "namespace": "default", "uid": "u", "resourceVersion": "7"}
CLAIM = convert(
    ResourceClaim,
    {"metadata": {**META, "generateName": "x-", "finalizers": ["f"]}, "spec": {"devices": {}}},
)
POD = convert(Pod, {"metadata": {"name": "p", "namespace": "default", "uid": "pu"}})
PATH = "namespaces/default/resourceclaims"


async def test_every_action_asks_for_one_thing() -> None:
    """Changes name the claim by its uid, and by its version where others may write as well."""
    server = Asked()
    actions = acting(server)
    await actions.get(CLAIM)
    await actions.set_finalizers(CLAIM)
    await actions.drop_reservation(CLAIM, POD)
    await actions.delete(CLAIM)
    fetched, finalized, dropped, deleted = server.requests
    assert fetched == ("GET", f"{PATH}/c", {})
    version = {"resourceVersion": "7", "uid": "u"}
    assert finalized == ("PATCH", f"{PATH}/c", {"metadata": {"finalizers": ["f"], **version}})
    away = {"reservedFor": [{"$patch": "delete", "uid": "pu"}]}
    assert dropped == ("PATCH", f"{PATH}/c/status", {"metadata": {"uid": "u"}, "status": away})
    assert deleted[:2] == ("DELETE", f"{PATH}/c")
    assert deleted[2]["preconditions"] == {"uid": "u"}


async def test_a_claim_is_created_under_a_name_that_the_server_makes() -> None:
    """Nothing of what it was called in memory is sent."""
    server = Asked()
    assert (await acting(server).create(CLAIM)).metadata.uid == "u"
    ((method, path, document),) = server.requests
    assert (method, path) == ("POST", PATH)
    assert document["metadata"] == {"generateName": "x-", "namespace": "default"}
    assert document["kind"] == "ResourceClaim"


async def test_what_was_allotted_is_written_into_the_status_of_the_pod() -> None:
    """The claim for extended resources alone, or what devices stand for."""
    server = Asked()
    actions = acting(server)
    extended = PodExtendedResourceClaimStatus(request_mappings=(), resource_claim_name="x-1")
    await actions.set_pod_status(POD, PodStatus(extended_resource_claim_status=extended))
    await actions.set_pod_status(POD, PodStatus())
    (first, second) = server.requests[0], server.requests[-1]
    assert first[:2] == second[:2] == ("PATCH", "namespaces/default/pods/p/status")
    assert first[2]["metadata"] == {"uid": "pu"}
    assert first[2]["status"]["extendedResourceClaimStatus"]["resourceClaimName"] == "x-1"
    assert len(first[2]["status"]) == 1
    assert "extendedResourceClaimStatus" not in second[2]["status"]
    assert len(second[2]["status"]) == 1


@pytest.mark.parametrize(("code", "reason"), [(404, "NotFound"), (409, "Conflict")])
async def test_a_claim_that_is_gone_or_another_one_need_not_be_deleted(
    code: int, reason: str
) -> None:
    """Other changes say that somebody else was faster."""
    await acting(Asked(code, reason)).delete(CLAIM)
    if reason == "Conflict":
        with pytest.raises(ClaimConflict):
            await acting(Asked(code, reason)).set_finalizers(CLAIM)
    with pytest.raises(ApiError):
        await acting(Asked(403, "Forbidden")).delete(CLAIM)
