"""Conditions on the exporter's own pod, which its readiness gates wait for.

``PodresourcesFetched`` and ``NodeTopologyUpdated``, as RTE sets them. A condition is written when
it changes, once; a write that failed is tried again with the next scan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from numakube.errors import ApiError, ClusterUnreachable
from numakube.kube.catalog import PODS
from numakube.kube.client import strategic_patch
from numakube.values.times import format_time

if TYPE_CHECKING:
    from numakube.kube.client import Client

FETCHED: Final = "PodresourcesFetched"
UPDATED: Final = "NodeTopologyUpdated"

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class PodCondition:
    """One condition; reason and message only if it is false."""

    type: str
    is_true: bool
    reason: str = ""
    message: str = ""


def fetched(*, ok: bool) -> PodCondition:
    """Return whether the kubelet could be read."""
    if ok:
        return PodCondition(FETCHED, is_true=True)
    return PodCondition(FETCHED, False, "ScanFailed", "failed to scan pod resources")


def updated(*, ok: bool) -> PodCondition:
    """Return whether the object could be written."""
    if ok:
        return PodCondition(UPDATED, is_true=True)
    message = "failed to update noderesourcetopology object"
    return PodCondition(UPDATED, False, "UpdateFailed", message)


class OwnPod:
    """The exporter's own pod."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._written: dict[str, PodCondition] = {}
        self._said = ""

    async def set(self, condition: PodCondition) -> None:
        """Set *condition* unless it is set already; failures are logged."""
        if self._written.get(condition.type) == condition:
            return
        entry = {
            "type": condition.type,
            "status": "True" if condition.is_true else "False",
            "reason": condition.reason,
            "message": condition.message,
            "lastTransitionTime": format_time(self._client.clock.now()),
        }
        patch = strategic_patch({"status": {"conditions": [entry]}})
        try:
            await self._client.patch(
                PODS, self._name, patch, namespace=self._namespace, subresource="status"
            )
        except (ApiError, ClusterUnreachable) as error:
            if str(error) != self._said:
                _log.warning("condition_not_set", condition=condition.type, error=str(error))
            self._said = str(error)
            return
        self._written[condition.type] = condition
