"""Random requests: the lab answers sensibly, and as a real kube-apiserver does."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.lab.differential.comparing import compare, describe
from tests.lab.differential.driving import Record, Server, define_widgets, drive
from tests.lab.differential.sequences import make_sequence
from tests.real.api_server import real_server
from tests.real.marks import needs_assets

from kube_lab_server import ApiServer
from numakube_lab.replay.run_case import USERS

SEEDS = range(int(os.environ.get("DIFFERENTIAL_SEEDS", "30")))
"""More seeds take more time: a real server answers some 200 requests a second."""


@pytest.fixture
async def lab() -> AsyncIterator[Server]:
    """The lab's API server."""
    async with (
        ApiServer(users=USERS, rbac=True) as server,
        aiohttp.ClientSession() as session,
    ):
        yield Server("lab", server.url, session)


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[Server]:
    """A real API server."""
    async with real_server(tmp_path) as server, server.session() as session:
        yield Server("real", server.url, session)


async def test_every_answer_makes_sense_and_events_add_up_to_lists(lab: Server) -> None:
    """A request is served or refused with a reason; who has all events has what a list shows."""
    await define_widgets(lab)
    for seed in SEEDS:
        sequence = make_sequence(seed)
        record = await drive(lab, sequence, f"d{seed}")
        for step, answer in zip(sequence.steps, record.answers, strict=True):
            assert problem_of(answer) == "", f"seed {seed}: {describe(step)}: {answer}"
        for kind in sequence.kinds:
            assert summed(record, kind.resource) == listed(record, kind.resource), seed


@needs_assets
@pytest.mark.timeout(600)
async def test_the_lab_answers_as_a_real_server(lab: Server, real: Server) -> None:
    """Codes, bodies, warnings and watch events are those of a kube-apiserver of its version."""
    versions = [await minor_of(server) for server in (lab, real)]
    if len(set(versions)) > 1:
        pytest.skip(f"the lab answers as 1.{versions[0]}, the real server is 1.{versions[1]}")
    await define_widgets(lab)
    await define_widgets(real)
    for seed in SEEDS:
        sequence = make_sequence(seed)
        records = [await drive(server, sequence, f"d{seed}") for server in (real, lab)]
        found = compare(sequence, *records)
        assert found is None, f"seed {seed}: {found}"


async def minor_of(server: Server) -> str:
    """Return the minor version of the Kubernetes that a server says it is."""
    async with server.session.get(f"{server.url}/version") as response:
        told: dict[str, str] = await response.json()
    return told["minor"]


def problem_of(answer: dict[str, Any]) -> str:
    """Return what is wrong with the form of *answer*."""
    body, status = answer["body"], answer["status"]
    if not status:  # a request that had nothing to send
        return ""
    if not isinstance(body, dict):
        return "" if status == 404 else "not JSON"
    if status >= 400:
        return "" if body.get("kind") == "Status" and body.get("code") == status else "no Status"
    return "" if body.get("kind") and body.get("apiVersion") else "no kind"


def summed(record: Record, resource: str) -> dict[str, Any]:
    """Return the objects that the events of a watch leave."""
    objects: dict[str, Any] = {}
    for event in record.events[resource]:
        name = event["object"]["metadata"]["name"]
        if event["type"] == "DELETED":
            del objects[name]
        else:
            objects[name] = _untyped(event["object"])
    return objects


def listed(record: Record, resource: str) -> dict[str, Any]:
    """Return the objects of a list."""
    return {item["metadata"]["name"]: _untyped(item) for item in record.lists[resource]}


def _untyped(item: dict[str, Any]) -> dict[str, Any]:
    """Return *item* without its type, which the items of most lists do not repeat."""
    return {name: value for name, value in item.items() if name not in ("kind", "apiVersion")}
