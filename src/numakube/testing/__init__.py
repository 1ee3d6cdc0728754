"""What tests of schedulers, plugins and controllers need: small worlds, clocks, and waiting.

`World` is a cluster of kubelet models for tests of decisions. Tests that need an API server, nodes
that run and faults use ``numakube_lab.testing``.
"""

from numakube.kube.clock import JumpingClock, ManualClock
from numakube.kube.scripted_server import ScriptedServer
from numakube.testing.pods import (
    GPU,
    bound,
    pod,
    pod_document,
    refusal_of,
    rejected,
    resources,
    running,
)
from numakube.testing.scheduler import Scheduler
from numakube.testing.waiting import elapse, turns, until, until_blocking
from numakube.testing.world import SHAPE, World, kubelet_settings

__all__ = [
    "GPU",
    "SHAPE",
    "JumpingClock",
    "ManualClock",
    "Scheduler",
    "ScriptedServer",
    "World",
    "bound",
    "elapse",
    "kubelet_settings",
    "pod",
    "pod_document",
    "refusal_of",
    "rejected",
    "resources",
    "running",
    "turns",
    "until",
    "until_blocking",
]
