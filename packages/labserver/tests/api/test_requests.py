"""What requests are answered, beyond the recorded ones."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from multidict import MultiDict
from packages.labserver.tests.client import Client

from kube_lab_server import ApiServer, User
from kube_lab_server.handling.call import Call, StreamedAnswer
from kube_lab_server.server import router
from kube_lab_server.store.store import Key
from kube_lab_server.wire.request_options import parse_request

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from kube_lab_server import LogOptions

PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def pod(name: str = "p", *containers: str, **spec: Any) -> dict[str, Any]:
    """A pod."""
    listed = [{"name": c, "image": "img:1"} for c in containers or ("c",)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": listed, **spec},
    }


def config_map(name: str, **data: str) -> dict[str, Any]:
    """A ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@pytest.mark.parametrize(
    "body", [b"no gzip", gzip.compress(b'{"metadata":{"name":"a"}}', mtime=0)], ids=["bad", "good"]
)
async def test_a_compressed_body_is_no_object(api: Client, body: bytes) -> None:
    """A real server does not unpack one either, good or bad."""
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    async with api.session.post(CONFIG_MAPS, data=body, headers=headers) as response:
        assert (response.status, (await response.json())["kind"]) == (400, "Status")


async def test_a_body_in_broken_chunks_is_refused(server: ApiServer) -> None:
    """It is the client's mistake."""
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
    writer.write(head.encode() + b"Content-Type: application/json\r\n\r\n2\r\n{}\r\nnonsense\r\n")
    assert b" 400 " in await reader.readline()
    writer.close()


class Printed:
    """Keeps the output of every container: its own name."""

    def open_log(
        self, pod: dict[str, Any], options: LogOptions
    ) -> AsyncGenerator[bytes, None] | None:
        """Return the output."""

        async def lines() -> AsyncGenerator[bytes, None]:
            yield f"{pod['metadata']['name']}/{options.container}\n".encode()

        return lines()


async def test_the_output_of_a_container_can_be_read(server: ApiServer, api: Client) -> None:
    """The server asks those who keep it."""
    server.state.logs.append(Printed())
    await api.create(PODS, pod("p", "a", "b", nodeName="n"))
    _, log = await api.send("GET", f"{PODS}/p/log", container="b")

    assert log["text"] == "p/b\n"


async def test_one_of_several_containers_must_be_named(api: Client) -> None:
    """The answer says which there are."""
    await api.create(PODS, pod("p", "a", "b", nodeName="n"))
    status, refused = await api.send("GET", f"{PODS}/p/log")

    assert status == 400
    assert refused["message"].endswith("choose one of: [a b]")


async def test_a_log_that_nobody_keeps_is_refused(api: Client) -> None:
    """An empty answer would be a wrong one."""
    await api.create(PODS, pod("p", nodeName="n"))
    status, refused = await api.send("GET", f"{PODS}/p/log")

    assert status == 400
    assert "keeps no output" in refused["message"]


@pytest.mark.parametrize("part", ["exec", "attach", "portforward"])
async def test_what_needs_a_connection_into_a_container_is_refused(api: Client, part: str) -> None:
    """With a sentence that says so."""
    await api.create(PODS, pod("p", nodeName="n"))
    status, refused = await api.send("GET", f"{PODS}/p/{part}")

    assert status == 405
    assert f"does not serve pods/{part}" in refused["message"]


async def test_a_body_that_is_too_large_is_refused(api: Client) -> None:
    """The limit is that of a real server."""
    status, refused = await api.send("POST", CONFIG_MAPS, config_map("a", k="x" * 3_200_000))

    assert status == 413
    assert refused["message"] == "Request entity is too large: limit is 3145728"


async def test_an_object_of_two_megabytes_is_accepted(api: Client) -> None:
    """It is below the limit of a request, and ConfigMaps have their own."""
    status, refused = await api.send("POST", CONFIG_MAPS, config_map("a", k="x" * 2_000_000))

    assert status == 422
    assert "Too long" in refused["message"]


async def test_deleting_a_job_warns_that_its_pods_stay(api: Client) -> None:
    """Unless the client says what it wants."""
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"template": template},
    }
    await api.create(jobs, job)
    await api.send("DELETE", f"{jobs}/j", dryRun="All")
    assert "child pods are preserved by default" in api.warnings[0]
    await api.send("DELETE", f"{jobs}/j", propagationPolicy="Background")
    assert api.warnings == []


async def test_a_pod_with_two_budgets_cannot_be_evicted(api: Client) -> None:
    """Nobody can tell which one to ask."""
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    await api.create(PODS, pod("p", nodeName="n"))
    await api.send(
        "PATCH",
        f"{PODS}/p/status",
        {"status": {"phase": "Running"}},
        kind="application/merge-patch+json",
    )
    for name in "ab":
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name},
            "spec": {"selector": {}, "minAvailable": 0},
        }
        await api.create(budgets, budget)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    status, document = await api.send("POST", f"{PODS}/p/eviction", eviction)

    assert status == 500
    assert "more than one PodDisruptionBudget" in document["message"]


async def read_events(api: Client, path: str, count: int, **query: str) -> list[dict[str, Any]]:
    """Watch until *count* events came."""
    async with api.session.get(path, params={"watch": "true", **query}) as watch:
        return [json.loads(await watch.content.readline()) for _ in range(count)]


async def test_the_old_watch_path_of_one_object_shows_only_that(api: Client) -> None:
    """Other objects of the collection are not told of."""
    await api.create(CONFIG_MAPS, config_map("a"))
    await api.create(CONFIG_MAPS, config_map("b"))
    await api.create(CONFIG_MAPS, config_map("c"))
    path = "/api/v1/watch/namespaces/default/configmaps/b"
    events = await read_events(api, path, 1)

    assert [event["object"]["metadata"]["name"] for event in events] == ["b"]


async def test_a_watch_from_the_future_is_silent_until_then(server: ApiServer, api: Client) -> None:
    """Changes up to the version that the client knows are not told of."""
    future = server.state.store.version + 2
    asked = {"watch": "true", "resourceVersion": str(future)}
    async with api.session.get(CONFIG_MAPS, params=asked) as watch:
        for name in "abc":
            await api.create(CONFIG_MAPS, config_map(name))
        event = json.loads(await watch.content.readline())

    assert int(event["object"]["metadata"]["resourceVersion"]) > future


async def test_a_version_that_is_not_there_yet_is_not_read(api: Client) -> None:
    """The answer asks the client to come back."""
    await api.create(CONFIG_MAPS, config_map("a"))
    status, refused = await api.send("GET", f"{CONFIG_MAPS}/a", resourceVersion="99999")

    assert (status, refused["reason"]) == (504, "Timeout")


USERS = {
    "root": User("root", "", ("system:masters",)),
    "alice": User("alice", "", ("devs",)),
}


async def whoami(api: Client, token: str, **headers: str) -> tuple[int, dict[str, Any]]:
    """Ask who a request is from."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await api.send(
        "POST",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        body,
        headers={"Authorization": f"Bearer {token}", **named},
    )


async def test_an_administrator_can_act_as_somebody_else() -> None:
    """The request counts as that user's."""
    async with (
        ApiServer(users=USERS, rbac=True) as server,
        aiohttp.ClientSession(server.url) as session,
    ):
        headers = {"Impersonate_User": "carol", "Impersonate_Group": "ops"}
        status, review = await whoami(Client(session), "root", **headers)

    info = review["status"]["userInfo"]
    assert (status, info["username"], info["groups"]) == (
        201,
        "carol",
        ["ops", "system:authenticated"],
    )


async def test_acting_as_somebody_else_needs_the_right_to() -> None:
    """Others are refused with what they lack."""
    async with (
        ApiServer(users=USERS, rbac=True) as server,
        aiohttp.ClientSession(server.url) as session,
    ):
        status, refused = await whoami(Client(session), "alice", Impersonate_User="root")

    assert status == 403
    assert 'User "alice" cannot impersonate resource "users"' in refused["message"]


async def test_health_endpoints_tell_what_they_checked(api: Client) -> None:
    """Briefly, unless asked for more; a check that does not exist is not healthy."""
    assert (await api.send("GET", "/livez"))[1] == {"text": "ok"}
    assert (await api.send("GET", "/livez/etcd"))[1] == {"text": "ok"}
    _, told = await api.send("GET", "/livez", verbose="")
    assert told["text"] == "[+]ping ok\n[+]log ok\n[+]etcd ok\nlivez check passed\n"
    assert (await api.send("GET", "/livez/nonsense"))[0] == 404


async def test_the_root_lists_the_paths_that_there_are(api: Client) -> None:
    """Every one of them can be read."""
    paths = (await api.get("/"))["paths"]
    answers = {path: (await api.send("GET", path))[0] for path in paths}

    assert "/apis/apps/v1" in paths
    assert set(answers.values()) == {200}


@pytest.mark.parametrize("version", ["banana", "1x"])
async def test_a_version_that_is_no_number_is_an_error(api: Client, version: str) -> None:
    """The real server fails at parsing it."""
    await api.create(CONFIG_MAPS, config_map("a"))
    changed = config_map("a", k="v")
    changed["metadata"]["resourceVersion"] = version
    status, refused = await api.send("PUT", f"{CONFIG_MAPS}/a", changed)

    assert status == 500
    assert refused["message"] == f'strconv.ParseUint: parsing "{version}": invalid syntax'


async def test_a_watch_misses_nothing_between_its_answer_and_its_first_reader(
    server: ApiServer,
) -> None:
    """What happens before the first read is delivered; a watch without a reader is released."""
    query = MultiDict({"watch": "true", "resourceVersion": str(server.state.store.version)})
    info = parse_request("GET", CONFIG_MAPS, query)
    call = Call("GET", info, query, {}, b"", User("a", "", ("system:masters",)))
    stream = router.answer(server.state, call)
    assert isinstance(stream, StreamedAnswer)
    server.state.store.put(Key("configmaps", "default", "a"), config_map("a"))
    first = json.loads(await anext(stream.chunks))
    await stream.chunks.aclose()

    assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "a")
    unread = router.answer(server.state, call)
    assert isinstance(unread, StreamedAnswer)
    await unread.chunks.aclose()
    assert server.state.feeds.count == 0
