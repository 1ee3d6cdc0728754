"""Facts as the files that they would have been read from."""

from __future__ import annotations

import msgspec

from numakube.insight import collected as names
from numakube.insight.collected import Collected
from numakube.insight.facts import ClusterFacts
from numakube.scheduling.framework.cluster_events import OBJECT_KINDS, POD_GROUP_KINDS


def collected_of(facts: ClusterFacts) -> Collected:
    """Return what a server would have given for *facts*."""
    lists = {
        names.NODES: tuple(facts.nodes.values()),
        names.PODS: facts.pods,
        names.TOPOLOGIES: tuple(facts.topologies.values()),
        names.NAMESPACES: tuple(facts.namespaces.values()),
    }
    for kind in (*OBJECT_KINDS, *POD_GROUP_KINDS):
        name = names.list_name(kind.plural, kind.group)
        lists[name] = tuple(getattr(facts.objects, kind.field).values())
    files = {
        names.list_file(plural): msgspec.json.encode({"items": items})
        for plural, items in lists.items()
    }
    files[names.ERRORS] = msgspec.json.encode(facts.unreadable)
    return Collected(facts.taken_at, files)
