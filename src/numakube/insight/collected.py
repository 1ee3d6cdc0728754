"""What was read from a cluster, as bytes: the one thing that live tools and bundles share.

Each file is a Kubernetes list as the API server gave it (``nodes.json``), the configuration of a
kubelet (``configz/<node>.json``), or what a scheduler tells of itself
(``scheduler/<name>/cache.json``). What could not be read is in ``errors.json``, with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

NODES: Final = "nodes"
PODS: Final = "pods"
TOPOLOGIES: Final = "noderesourcetopologies"
TOPOLOGY_UPDATES: Final = "noderesourcetopologyupdates"
NAMESPACES: Final = "namespaces"
EVENTS: Final = "events"
LEASES: Final = "leases"
DAEMON_SETS: Final = "daemonsets"
DEPLOYMENTS: Final = "deployments"
PRIORITY_CLASSES: Final = "priorityclasses"

POD_GROUPS: Final = "podgroups"
"""Of three groups, each with a file of its own; see `list_name`."""
NETWORK_LEVELS: Final = "topologies"
"""Of Kueue and of KAI, likewise."""

RESOURCE_CLAIMS: Final = "resourceclaims"
RESOURCE_SLICES: Final = "resourceslices"
CLAIM_TEMPLATES: Final = "resourceclaimtemplates"

ROLES: Final = "roles"
ROLE_BINDINGS: Final = "rolebindings"
CLUSTER_ROLES: Final = "clusterroles"
CLUSTER_ROLE_BINDINGS: Final = "clusterrolebindings"

CONFIGZ: Final = "configz"
SCHEDULER: Final = "scheduler"
SCHEDULER_CONFIG: Final = "scheduler/configz"
"""Of what schedulers tell, their configurations alone."""

VERSION: Final = "version.json"
META: Final = "meta.json"
ERRORS: Final = "errors.json"

OTHER_KINDS: Final = "other kinds"
"""What a dump lacks that has some kinds alone, among what could not be read."""


@dataclass(frozen=True, slots=True)
class Collected:
    """Everything that was read.

    Attributes:
        taken_at: when the reading began, in RFC 3339.
        files: content by name, as a bundle holds them.
    """

    taken_at: str
    files: Mapping[str, bytes] = field(default_factory=lambda: MappingProxyType({}))


def list_name(plural: str, group: str) -> str:
    """Return what the list of a kind is called: its plural, with the group where others have it."""
    return f"{plural}.{group}" if plural in {POD_GROUPS, NETWORK_LEVELS} else plural


def list_file(plural: str) -> str:
    """Return the name of the file with all objects of a kind."""
    return f"{plural}.json"


def configz_file(node: str) -> str:
    """Return the name of the file with the configuration of a node's kubelet."""
    return f"{CONFIGZ}/{node}.json"


def scheduler_file(scheduler: str, what: str) -> str:
    """Return the name of the file with one thing that a scheduler tells of itself."""
    return f"{SCHEDULER}/{scheduler}/{what}.json"
