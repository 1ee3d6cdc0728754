"""What claims mean for a node's resources is written as the API server has it, and read as told."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from numakube.api.codec import convert
from numakube.api.pod import NodeAllocatableResourceClaimStatus, Pod, PodStatus
from numakube.api.pod_resources import claimed_by, claimed_resources, with_claimed
from numakube.apps.scheduler.binders import ApiClaimActions, ClaimForm, form_in, served_form
from numakube.errors import NumakubeError
from numakube.kube.client import Client
from numakube.kube.connection.transport import Request, Response
from numakube.kube.event_recorder import EventRecorder
from numakube.testing import pod

CLAIMED = convert(
    NodeAllocatableResourceClaimStatus,
    {
        "resourceClaimName": "cpus",
        "containers": ["main"],
        "mapping": [{"name": "cpu", "quantity": "5"}],
        "overhead": [{"name": "memory", "perPod": "1Gi", "perContainer": "1Mi"}],
    },
)
AMOUNTS = {"containers": ["main"], "mapping": [{"name": "cpu", "quantity": "5"}]}


def _openapi(entry: dict[str, Any] | None, **status: Any) -> dict[str, Any]:
    """Return what a server says of its types: of entries of the new field, and of the status."""
    schemas: dict[str, Any] = {"io.k8s.api.core.v1.PodStatus": {"properties": status}}
    if entry is not None:
        reference = {"$ref": "#/components/schemas/io.k8s.api.core.v1.Entry"}
        status["additionalNodeAllocatableResources"] = {"items": {"allOf": [reference]}}
        schemas["io.k8s.api.core.v1.Entry"] = {"properties": entry}
    return {"components": {"schemas": schemas}}


@pytest.mark.parametrize(
    ("document", "form"),
    [
        (_openapi(None, nodeAllocatableResourceClaimStatuses={}), ClaimForm.CLAIM_NAME),
        (_openapi({"source": {}}), ClaimForm.SOURCE),
        (_openapi({"source": {}}, nodeAllocatableResourceClaimStatuses={}), ClaimForm.SOURCE),
        (_openapi({"sourceKind": {}, "sourceName": {}}), ClaimForm.SOURCE_NAME),
        (_openapi({"colour": {}}, nodeAllocatableResourceClaimStatuses={}), ClaimForm.CLAIM_NAME),
    ],
)
def test_a_server_tells_the_form_that_it_serves(document: dict[str, Any], form: ClaimForm) -> None:
    """The new field, if it is one that is known, else the old one."""
    assert form_in(document) is form


@pytest.mark.parametrize("document", [{}, _openapi(None), _openapi({"colour": {}})])
def test_a_server_that_serves_no_known_form_is_told_apart(document: dict[str, Any]) -> None:
    """Nothing is written that it would drop in silence."""
    with pytest.raises(NumakubeError, match=r"serves no field .* turn the gate"):
        form_in(document)


class _Server:
    """Answers what it is asked of its types, and keeps what is written."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.asked: list[str] = []
        self.written: list[dict[str, Any]] = []

    async def send(self, request: Request) -> Response:
        """Answer."""
        self.asked.append(request.path)
        if request.method == "PATCH":
            self.written.append(msgspec.json.decode(request.body or b"{}")["status"])
            return Response(200, {}, msgspec.json.encode(pod("p")))
        return Response(200, {}, msgspec.json.encode(self.document))

    async def aclose(self) -> None:
        """Nothing is open."""


async def _written(document: dict[str, Any], minor: int) -> _Server:
    server = _Server(document)
    client = Client(server)  # type: ignore[arg-type]
    actions = ApiClaimActions(
        client, EventRecorder(client, component="test", instance="one"), minor=minor
    )
    status = PodStatus(node_allocatable_resource_claim_statuses=(CLAIMED,))
    await actions.set_pod_status(pod("p"), status)
    await actions.set_pod_status(pod("p"), PodStatus())
    return server


async def test_up_to_1_37_the_field_is_known() -> None:
    """Without asking."""
    server = await _written({}, 37)
    first, cleared = server.written
    assert first["nodeAllocatableResourceClaimStatuses"][0]["resourceClaimName"] == "cpus"
    assert cleared == {"nodeAllocatableResourceClaimStatuses": []}
    assert not any(path.startswith("/openapi") for path in server.asked)
    assert await served_form(Client(server), 34) is ClaimForm.CLAIM_NAME  # type: ignore[arg-type]


async def test_from_1_38_on_the_server_is_asked_once() -> None:
    """And what it serves is written, with everything that was said before."""
    server = await _written(_openapi({"source": {}}), 38)
    first, cleared = server.written
    (entry,) = first["additionalNodeAllocatableResources"]
    source = {"apiGroup": "resource.k8s.io", "kind": "ResourceClaim", "name": "cpus"}
    assert entry["source"] == source
    assert {name: entry[name] for name in AMOUNTS} == AMOUNTS
    assert "resourceClaimName" not in entry
    assert cleared == {"additionalNodeAllocatableResources": []}
    assert server.asked.count("/openapi/v3/api/v1") == 1
    (entry,) = ClaimForm.SOURCE_NAME.entries([CLAIMED])
    assert (entry["sourceKind"], entry["sourceName"]) == ("ResourceClaim", "cpus")


@pytest.mark.parametrize("form", ClaimForm)
def test_whatever_the_form_the_amounts_count(form: ClaimForm) -> None:
    """For the pod, for its container, and not twice if another scheduler says it again."""
    status = {form.field: form.entries([CLAIMED])}
    tree = {"spec": {"containers": [{"name": "main"}]}, "status": status}
    told = convert(Pod, tree)
    assert told.status is not None
    assert told.status.claimed_node_resources == (CLAIMED,)
    assert str(claimed_resources(told)["cpu"]) == "5"
    assert str(claimed_by(told, "main")["cpu"]) == "5"
    assert claimed_resources(with_claimed(told, (CLAIMED,))) == claimed_resources(told)
    assert claimed_resources(with_claimed(told, ())) == {}
