"""The service account ``default``, which every namespace has."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from numakube.kube.catalog import SERVICE_ACCOUNTS
from numakube.kube.object_keys import ObjectKey
from numakube_lab.controllers.common.controller_actions import NOTHING, Create, Plan
from numakube_lab.controllers.common.loop import Controller
from numakube_lab.controllers.types.cluster_types import NAMESPACES, Metadata

if TYPE_CHECKING:
    from numakube.kube.event_recorder import EventRecorder
    from numakube_lab.controllers.common.mirrors import Cluster

ACCOUNTS = SERVICE_ACCOUNTS.decoded_as(Metadata)
DEFAULT = "default"


class ServiceAccounts(Controller):
    """Gives every namespace its default service account, and gives it back if it is deleted."""

    name: ClassVar[str] = "serviceaccount-controller"

    def __init__(self, cluster: Cluster, *, recorder: EventRecorder | None = None) -> None:
        super().__init__(cluster, recorder=recorder)
        self._namespaces = cluster.mirror(NAMESPACES)
        self._accounts = cluster.mirror(ACCOUNTS)

    def watch(self) -> None:
        """Look at namespaces when they, or their service accounts, change."""
        self.follow(self._namespaces)
        self.follow(self._accounts, lambda each: (ObjectKey("", each.metadata.namespace),))

    def plan(self, key: ObjectKey) -> Plan:
        """Decide about one namespace."""
        namespace = self._namespaces.get(key)
        if namespace is None or namespace.metadata.deletion_timestamp is not None:
            return NOTHING
        if self._accounts.get(ObjectKey(key.name, DEFAULT)) is not None:
            return NOTHING
        document = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": DEFAULT, "namespace": key.name},
        }
        return Plan((Create(resource=ACCOUNTS, document=document),))
