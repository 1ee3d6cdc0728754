"""The same commands offline, from what a bundle holds of the schedulers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Ended

from numakube.apps.bundle import pack
from numakube.insight.collected import Collected

FLIGHT = {
    "pod": "default/web",
    "uid": "u1",
    "firstSeen": "2026-01-01T12:00:00.000000Z",
    "attemptCount": 1,
    "attempts": [
        {
            "number": 1,
            "queued": {"time": "2026-01-01T12:00:00.000000Z", "why": "created"},
            "events": [{"time": "2026-01-01T12:00:01.000000Z", "event": "bound", "node": "n1"}],
        }
    ],
}
QUEUED = {
    "pod": "default/waits",
    "place": "backoff",
    "priority": 0,
    "attempts": 2,
    "waitingSeconds": 200.0,
    "retryInSeconds": 4.0,
    "refusedBy": ["Fit"],
    "gate": "",
    "message": "0/1 nodes are available",
}
HELD = {
    "node": "n1",
    "pod": "default/web",
    "uid": "u1",
    "stage": "bound",
    "since": "2026-01-01T12:00:01Z",
    "held": {"zones": [{"ids": [0], "amounts": {"cpu": "2"}}]},
}


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A bundle with one scheduler."""
    node = {"name": "n1", "state": "unknown", "pods": 3, "numa": None}
    documents: dict[str, dict[str, Any]] = {
        "attempts": {"items": [FLIGHT]},
        "queue": {"speaker": {"leads": True}, "pods": [QUEUED]},
        "cache": {"mode": "predict", "nodes": [node]},
        "reservations": {"items": [HELD]},
    }
    files = {
        f"scheduler/s1/{name}.json": json.dumps(one).encode() for name, one in documents.items()
    }
    path = tmp_path / "bundle.tar.gz"
    path.write_bytes(pack(Collected("2026-01-01T12:00:00Z", files)))
    return path


def test_a_bundle_is_looked_into_as_a_cluster_is(
    numakube: Callable[..., Ended], bundle: Path
) -> None:
    """Trace, queue, cache and reservations."""
    trace = numakube("debug", "trace", "pod", "web", "--from", bundle)
    assert trace.code == 0, trace.err
    assert "recorded by s1" in trace.out
    assert "bound        to n1" in trace.out
    assert numakube("debug", "trace", "pod", "none", "--from", bundle).code == 1
    queue = numakube("debug", "queue", "--from", bundle).out.splitlines()
    assert queue[1].split() == ["default/waits", "backoff", "0", "2", "3m20s", "in", "4s", "Fit"]
    cache = numakube("debug", "cache", "-o", "wide", "--from", bundle)
    assert "there is no usable NodeResourceTopology of it" in cache.out
    assert "zone 0: cpu 2" in numakube("debug", "reservations", "--from", bundle).out


def test_watching_needs_a_cluster(numakube: Callable[..., Ended], bundle: Path) -> None:
    """A bundle does not change."""
    assert numakube("debug", "trace", "pod", "web", "-w", "--from", bundle).code == 2


def test_a_bundle_without_schedulers_says_so(
    numakube: Callable[..., Ended], tmp_path: Path
) -> None:
    """It may have been taken by somebody who was not allowed to look inside."""
    path = tmp_path / "bundle.tar.gz"
    path.write_bytes(pack(Collected("2026-01-01T12:00:00Z", {"nodes.json": b'{"items": []}'})))
    told = numakube("debug", "queue", "--from", path)
    assert told.code == 1
    assert "has no queue of any scheduler" in told.err
