"""What containers are given of the API: config maps, secrets and tokens of service accounts.

Messages about what is missing are the kubelet's.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from numakube.errors import AlreadyExists, ApiError, NotFound
from numakube.kube.catalog import CONFIG_MAPS, NODES, SECRETS, SERVICE_ACCOUNTS
from numakube.kube.resource_types import ObjectKey
from numakube.kube.subresources import request_token
from numakube_lab.processes.container_tasks import CannotStart

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from numakube.kube.client import Client
    from numakube.kube.resource_types import Document, Resource
    from numakube_lab.processes.full_pod_spec import RunnablePod, TokenProjection

ROOT_AUTHORITY: Final = "kube-root-ca.crt"
"""The config map with the API server's authority, which every namespace of a cluster has."""

DEFAULT_ACCOUNT: Final = "default"
_RENEWED_AFTER: Final = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class InsideAddress:
    """Where pods reach the API server, and whose certificate it shows them."""

    host: str
    port: int
    authority: bytes


@dataclass(frozen=True, slots=True)
class Keys:
    """The content of a config map or secret.

    Attributes:
        title: what messages call it, such as ``ConfigMap default/settings``.
    """

    title: str
    data: Mapping[str, bytes]

    def get(self, key: str, *, optional: bool) -> bytes | None:
        """Return the value of *key*; ``None`` only if it may be missing."""
        if key not in self.data and not optional:
            raise CannotStart.because(f"couldn't find key {key} in {self.title}")
        return self.data.get(key)


@dataclass(frozen=True, slots=True)
class _Token:
    text: bytes
    renew: datetime


class Sources:
    """Reads on behalf of the kubelets."""

    def __init__(self, client: Client, inside: InsideAddress) -> None:
        self.inside = inside
        self._client = client
        self._tokens: dict[tuple[str, TokenProjection], _Token] = {}

    async def config_map(self, namespace: str, name: str, *, optional: bool) -> Keys | None:
        """Return a config map; ``None`` only if it may be missing."""
        title = f"ConfigMap {namespace}/{name}"
        document = await self._read(CONFIG_MAPS, namespace, name)
        if document is None and name == ROOT_AUTHORITY:
            return Keys(title, {"ca.crt": self.inside.authority})
        if document is None:
            _check_optional("configmap", name, optional=optional)
            return None
        texts = {key: text.encode() for key, text in _map(document, "data").items()}
        return Keys(title, texts | _decoded(_map(document, "binaryData")))

    async def secret(self, namespace: str, name: str, *, optional: bool) -> Keys | None:
        """Return a secret; ``None`` only if it may be missing."""
        document = await self._read(SECRETS, namespace, name)
        if document is None:
            _check_optional("secret", name, optional=optional)
            return None
        return Keys(f"Secret {namespace}/{name}", _decoded(_map(document, "data")))

    async def token(self, pod: RunnablePod, wanted: TokenProjection) -> bytes:
        """Return a token of the pod's service account that lives no longer than the pod.

        It is the same until four fifths of its life are over.
        """
        key, now = (pod.metadata.uid, wanted), self._client.clock.now()
        known = self._tokens.get(key)
        if known is None or now >= known.renew:
            text = await self._new_token(pod, wanted)
            life = timedelta(seconds=wanted.expiration_seconds)
            self._tokens[key] = known = _Token(text, now + _RENEWED_AFTER * life)
        return known.text

    def forget(self, uid: str) -> None:
        """Drop the tokens of a pod that is gone."""
        for key in [key for key in self._tokens if key[0] == uid]:
            del self._tokens[key]

    async def _new_token(self, pod: RunnablePod, wanted: TokenProjection) -> bytes:
        metadata = pod.metadata
        account = ObjectKey(metadata.namespace, account_of(pod))
        if account.name == DEFAULT_ACCOUNT:
            await self._ensure_default(metadata.namespace)
        try:
            status = await request_token(
                self._client,
                account,
                seconds=wanted.expiration_seconds,
                audiences=(wanted.audience,) if wanted.audience else (),
                pod=ObjectKey(metadata.namespace, metadata.name),
                pod_uid=metadata.uid,
            )
        except ApiError as error:
            raise CannotStart.because(f"failed to fetch token: {error}") from error
        return status.token.encode()

    async def mounts_token(self, pod: RunnablePod) -> bool:
        """Tell whether a token is to be mounted into *pod* although it does not say so itself."""
        wish = pod.spec.automount_service_account_token
        if wish is None:
            account = await self._read(SERVICE_ACCOUNTS, pod.metadata.namespace, account_of(pod))
            wish = None if account is None else account.get("automountServiceAccountToken")
        return wish is not False

    async def allocatable(self, node: str) -> Mapping[str, str]:
        """Return what pods can have at most on a node."""
        document = await self._read(NODES.raw, "", node) or {}
        found: Mapping[str, str] = (document.get("status") or {}).get("allocatable") or {}
        return found

    async def _ensure_default(self, namespace: str) -> None:
        """Make the account that a controller of a real cluster makes for every namespace."""
        if await self._read(SERVICE_ACCOUNTS, namespace, DEFAULT_ACCOUNT) is None:
            account = {"metadata": {"name": DEFAULT_ACCOUNT, "namespace": namespace}}
            try:
                await self._client.create(SERVICE_ACCOUNTS, account)
            except AlreadyExists:
                return

    async def _read(
        self, resource: Resource[dict[str, Any]], namespace: str, name: str
    ) -> Document | None:
        try:
            return await self._client.get(resource, name, namespace=namespace)
        except NotFound:
            return None


def account_of(pod: RunnablePod) -> str:
    """Return the name of the pod's service account."""
    return pod.spec.service_account_name or DEFAULT_ACCOUNT


def _check_optional(kind: str, name: str, *, optional: bool) -> None:
    if not optional:
        raise CannotStart.because(f'{kind} "{name}" not found')


def _map(document: Document, field: str) -> Mapping[str, str]:
    found: Mapping[str, str] = document.get(field) or {}
    return found


def _decoded(data: Mapping[str, str]) -> dict[str, bytes]:
    return {key: base64.b64decode(text) for key, text in data.items()}
