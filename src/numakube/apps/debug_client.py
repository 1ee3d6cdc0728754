"""How tools reach the debugging endpoints of schedulers and extenders.

    for one in await reach_schedulers(client):
        if not one.trouble:
            document = json.loads(await one.get("/debug/queue"))

Without anything else being said they are found by their labels and asked through the API server
(``pods/proxy``), so anyone who can use kubectl can look inside. The API server keeps the caller's
own credentials to itself; a token for this purpose alone, made by TokenRequest for an account next
to the pod, is sent instead (`numakube.apps.host.http_serving`). A URL is asked directly.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

import msgspec

from numakube.api.codec import BROKEN_JSON
from numakube.apps.host.endpoint_access import AUDIENCE, HEADER
from numakube.errors import ApiError, ClusterUnreachable, ConfigError, Forbidden, NotFound
from numakube.kube.catalog import PODS
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import ClusterConfig, Pem, TlsConfig
from numakube.kube.connection.transport import Request
from numakube.kube.resource_types import ObjectKey
from numakube.kube.subresources import request_token
from numakube.manifests.cluster_policies import SELECTOR, TENANT_ACCOUNT, account_for
from numakube.values.hosts import is_loopback

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numakube.kube.client import Client

NAMESPACES: Final = ("numakube", "numaresources")
"""Where schedulers usually are: those of ``numakube deploy``, and those of the operator."""
_TOKEN_SECONDS: Final = 600
_PORTS: Final = ("metrics", "https", "http", "extender", "metrics-port")
_TLS: Final = "--metrics-mode=httptls"
"""By which the argument of an exporter says what others say by their probes."""
_SECONDS: Final = 30.0
_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """One program that can be asked, or why it cannot.

    Attributes:
        name: of the pod, or host and port of a URL.
        kind: ``scheduler`` or ``extender``; empty if it is not known.
        leads: whether it is the one that works.
        trouble: why it cannot be asked; empty if it can.
        tokenless: what to do if it wants a token.
    """

    name: str
    kind: str = ""
    leads: bool = False
    trouble: str = ""
    client: Client = field(repr=False)
    prefix: str = ""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    owned: bool = False
    tokenless: str = "give one that it knows"

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """Return what it answers.

        Raises:
            ApiError: it refuses.
            ClusterUnreachable: it does not answer.
        """
        return await self.send("GET", path, query=query)

    async def aclose(self) -> None:
        """Close what was opened for it alone."""
        if self.owned:
            await self.client.aclose()

    async def send(
        self, method: str, path: str, body: bytes = b"", query: Mapping[str, str] | None = None
    ) -> bytes:
        """Send something, and return what it answers; raises as `get` does."""
        bare, _, given = path.partition("?")
        pairs = [part.partition("=") for part in given.split("&") if part]
        request = Request(
            method=method,
            path=self.prefix + bare,
            query=(*((name, text) for name, _, text in pairs), *(query or {}).items()),
            body=body or None,
            content_type="text/plain",
            accept="*/*",
            headers=self.headers,
            compress=False,
            timeout=_SECONDS,
        )
        return bytes((await self.client.request(request, retry=method == "GET")).body)


async def reach_schedulers(
    client: Client,
    *,
    urls: Sequence[str] = (),
    selector: str = SELECTOR,
    authority: str = "",
    token: str = "",
) -> tuple[Reached, ...]:
    """Return every program that was found, those that lead first.

    What cannot be reached is returned with the reason.

    Args:
        client: for the cluster; it must outlive what is returned.
        urls: ask these directly instead.
        selector: labels of the pods to ask otherwise.
        authority: file with the authority of the URLs' certificates.
        token: what to show there, instead of one made for the purpose.

    Raises:
        ClusterUnreachable: the API server does not answer.
    """
    if urls:
        found = [_direct(url, authority, token) for url in urls]
    else:
        try:
            found = await _through_api(client, selector)
        except ApiError as error:
            return (Reached(name="", trouble=f"cannot list pods: {error}", client=client),)
    limit = asyncio.Semaphore(_AT_ONCE)
    known = await asyncio.gather(*(_introduced(one, limit) for one in found))
    return tuple(sorted(known, key=lambda one: (not one.leads, one.name)))


async def ask_as_tenant(
    client: Client,
    pod: ObjectKey,
    *,
    urls: Sequence[str] = (),
    selector: str = SELECTOR,
    authority: str = "",
    token: str = "",
) -> bytes:
    """Return what a scheduler explains of *pod* to a user who may read it, but not the cluster.

    Through the API server it is asked with a token of the account `TENANT_ACCOUNT` next to the pod.

    Raises:
        ApiError: no scheduler may be asked, or all refuse.
        ClusterUnreachable: none answers.
        ConfigError: there is no scheduler, or a token is missing.
    """
    account = ObjectKey(pod.namespace, TENANT_ACCOUNT)
    found = (
        [_direct(url, authority, token) for url in urls]
        if urls
        else await _through_api(client, selector, account)
    )
    failure: Exception = ConfigError("no pod of a scheduler of numakube runs")
    try:
        for one in found:
            try:
                return await one.get(f"/explain/{pod.namespace}/{pod.name}")
            except (ApiError, ClusterUnreachable) as error:
                told = _troubled(one, error)
                failure = error if told.trouble == str(error) else ConfigError(told.trouble)
        raise failure
    finally:
        for one in found:
            await one.aclose()


async def ask_exporter(client: Client, node: str, path: str) -> bytes:
    """Return what the exporter on *node* answers at *path*.

    Raises:
        ApiError: it may not be asked, or refuses.
        ClusterUnreachable: it does not answer.
        ConfigError: there is no exporter of ours, or a token is missing.
    """
    pods = (await client.list(PODS.raw, fields=f"spec.nodeName={node}")).items
    running = [pod for pod in pods if _is_exporter(pod) and _runs(pod)]
    if not running:
        raise ConfigError(f"no exporter of numakube runs as a pod on node {node!r}")
    token, tokenless = await _token(client, _account_key(running[0]))
    one = _proxied(client, running[0], token, tokenless)
    try:
        return await one.get(path)
    except (ApiError, ClusterUnreachable) as error:
        told = _troubled(one, error)
        if told.trouble == str(error):
            raise
        raise ConfigError(f"{one.name}: {told.trouble}") from None


def _is_exporter(pod: dict[str, Any]) -> bool:
    """Tell by the words of its container: its labels depend on who deployed it."""
    return any(
        "exporter" in [*(container.get("command") or ()), *(container.get("args") or ())][:2]
        for container in pod["spec"]["containers"]
    )


def _runs(pod: dict[str, Any]) -> bool:
    return (pod.get("status") or {}).get("phase") == "Running"


async def _introduced(one: Reached, limit: asyncio.Semaphore) -> Reached:
    """Ask who it is."""
    async with limit:
        try:
            body = await one.get("/debug/attempts", {"limit": "0"})
            speaker = msgspec.json.decode(body)["speaker"]
        except (ApiError, ClusterUnreachable) as error:
            return _troubled(one, error)
        except (*BROKEN_JSON, KeyError, TypeError):
            return replace(one, trouble="it does not speak as a scheduler of numakube does")
    return replace(one, kind=str(speaker["kind"]), leads=bool(speaker["leads"]))


def _troubled(one: Reached, error: ApiError | ClusterUnreachable) -> Reached:
    text = str(error)
    if isinstance(error, ApiError) and error.code == HTTPStatus.UNAUTHORIZED:
        text = f"it wants a token: {one.tokenless}"
    return replace(one, trouble=text)


def _direct(url: str, authority: str, token: str) -> Reached:
    parts = urlsplit(url)
    tls = TlsConfig(authority=Pem(path=Path(authority)) if authority else None)
    config = ClusterConfig(server=url.rstrip("/"), tls=tls)
    private = parts.scheme == "https" or is_loopback(parts.hostname or "")
    headers = (("Authorization", f"Bearer {token}"),) if token and private else ()
    return Reached(name=parts.netloc, client=connect(config), headers=headers, owned=True)


async def _through_api(
    client: Client, selector: str, account: ObjectKey | None = None
) -> list[Reached]:
    """Return the pods, to be asked in the name of *account*, or of one of their own."""
    pods = await _pods(client, selector)
    doors = {account or _account_key(pod) for pod in pods}
    tokens = {key: await _token(client, key) for key in sorted(doors)}
    return [_proxied(client, pod, *tokens[account or _account_key(pod)]) for pod in pods]


def _account_key(pod: dict[str, Any]) -> ObjectKey:
    own = pod["spec"].get("serviceAccountName") or "default"
    return ObjectKey(pod["metadata"]["namespace"], account_for(own))


async def _pods(client: Client, selector: str) -> list[dict[str, Any]]:
    try:
        found = (await client.list(PODS.raw, labels=selector)).items
    except Forbidden as refusal:
        found = await _pods_nearby(client, selector, refusal)
    return [pod for pod in found if _runs(pod)]


async def _pods_nearby(
    client: Client, selector: str, refusal: Forbidden
) -> tuple[dict[str, Any], ...]:
    """Look where such programs usually are; *refusal* is raised if that is not allowed either."""
    found: list[dict[str, Any]] = []
    allowed = False
    for namespace in NAMESPACES:
        with contextlib.suppress(Forbidden):
            found += (await client.list(PODS.raw, labels=selector, namespace=namespace)).items
            allowed = True
    if not allowed:
        raise refusal
    return tuple(found)


async def _token(client: Client, account: ObjectKey) -> tuple[str, str]:
    """Return a token for looking inside, or none (it may need none) and how to get one."""
    named = f"ServiceAccount {account.name} in {account.namespace}"
    try:
        made = await request_token(client, account, seconds=_TOKEN_SECONDS, audiences=(AUDIENCE,))
    except NotFound:
        return "", f"create the {named}"
    except Forbidden:
        return "", f"you need the right to create serviceaccounts/token of the {named}"
    return made.token, f"that of the {named} is not enough; it needs the ClusterRole of that name"


def _proxied(client: Client, pod: dict[str, Any], token: str, tokenless: str) -> Reached:
    metadata = pod["metadata"]
    scheme, port = _door(pod)
    where = f"{scheme}:{metadata['name']}:{port}" if scheme else f"{metadata['name']}:{port}"
    prefix = f"/api/v1/namespaces/{metadata['namespace']}/pods/{quote(where, safe=':')}/proxy"
    headers = ((HEADER, token),) if token else ()
    return Reached(
        name=metadata["name"], client=client, prefix=prefix, headers=headers, tokenless=tokenless
    )


def _door(pod: dict[str, Any]) -> tuple[str, int]:
    """Return scheme and port of a pod's endpoints; its probe tells whether it is HTTPS."""
    for container in pod["spec"]["containers"]:
        ports = {
            port.get("name", ""): port["containerPort"] for port in container.get("ports") or ()
        }
        probe = (container.get("livenessProbe") or {}).get("httpGet") or {}
        wanted = probe.get("port", "")
        encrypted = probe.get("scheme") == "HTTPS" or _TLS in (container.get("args") or ())
        scheme = "https" if encrypted else ""
        if isinstance(wanted, int):
            return scheme, wanted
        for name in (wanted, *_PORTS):
            if name in ports:
                return scheme, int(ports[name])
    return "", 10259
