"""The whole specification of a pod that runs as a process, and what it takes from other objects.

`numakube.api` holds what schedulers and kubelets decide by; these types add what only matters once
a container really runs.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.api.codec import QuantityText, Wire
from numakube.api.meta import ObjectMeta
from numakube.api.pod import EmptyDirVolumeSource, HostPathVolumeSource, ResourceRequirements
from numakube.errors import AlreadyExists, ApiError, NotFound
from numakube.kube import ObjectKey, request_token
from numakube.kube.catalog import CONFIG_MAPS, NODES, PODS, SECRETS, SERVICE_ACCOUNTS
from numakube_lab.processes.program_table import CannotStart

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from numakube.kube import Client, Document, Resource


class KeyRef(Wire, frozen=True):
    """A key of a config map or secret."""

    key: str
    name: str = ""
    optional: bool = False


class FieldRef(Wire, frozen=True):
    """A field of the pod."""

    field_path: str


class ResourceFieldRef(Wire, frozen=True):
    """A request or limit of a container, divided by a quantity."""

    resource: str
    container_name: str = ""
    divisor: QuantityText = 0


class ValueSource(Wire, frozen=True):
    """Where the value of a variable comes from."""

    field_ref: FieldRef | None = None
    resource_field_ref: ResourceFieldRef | None = None
    config_map_key_ref: KeyRef | None = None
    secret_key_ref: KeyRef | None = None


class Variable(Wire, frozen=True):
    """An environment variable."""

    name: str
    value: str = ""
    value_from: ValueSource | None = None


class ObjectRef(Wire, frozen=True):
    """A config map or secret as a whole."""

    name: str = ""
    optional: bool = False


class VariablesFrom(Wire, frozen=True):
    """All keys of a config map or secret as variables."""

    prefix: str = ""
    config_map_ref: ObjectRef | None = None
    secret_ref: ObjectRef | None = None


class Mount(Wire, frozen=True):
    """Where a container sees a volume, or a path in it."""

    name: str
    mount_path: str
    sub_path: str = ""
    sub_path_expr: str = ""


class KeyToPath(Wire, frozen=True):
    """Under which path a key appears as a file."""

    key: str
    path: str
    mode: int | None = None


class ConfigMapSource(Wire, frozen=True):
    """The keys of a config map as files; all of them if no items are named."""

    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int = 0o644
    optional: bool = False


class SecretSource(Wire, frozen=True):
    """The keys of a secret as files."""

    secret_name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int = 0o644
    optional: bool = False


class DownwardFile(Wire, frozen=True):
    """A field of the pod as a file."""

    path: str
    field_ref: FieldRef | None = None
    resource_field_ref: ResourceFieldRef | None = None
    mode: int | None = None


class DownwardSource(Wire, frozen=True):
    """Fields of the pod as files."""

    items: tuple[DownwardFile, ...] = ()
    default_mode: int = 0o644


class SecretProjection(Wire, frozen=True):
    """The keys of a secret as files among others."""

    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    optional: bool = False


class TokenProjection(Wire, frozen=True):
    """A token of the pod's service account as a file."""

    path: str
    expiration_seconds: int = 3600
    audience: str = ""


class Projection(Wire, frozen=True):
    """One of the sources that share a folder."""

    config_map: ConfigMapSource | None = None
    secret: SecretProjection | None = None
    downward_api: DownwardSource | None = msgspec.field(default=None, name="downwardAPI")
    service_account_token: TokenProjection | None = None


class ProjectedSource(Wire, frozen=True):
    """Several sources in one folder."""

    sources: tuple[Projection, ...] = ()
    default_mode: int = 0o644


class MountedVolume(Wire, frozen=True):
    """A volume; sources that the lab does not mount leave all of these empty."""

    name: str
    config_map: ConfigMapSource | None = None
    secret: SecretSource | None = None
    projected: ProjectedSource | None = None
    downward_api: DownwardSource | None = msgspec.field(default=None, name="downwardAPI")
    empty_dir: EmptyDirVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None


class RunnableContainer(Wire, frozen=True):
    """A container that can be run."""

    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[Variable, ...] = ()
    env_from: tuple[VariablesFrom, ...] = ()
    volume_mounts: tuple[Mount, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None


class RunnableSpec(Wire, frozen=True):
    """What a pod consists of."""

    containers: tuple[RunnableContainer, ...] = ()
    init_containers: tuple[RunnableContainer, ...] = ()
    volumes: tuple[MountedVolume, ...] = ()
    node_name: str = ""
    service_account_name: str = ""
    automount_service_account_token: bool | None = None
    host_network: bool = False
    hostname: str = ""


class RunnableStatus(Wire, frozen=True):
    """Where a pod is."""

    host_ip: str = msgspec.field(default="", name="hostIP")
    pod_ip: str = msgspec.field(default="", name="podIP")


class RunnablePod(Wire, frozen=True):
    """A pod that can be run."""

    metadata: ObjectMeta = ObjectMeta()
    spec: RunnableSpec = RunnableSpec()
    status: RunnableStatus = RunnableStatus()

    def container(self, name: str) -> RunnableContainer:
        """Return one of its containers."""
        every = (*self.spec.init_containers, *self.spec.containers)
        return next(container for container in every if container.name == name)


RUNNABLE_PODS = PODS.decoded_as(RunnablePod)


# What containers are given of the API: config maps, secrets and tokens of service accounts.
#
# Messages about what is missing are the kubelet's.


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
