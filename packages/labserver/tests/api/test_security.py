"""HTTPS, users, tokens of service accounts and rights."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from kube_lab_server import ApiServer, User

if TYPE_CHECKING:
    from pathlib import Path

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
ADMIN = {"Authorization": "Bearer secret"}
USERS = {"secret": User("admin", "", ("system:masters",))}


def trusting(server: ApiServer) -> ssl.SSLContext:
    """TLS settings of a client that trusts the server's authority alone."""
    assert server.authority is not None
    return ssl.create_default_context(cadata=server.authority.certificate.decode())


async def test_https_is_served_with_a_certificate_of_the_own_authority() -> None:
    """A client that trusts the authority gets an answer."""
    async with (
        ApiServer(tls=True) as server,
        aiohttp.ClientSession() as session,
        session.get(f"{server.url}/healthz", ssl=trusting(server)) as response,
    ):
        assert await response.text() == "ok"


@pytest.mark.parametrize(("host", "status"), [("evil.example:80", 421), ("localhost", 201)])
@pytest.mark.parametrize("headers", [{}, {"Connection": "keep-alive"}])
async def test_on_loopback_a_request_must_name_the_machine(
    host: str, status: int, headers: dict[str, str]
) -> None:
    """A page of the web could have a name of its own point to a lab, where all is allowed.

    With a header for the connection a request is not a plain one.
    """
    namespace = {"metadata": {"name": "made"}}
    async with (
        ApiServer() as server,
        aiohttp.ClientSession(server.url) as session,
        session.post(
            "/api/v1/namespaces", json=namespace, headers={"Host": host, **headers}
        ) as response,
    ):
        assert response.status == status, await response.text()


async def test_the_authority_outlives_a_restart(tmp_path: Path) -> None:
    """A kubeconfig that was handed out stays valid."""
    data = tmp_path / "lab.db"
    async with ApiServer(tls=True, data=data) as server:
        context = trusting(server)
    async with (
        ApiServer(tls=True, data=data) as server,
        aiohttp.ClientSession() as session,
        session.get(f"{server.url}/healthz", ssl=context) as response,
    ):
        assert response.status == 200


async def token_of(session: aiohttp.ClientSession, name: str, **spec: Any) -> str:
    """Ask for a token of a service account."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    async with session.post(f"{ACCOUNTS}/{name}/token", json=body, headers=ADMIN) as response:
        assert response.status == 201, await response.text()
        token: str = (await response.json())["status"]["token"]
        return token


async def create_account(session: aiohttp.ClientSession, name: str) -> None:
    """Create a service account."""
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    async with session.post(ACCOUNTS, json=body, headers=ADMIN) as response:
        assert response.status == 201


async def whoami(session: aiohttp.ClientSession, token: str) -> tuple[int, dict[str, Any]]:
    """Ask the server whose token it is."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    headers = {"Authorization": f"Bearer {token}"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    async with session.post(path, json=body, headers=headers) as response:
        return response.status, await response.json()


async def test_a_service_account_is_known_by_its_token() -> None:
    """The token names the account and its groups."""
    async with ApiServer(users=USERS) as server, aiohttp.ClientSession(server.url) as session:
        await create_account(session, "robot")
        status, review = await whoami(session, await token_of(session, "robot"))

    assert status == 201
    assert review["status"]["userInfo"]["username"] == "system:serviceaccount:default:robot"
    assert "system:serviceaccounts:default" in review["status"]["userInfo"]["groups"]


async def test_a_token_ends_with_its_account() -> None:
    """A deleted account's token is nobody's."""
    async with ApiServer(users=USERS) as server, aiohttp.ClientSession(server.url) as session:
        await create_account(session, "robot")
        token = await token_of(session, "robot")
        async with session.delete(f"{ACCOUNTS}/robot", headers=ADMIN):
            pass
        status, _ = await whoami(session, token)

    assert status == 401


async def test_a_token_expires() -> None:
    """After its time a token is nobody's."""
    clock = [datetime(2026, 1, 1, tzinfo=UTC)]
    async with (
        ApiServer(users=USERS, now=lambda: clock[0]) as server,
        aiohttp.ClientSession(server.url) as session,
    ):
        await create_account(session, "robot")
        token = await token_of(session, "robot", expirationSeconds=600)
        clock[0] += timedelta(seconds=599)
        assert (await whoami(session, token))[0] == 201
        clock[0] += timedelta(seconds=2)
        assert (await whoami(session, token))[0] == 401


async def test_a_forged_token_is_refused() -> None:
    """A change of one character breaks the signature."""
    async with ApiServer(users=USERS) as server, aiohttp.ClientSession(server.url) as session:
        await create_account(session, "robot")
        head, body, signature = (await token_of(session, "robot")).split(".")
        other = "A" if signature[0] != "A" else "B"
        status, _ = await whoami(session, f"{head}.{body}.{other}{signature[1:]}")

    assert status == 401


@pytest.mark.parametrize(("verb", "status"), [("list", 200), ("get", 403)])
async def test_a_service_account_may_do_what_its_role_allows(verb: str, status: int) -> None:
    """Rights come from a role, by a binding to the account."""
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    role = {
        "metadata": {"name": "r"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}],
    }
    binding = {
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}],
    }
    async with (
        ApiServer(users=USERS, rbac=True) as server,
        aiohttp.ClientSession(server.url) as session,
    ):
        await create_account(session, "robot")
        for path, body in (("roles", role), ("rolebindings", binding)):
            async with session.post(f"{rbac}/{path}", json=body, headers=ADMIN) as response:
                assert response.status == 201, await response.text()
        headers = {"Authorization": f"Bearer {await token_of(session, 'robot')}"}
        async with session.get("/api/v1/namespaces/default/pods", headers=headers) as response:
            assert response.status == status


RBAC = "/apis/rbac.authorization.k8s.io/v1"
PEOPLE = {**USERS, "alice": User("alice", "", ("devs",))}


def cluster_role(name: str, *rules: tuple[str, str, str]) -> dict[str, Any]:
    """A cluster role that allows each (group, resource, verb)."""
    return {
        "metadata": {"name": name},
        "rules": [
            {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
            for group, resource, verb in rules
        ],
    }


def cluster_binding(role: str, user: str) -> dict[str, Any]:
    """A binding of a cluster role to a user."""
    group = "rbac.authorization.k8s.io"
    return {
        "metadata": {"name": f"{role}-{user}"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "apiGroup": group, "name": user}],
    }


async def test_nobody_hands_out_rights_they_do_not_have() -> None:
    """Neither by a role nor by a binding; what one has can be handed on."""
    alice = {"Authorization": "Bearer alice"}
    own = [
        ("rbac.authorization.k8s.io", "clusterroles", "create"),
        ("rbac.authorization.k8s.io", "clusterrolebindings", "create"),
        ("", "pods", "get"),
    ]
    async with (
        ApiServer(users=PEOPLE, rbac=True) as server,
        aiohttp.ClientSession(server.url) as session,
    ):

        async def post(path: str, body: object, headers: dict[str, str]) -> tuple[int, str]:
            async with session.post(f"{RBAC}/{path}", json=body, headers=headers) as response:
                return response.status, (await response.json()).get("message", "")

        await post("clusterroles", cluster_role("own", *own), ADMIN)
        await post("clusterroles", cluster_role("much", ("*", "*", "*")), ADMIN)
        await post("clusterrolebindings", cluster_binding("own", "alice"), ADMIN)
        fine = await post("clusterroles", cluster_role("less", ("", "pods", "get")), alice)
        more = cluster_role("more", ("", "pods", "get"), ("", "pods", "delete"))
        too_much = await post("clusterroles", more, alice)
        bound = await post("clusterrolebindings", cluster_binding("much", "bob"), alice)

    assert fine[0] == 201
    assert too_much[0] == 403
    assert too_much[1].endswith('{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}')
    assert bound[0] == 403
    assert "attempting to grant RBAC permissions not currently held" in bound[1]
