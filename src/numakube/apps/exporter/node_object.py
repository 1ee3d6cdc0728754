"""The Node object, for the owner reference, the kubelet's version and its address.

It is read again now and then: a Node that is deleted and registers again has another uid, and an
object that points to the old one would be collected as garbage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from numakube.api.meta import OwnerReference
from numakube.errors import ApiError, ClusterUnreachable, NotFound
from numakube.kube.catalog import NODES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.nodes import Node
    from numakube.kube.client import Client

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class NodeObject:
    """The Node of this name, as it was when last read."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._name = name
        self._node: Node | None = None

    async def refresh(self) -> None:
        """Read it again; while the API does not answer, the last state is kept."""
        try:
            self._node = await self._client.get(NODES, self._name)
        except NotFound:
            self._node = None
        except (ApiError, ClusterUnreachable) as error:
            _log.warning("node_not_read", node=self._name, error=str(error))

    @property
    def is_known(self) -> bool:
        """Whether it has been read."""
        return self._node is not None

    @property
    def owner(self) -> OwnerReference | None:
        """The reference that lets objects vanish with the node."""
        if self._node is None:
            return None
        return OwnerReference(
            api_version="v1", kind="Node", name=self._name, uid=self._node.metadata.uid
        )

    @property
    def annotations(self) -> Mapping[str, str]:
        """Its annotations."""
        return self._node.metadata.annotations if self._node is not None else {}

    @property
    def kubelet_url(self) -> str | None:
        """Where the kubelet serves, if the Node tells."""
        status = self._node.status if self._node is not None else None
        if status is None:
            return None
        hosts = {one.type: one.address for one in status.addresses}
        host = hosts.get("InternalIP") or hosts.get("ExternalIP")
        ports = status.daemon_endpoints
        endpoint = ports.kubelet_endpoint if ports is not None else None
        # An API server fills in 0 where a kubelet has told no port yet.
        port = endpoint.port if endpoint is not None else 0
        if not host or not port:
            return None
        return f"https://{f'[{host}]' if ':' in host else host}:{port}"

    @property
    def kubelet_version(self) -> str | None:
        """The version that the kubelet reports, such as ``v1.35.7``."""
        info = self._node.status.node_info if self._node is not None else None
        return info.kubelet_version or None if info is not None else None
