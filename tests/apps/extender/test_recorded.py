"""What a real kube-scheduler 1.35.7 sent is answered, every request of it.

`tests/vectors/extender.jsonl.gz` has the requests of 348 scenarios with both forms of nodes and all
verbs, and the nodes they were about.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.apps.extender.place import Place, place_of

from numakube.kube.catalog import NODES

VECTORS = Path(__file__).parents[2] / "vectors" / "extender.jsonl.gz"


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    """The API server of the lab: what comes in over HTTP does not depend on it."""
    async with place_of() as place:
        yield place


def lines(kind: str) -> list[dict[str, Any]]:
    """Return the lines of one kind."""
    with gzip.open(VECTORS, "rt", encoding="utf-8") as file:
        return [line for line in map(json.loads, file) if line["kind"] == kind]


REQUESTS = lines("request")


@pytest.mark.timeout(120)
async def test_every_recorded_request_is_answered(place: Place) -> None:
    """In the form that kube-scheduler reads, with nothing that it would choke on."""
    for name in sorted(_names()):
        room = {"cpu": "8", "memory": "16Gi", "pods": "110"}
        document = {"metadata": {"name": name}, "status": {"allocatable": room}}
        await place.client.create(NODES.raw, document)
    extender = await place.start()
    await place.seen(lambda one: len(one.mirror.cluster.row_of) == len(_names()))
    assert len(REQUESTS) > 900
    async with aiohttp.ClientSession(extender.url) as session:
        for request in REQUESTS:
            verb, body = request["verb"], request["body"]
            async with session.post(f"/{verb}", json=body) as response:
                where = f"{request['scenario']} {request['seq']}: {await response.text()}"
                assert response.status == 200, where
                CHECKS[verb](body, await response.json(), where)


def _names() -> set[str]:
    found: set[str] = set()
    for request in REQUESTS:
        body = request["body"]
        found.update(body.get("NodeNames") or ())
        found.update(_items(body))
    return found


def _items(body: dict[str, Any]) -> list[str]:
    nodes = body.get("Nodes") or {}
    return [item["metadata"]["name"] for item in nodes.get("items") or ()]


def _check_filter(body: dict[str, Any], answer: dict[str, Any], where: str) -> None:
    assert set(answer) == {
        "Nodes",
        "NodeNames",
        "FailedNodes",
        "FailedAndUnresolvableNodes",
        "Error",
    }, where
    # Without any topology report every node is fine, and comes back as it came.
    assert answer["Error"] == ""
    if body["NodeNames"] is not None:
        assert answer["NodeNames"] == body["NodeNames"], where
        assert answer["Nodes"] is None
    else:
        assert answer["Nodes"] == body["Nodes"], where
        assert answer["NodeNames"] is None


def _check_prioritize(body: dict[str, Any], answer: list[dict[str, Any]], where: str) -> None:
    assert [entry["Host"] for entry in answer] == (body["NodeNames"] or _items(body)), where
    assert all(type(entry["Score"]) is int and 0 <= entry["Score"] <= 10 for entry in answer), where


def _check_bind(_: dict[str, Any], answer: dict[str, Any], where: str) -> None:
    # The pods are not there: an error that says so, so that nobody waits for them.
    assert answer == {"Error": "the pod is gone, or another has its name"}, where


def _check_preempt(_: dict[str, Any], answer: dict[str, Any], where: str) -> None:
    # Victims that we do not know are never advised, and an empty map is not null.
    assert answer == {"NodeNameToMetaVictims": {}}, where


CHECKS: dict[str, Any] = {
    "filter": _check_filter,
    "prioritize": _check_prioritize,
    "bind": _check_bind,
    "preempt": _check_preempt,
}
