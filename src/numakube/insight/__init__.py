"""What the tools know of a cluster and conclude from it: explain, doctor, map, top. Pure.

`explain` says why a pod is where it is or nowhere, `usage` how full zones are (``top``), `drawing`
draws a node (``map``), `doctor` finds what is wrong, `bundle_replay` decides again about the pods
of a bundle, and `pod_timeline` tells the story of one pod (``trace``). `scheduler_engine` fills the
scheduler's own engine with the `facts` of a cluster.

Everything is a pure function of `numakube.insight.collected.Collected`: raw answers of the API
server and of schedulers, just read or taken out of a bundle. So an answer given offline is the
answer that would have been given then and there.

What `__all__` names is public; it is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from numakube.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from numakube.insight.collected import (
        NODES,
        PODS,
        TOPOLOGIES,
        TOPOLOGY_UPDATES,
        Collected,
        configz_file,
        list_file,
    )
    from numakube.insight.facts import ClusterFacts, facts_of, model_of
    from numakube.insight.scheduler_engine import BindsNothing, configuration_in, engine_of, tried

__all__ = [
    "NODES",
    "PODS",
    "TOPOLOGIES",
    "TOPOLOGY_UPDATES",
    "BindsNothing",
    "ClusterFacts",
    "Collected",
    "configuration_in",
    "configz_file",
    "engine_of",
    "facts_of",
    "list_file",
    "model_of",
    "tried",
]

__getattr__ = lazy_names(
    __name__,
    {
        "collected": ("Collected NODES PODS TOPOLOGIES TOPOLOGY_UPDATES configz_file list_file"),
        "facts": "ClusterFacts facts_of model_of",
        "scheduler_engine": "engine_of BindsNothing configuration_in tried",
    },
)
