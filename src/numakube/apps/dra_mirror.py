"""ResourceSlices, ResourceClaims and DeviceTaintRules, kept equal to the server's, to be shown.

A cluster may not have these kinds, and a user may not be allowed to read them: nothing is shown of
devices then. Devices without the claims that hold some of them would all look free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.apps.watched_kinds import RESOURCES
from numakube.kube.reflector import Reflector
from numakube.scheduling.snapshot.cluster_objects import ClusterObjects

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.kube.client import Client
    from numakube.kube.store import Store

SLICES: Final = "resource_slices"
CLAIMS: Final = "resource_claims"
TAINT_RULES: Final = "device_taint_rules"
"""Fields of `ClusterObjects`."""


class DraMirror:
    """Mirrors of what says where devices of claims are, and who holds them."""

    def __init__(self, client: Client) -> None:
        self._reflectors: dict[str, Reflector[Any]] = {
            field: Reflector(client, RESOURCES[field], optional=True)
            for field in (SLICES, CLAIMS, TAINT_RULES)
        }

    @property
    def reflectors(self) -> tuple[Reflector[Any], ...]:
        """What has to run to keep the mirrors up to date."""
        return tuple(self._reflectors.values())

    @property
    def stores(self) -> Mapping[str, Store[Any]]:
        """The mirrors, by field of `ClusterObjects`."""
        return {field: one.store for field, one in self._reflectors.items()}

    def is_known(self) -> bool:
        """Tell whether claims have been read."""
        return self._reflectors[CLAIMS].synced.is_set()

    def objects(self) -> ClusterObjects:
        """Return what is known at this moment."""
        objects = ClusterObjects()
        if self.is_known():
            for field, store in self.stores.items():
                getattr(objects, field).update({one.metadata.key: one for one in store})
        return objects
