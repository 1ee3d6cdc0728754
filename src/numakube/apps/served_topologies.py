"""In which version and scope a cluster serves NodeResourceTopologies.

The API has had three shapes: objects in namespaces, version v1alpha1 (up to v0.0.10, 2021); of the
cluster, still v1alpha1 (v0.0.11 to v0.0.13); and v1alpha2 with attributes of the node (since
v0.1.0, 2023). A definition may be installed, upgraded or removed while we run. So every reader
asks here:

    resource = await served_topologies(client)    # for one list; NotFound if there are none

`numakube.apps.node_reports` has what reads and mirrors the objects.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from numakube.api.nrt import GROUP, PLURAL
from numakube.errors import Forbidden, NotFound
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES, served_in

if TYPE_CHECKING:
    from numakube.api.nrt import NodeResourceTopology
    from numakube.kube.client import Client
    from numakube.kube.resource_types import Resource

READABLE: Final = ("v1alpha2", "v1alpha1")
"""The versions that we read, the best first."""
NOT_SERVED: Final = f"the cluster serves {PLURAL}.{GROUP} in none of {', '.join(READABLE)}"

_NOT_FOUND: Final = 404


async def served_topologies(client: Client) -> Resource[NodeResourceTopology]:
    """Return the best of the versions that are served, and whether its objects have namespaces.

    Raises:
        NotFound: the cluster has none that we read.
    """
    for version in READABLE:
        try:
            found = await served_in(client, GROUP, version, PLURAL)
        except NotFound:
            continue
        except Forbidden:
            # Who may not ask what there is can still read what there usually is.
            return NODE_RESOURCE_TOPOLOGIES
        if found is not None:
            return replace(NODE_RESOURCE_TOPOLOGIES, version=version, namespaced=found.namespaced)
    raise NotFound(NOT_SERVED, code=_NOT_FOUND, reason="NotFound")
