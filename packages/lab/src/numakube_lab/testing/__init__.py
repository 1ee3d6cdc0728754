"""A cluster for the length of a test: API server, nodes, exporters, schedulers and faults.

For tests of decisions alone, ``numakube.testing.World`` is smaller and faster.
"""

from kube_lab_server import FaultKind, FaultRule
from numakube_lab.lab_cluster import uniform_plans
from numakube_lab.testing.cluster_for_tests import (
    LabCluster,
    LabSite,
    Opener,
    RunningScheduler,
    Site,
    SiteOptions,
    lab_cluster,
    lab_site,
    without_election,
)

__all__ = [
    "FaultKind",
    "FaultRule",
    "LabCluster",
    "LabSite",
    "Opener",
    "RunningScheduler",
    "Site",
    "SiteOptions",
    "lab_cluster",
    "lab_site",
    "uniform_plans",
    "without_election",
]
