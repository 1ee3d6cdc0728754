"""What comes in badly: clear refusals, never a crash, never a wrong "fits"."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest
from tests.apps.extender.place import Place, place_of, pod_document

from numakube.apps.extender.process import ExtenderProcess
from numakube.apps.extender.verb_endpoints import token_in

VERBS = ("filter", "prioritize", "preempt", "bind")
POD = {**pod_document("p"), "metadata": {"name": "p", "namespace": "default", "uid": "u"}}


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    """The API server of the lab: what comes in over HTTP does not depend on it."""
    async with place_of() as place:
        yield place


async def post(process: ExtenderProcess, verb: str, body: Any, **options: Any) -> tuple[int, str]:
    """Return status and text of an answer."""
    data = body if isinstance(body, (bytes, io.BytesIO)) else json.dumps(body).encode()
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{process.url}/{verb}", data=data, **options) as response,
    ):
        return response.status, await response.text()


MALFORMED: tuple[Any, ...] = (
    b"",
    b"{",
    b"\xff\xfe",
    b"[]",
    b"null",
    b"42",
    b'"text"',
    b"[" * 100_000,
    b'{"Pod": {"metadata": {"name": "\xff\xfe"}}, "NodeNames": [7]}',
    b'{"Pod": {"spec": null}, "NodeNames": ["\xc3"], "PodName": 7, "Node": "\xc3"}',
    b'{"Pod": {"metadata": {"uid": "\\ud800"}}, "NodeNames": [7], "PodName": "\\ud800"}',
    b'{"Pod": {"metadata": {}}, "Nodes": {"items": [{"metadata": {"name": "\xff"}}]}}',
    {},
    {"Pod": None},
    {"Pod": []},
    {"Pod": {"spec": 7}},
    {"Pod": {"spec": {"containers": [{"resources": {"requests": []}}]}}},
    {"Pod": POD, "NodeNames": "n"},
    {"Pod": POD, "NodeNames": [1]},
    {"Pod": POD, "NodeNames": None, "Nodes": {"items": [{"metadata": {}}]}},
    {"Pod": POD, "NodeNames": None, "Nodes": {"items": [7]}},
    {"Pod": POD, "NodeNameToMetaVictims": [], "PodName": 7},
    {"Pod": POD, "NodeNameToMetaVictims": {"n": {"Pods": [{"UID": 7}]}}, "PodName": 7},
)


async def test_whatever_comes_is_refused_in_words(place: Place) -> None:
    """And the next call is answered as if nothing had been."""
    extender = await place.start()
    await place.node("n", 8)
    for verb in VERBS:
        for body in MALFORMED:
            status, text = await post(extender, verb, body)
            fits = status == 200 and json.loads(text)
            assert 400 <= status < 500 or (status == 200 and not _offers(fits)), (verb, body, text)
            assert text
    status, text = await post(extender, "filter", {"Pod": POD, "NodeNames": ["n"]})
    assert (status, json.loads(text)["NodeNames"]) == (200, ["n"])


def _offers(answer: Any) -> bool:
    return isinstance(answer, dict) and bool(answer.get("NodeNames"))


async def test_a_pod_that_makes_no_sense_gets_an_error_on_it(place: Place) -> None:
    """kube-scheduler shows the field ``Error`` on the pod, and a status nowhere."""
    extender = await place.start()
    await place.node("n", 8)
    odd = json.loads(json.dumps(POD))
    odd["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "many"
    status, text = await post(extender, "filter", {"Pod": odd, "NodeNames": ["n"]})
    answer = json.loads(text)
    assert status == 200
    assert "many" in answer["Error"]
    assert not answer["NodeNames"]
    status, text = await post(extender, "prioritize", {"Pod": odd, "NodeNames": ["n"]})
    assert status == 422
    assert "many" in text


async def test_a_huge_body_is_refused_before_it_is_read(place: Place) -> None:
    """50 MB, with its length told and in pieces."""
    extender = await place.start()
    blob = io.BytesIO(b" " * (50 << 20))
    status, text = await post(extender, "filter", blob)
    assert status == 413
    assert "exceeded" in text

    async def pieces() -> Any:
        for _ in range(50):
            yield b" " * (1 << 20)

    async with aiohttp.ClientSession() as session:
        try:
            async with session.post(f"{extender.url}/filter", data=pieces()) as response:
                assert response.status == 413
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
            pass  # It was told and did not listen: the connection is gone.
    status, _ = await post(extender, "prioritize", {"Pod": POD, "NodeNames": []})
    assert status == 200


async def test_a_page_with_a_name_of_its_own_for_this_machine_gets_nothing(place: Place) -> None:
    """Neither verdicts nor bindings."""
    extender = await place.start()
    hosts = {"Host": "evil.example", "Origin": "http://evil.example"}
    async with aiohttp.ClientSession(extender.url) as session:
        for verb in ("filter", "prioritize", "preempt", "bind"):
            for headers in (hosts, {"Host": hosts["Host"]}):
                async with session.post(f"/{verb}", json={}, headers=headers) as response:
                    assert response.status == 421, verb


async def test_a_slow_client_is_not_waited_for(place: Place) -> None:
    """Others are answered meanwhile."""
    extender = await place.start(read_seconds=0.3)
    host, port = extender.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"POST /filter HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
    await writer.drain()
    status, _ = await post(extender, "prioritize", {"Pod": POD, "NodeNames": []})
    assert status == 200
    answer = await asyncio.wait_for(reader.readline(), 20)
    assert b" 408 " in answer
    writer.close()


async def test_calls_in_a_row_share_a_connection(place: Place) -> None:
    """kube-scheduler keeps its own open for 90 seconds."""
    extender = await place.start()
    connector = aiohttp.TCPConnector(limit=1)
    async with aiohttp.ClientSession(connector=connector) as session:
        ports = set()
        for _ in range(3):
            body = {"Pod": POD, "NodeNames": []}
            async with session.post(f"{extender.url}/filter", json=body) as response:
                assert response.connection is None or response.connection.transport is not None
                if response.connection is not None and response.connection.transport is not None:
                    ports.add(response.connection.transport.get_extra_info("sockname"))
                assert response.status == 200
        assert len(ports) <= 1


async def test_a_token_is_asked_for_if_there_is_one(place: Place, tmp_path: Path) -> None:
    """As bearer, or as the password that stands in ``urlPrefix``."""
    extender = await place.start(token=lambda: "secret")
    body = {"Pod": POD, "NodeNames": []}
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic !!"}):
        status, text = await post(extender, "filter", body, headers=headers)
        assert status == 401, text
    status, _ = await post(extender, "filter", body, headers={"Authorization": "Bearer secret"})
    assert status == 200
    pair = base64.b64encode(b"numakube:secret").decode()
    status, _ = await post(extender, "filter", body, headers={"Authorization": f"Basic {pair}"})
    assert status == 200


async def test_a_token_that_is_no_text_is_a_wrong_one(place: Place) -> None:
    """And not an error of ours."""
    extender = await place.start(token=lambda: "secret")
    host, port = extender.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        b"POST /filter HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \xff\xfe\r\n"
        b"Content-Length: 2\r\n\r\n{}"
    )
    assert b" 401 " in await asyncio.wait_for(reader.readline(), 20)
    writer.close()


async def test_spoilt_requests_are_never_an_error_of_ours(place: Place) -> None:
    """Five hundred, each with a few bytes of a good one replaced, doubled or cut out."""
    extender = await place.start()
    await place.node("n", 8)
    chance = Random(17)
    victims = {"NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "u"}], "NumPDBViolations": 1}}}
    bound = {"PodName": "p", "PodNamespace": "default", "PodUID": "u", "Node": "n"}
    good = json.dumps({"Pod": POD, "NodeNames": ["n"], **victims, **bound}).encode()
    async with aiohttp.ClientSession() as session:
        for number in range(500):
            body = spoilt(good, chance)
            url = f"{extender.url}/{VERBS[number % len(VERBS)]}"
            async with session.post(url, data=body) as response:
                assert response.status < 500, (url, body, await response.text())


def spoilt(body: bytes, chance: Random) -> bytes:
    """Return *body* with one to three places changed."""
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(body))
        upto = at + chance.randint(0, 4)
        new = chance.choice(
            (b"", b"\xff", b"null", b"[", b'"', b"-1e999", b"\\ud800", body[at : at + 30])
        )
        body = body[:at] + new + body[upto:]
    return body


async def test_nothing_is_answered_before_everything_is_listed(place: Place) -> None:
    """Neither a call nor the question whether it is ready."""
    extender = await place.start()
    extender.mirror.pods.synced.clear()
    status, text = await post(extender, "filter", {"Pod": POD, "NodeNames": ["n"]})
    assert status == 503
    assert "pods" in text
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{extender.url}/readyz") as response,
    ):
        assert response.status == 503
    extender.mirror.pods.synced.set()
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{extender.url}/readyz") as response,
    ):
        assert response.status == 200


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("", ""),
        ("Bearer abc", "abc"),
        ("bearer  abc ", "abc"),
        ("Basic bnVtYWt1YmU6YTpi", "a:b"),
        ("Basic bnVtYWt1YmU=", ""),
        ("Digest abc", ""),
    ],
)
def test_tokens_in_headers(header: str, token: str) -> None:
    """Passwords may have colons."""
    assert token_in(header) == token


async def test_an_extender_says_whether_pods_would_fit(place: Place) -> None:
    """By amounts alone, a pod counts in each zone where it may be; no room is kept."""
    extender = await place.start()
    await place.node("a", 8, 3)
    await place.node("b", 8, 8)
    anywhere = {"tolerations": [{"operator": "Exists"}]}
    question = {"pod": pod_document("p", "6", **anywhere), "count": 5}

    async with aiohttp.ClientSession(extender.url) as session:
        for _ in range(2):
            async with session.post("/v1/fit", json=question) as response:
                answer = await response.json()
            assert sorted(placement["node"] for placement in answer["placements"]) == ["a", "b"]
            assert answer["refused"][0]["reason"].startswith("0/2 nodes are available")
        hold = {**question, "hold": {"name": "j", "seconds": 5}}
        async with session.post("/v1/fit", json=hold) as response:
            assert (response.status, await response.text()) == (
                400,
                "hold: only a scheduler keeps room",
            )
