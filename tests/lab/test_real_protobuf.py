"""What a real kube-apiserver writes as protobuf is read by the lab."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.lab.differential.normalising import Normaliser
from tests.real.api_server import real_server
from tests.real.marks import needs_assets

from kube_lab_server import GVK
from kube_lab_server.schema.builtin_types import BUILTIN
from kube_lab_server.schema.protobuf import read_protobuf
from numakube_lab.replay.recorded_cases import RecordedStep, read_cases
from numakube_lab.replay.run_case import TOKENS

PROTOBUF = "application/vnd.kubernetes.protobuf"
VECTORS = Path(__file__).parents[1] / "vectors" / "apiserver.jsonl.gz"


@needs_assets
@pytest.mark.timeout(300)
async def test_what_a_real_server_writes_is_read_as_its_json(tmp_path: Path) -> None:
    """Each object of the recorded cases says the same in both forms."""
    compared = 0
    async with real_server(tmp_path) as server, server.session() as session:
        session.headers["Authorization"] = f"Bearer {TOKENS['admin']}"
        await session.post(f"{server.url}/api/v1/namespaces", json=_namespace())
        for path, body in _creations():
            url = server.url + path
            written = await _dry_run(session, url, body, PROTOBUF)
            if not written.startswith(
                b"k8s\0"
            ):  # refused, or a custom kind, which has no such form
                continue
            wanted = json.loads(await _dry_run(session, url, body, "application/json"))
            assert _comparable(read_protobuf(written)) == _comparable(wanted)
            compared += 1
    assert compared > 500


def _namespace() -> dict[str, Any]:
    return {"metadata": {"name": "forms"}}


def _creations() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the collections and the objects that recorded cases create."""
    for case in read_cases(VECTORS):
        for step in case.steps:
            if (found := _creation(step)) is not None:
                yield found


def _creation(step: RecordedStep) -> tuple[str, dict[str, Any]] | None:
    if step.method != "POST" or not isinstance(step.body, dict) or "kind" not in step.body:
        return None
    metadata = step.body.get("metadata")
    root, inside, rest = step.path.partition("/namespaces/")
    collection = rest.partition("/")[2]
    if not isinstance(metadata, dict) or (inside and (not collection or "/" in collection)):
        return None
    path = f"{root}/namespaces/forms/{collection}" if inside else root
    kept = {name: value for name, value in metadata.items() if name != "namespace"}
    return path, step.body | {"metadata": kept}


async def _dry_run(
    session: aiohttp.ClientSession, url: str, body: dict[str, Any], accept: str
) -> bytes:
    """Return what would be created, in the form *accept*; nothing if it is refused."""
    headers = {"Accept": accept}
    async with session.post(url, json=body, params={"dryRun": "All"}, headers=headers) as response:
        return await response.read() if response.status == 201 else b""


def _comparable(document: dict[str, Any]) -> Any:
    # Protobuf has every field that is no pointer; those that are empty say nothing.
    canonical = BUILTIN[GVK.of(document)].canonical(document)
    return _plain(Normaliser()(canonical))


def _plain(value: Any) -> Any:
    """Leave out what differs from one creation to the next, and types that JSON repeats inside."""
    if isinstance(value, dict):
        drop = {"clusterIP", "clusterIPs", "token", "managedFields"}
        drop |= {"name"} if "generateName" in value else set()
        drop |= {"kind", "apiVersion"} if "metadata" in value else set()
        return {name: _plain(item) for name, item in value.items() if name not in drop}
    return [_plain(item) for item in value] if isinstance(value, list) else value
