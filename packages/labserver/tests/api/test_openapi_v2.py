"""The OpenAPI v2 document, which kubectl asks for before it sends a List."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packages.labserver.tests.client import Client

ACCEPTED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
WRITTEN = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


async def test_it_is_written_in_the_form_that_kubectl_reads(api: Client) -> None:
    """A message: the version of the form, then title and version of the server."""
    async with api.session.get("/openapi/v2", headers={"Accept": ACCEPTED}) as response:
        assert (response.status, response.content_type) == (200, WRITTEN)
        assert await response.read() == b"\x0a\x032.0\x12\x12\x0a\x0aKubernetes\x12\x041.35"


async def test_it_is_json_for_everybody_else(api: Client) -> None:
    """It describes nothing, so nobody checks anything by it."""
    document = await api.get("/openapi/v2")
    assert (document["swagger"], document["paths"]) == ("2.0", {})
