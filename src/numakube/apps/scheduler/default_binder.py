"""The plugin that binds pods through the API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.apps.ordered_binds import Result, bind
from numakube.errors import ConfigError
from numakube.kube.client import Client
from numakube.scheduling.assembly import DEFAULT_BINDER
from numakube.scheduling.framework.bind_annotations import annotations_of
from numakube.scheduling.framework.plugins import Bind
from numakube.scheduling.framework.registry import Service
from numakube.scheduling.framework.status import SUCCESS, Code, Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.framework.registry import Handle
    from numakube.scheduling.snapshot.pods import PodInfo

CLIENT: Final = Service[Client]("client")
"""What plugins reach the API server by."""


class DefaultBinder(Bind):
    """Binds by the ``binding`` subresource; the status' detail is a `ordered_binds.Bound`."""

    name = DEFAULT_BINDER

    def __init__(self, client: Client) -> None:
        self._client = client

    @classmethod
    def make(cls, args: Mapping[str, object], handle: Handle) -> DefaultBinder:
        """Make the plugin."""
        client = handle.services.get(CLIENT)
        if client is None:
            raise ConfigError("there is no API server to bind pods at")
        return cls(client)

    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Bind *pod* to *node*, with the annotations that plugins left for it."""
        bound = await bind(self._client, pod, node, annotations=annotations_of(state))
        if bound.result is Result.BOUND:
            return SUCCESS
        return Status(Code.ERROR, (bound.reason,), detail=bound)
