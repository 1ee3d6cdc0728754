"""The kinds that are read, and which of them a tool needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.apps.node_reports import NUMATOPOLOGIES
from numakube.apps.watched_kinds import RESOURCES
from numakube.insight.collected import CONFIGZ, SCHEDULER, list_name
from numakube.kube.catalog import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CORE_EVENTS,
    DAEMON_SETS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    NODE_RESOURCE_TOPOLOGIES,
    NODE_RESOURCE_TOPOLOGY_UPDATES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    ROLE_BINDINGS,
    ROLES,
)
from numakube.scheduling.framework.cluster_events import DRA, OBJECT_KINDS, POD_GROUP_KINDS

if TYPE_CHECKING:
    from numakube.kube.resource_types import Resource

LISTED: Final[tuple[Resource[Any], ...]] = (
    NODES,
    PODS,
    NODE_RESOURCE_TOPOLOGIES,
    NODE_RESOURCE_TOPOLOGY_UPDATES,
    NUMATOPOLOGIES,
    NAMESPACES,
    *(RESOURCES[kind.field] for kind in (*OBJECT_KINDS, *POD_GROUP_KINDS)),
    PRIORITY_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    CORE_EVENTS,
    LEASES,
    DAEMON_SETS,
    DEPLOYMENTS,
    ROLES,
    ROLE_BINDINGS,
    CLUSTER_ROLES,
    CLUSTER_ROLE_BINDINGS,
)
"""Every kind of which all objects are read."""

_POD_GROUPS: Final = [list_name(kind.plural, kind.group) for kind in POD_GROUP_KINDS]

OPTIONAL: Final = frozenset(
    {
        NODE_RESOURCE_TOPOLOGY_UPDATES.plural,
        NUMATOPOLOGIES.plural,
        RESOURCE_CLAIM_TEMPLATES.plural,
        *(kind.plural for kind in OBJECT_KINDS if kind.optional),
        *_POD_GROUPS,
    }
)
"""Kinds that many clusters do not have; nothing is amiss then."""

NEEDED: Final = frozenset({NODES.plural, PODS.plural})
"""Without these no tool has anything to say."""

ZONES: Final = frozenset(
    {
        *NEEDED,
        NODE_RESOURCE_TOPOLOGIES.plural,
        NODE_RESOURCE_TOPOLOGY_UPDATES.plural,
        NUMATOPOLOGIES.plural,
        *(kind.plural for kind in OBJECT_KINDS if kind.group == DRA),
    }
)
"""Who has what, and who uses it."""

SCHEDULING: Final = ZONES | {
    NAMESPACES.plural,
    PRIORITY_CLASSES.plural,
    RESOURCE_CLAIM_TEMPLATES.plural,
    *(kind.plural for kind in OBJECT_KINDS),
    *_POD_GROUPS,
}
"""What decides where a pod goes."""

EVERYTHING: Final = SCHEDULING | {
    *(list_name(resource.plural, resource.group) for resource in LISTED),
    CONFIGZ,
    SCHEDULER,
}
