"""What the lab adds to numakube."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from numakube.annexes import Added, Annex

ANNEX: Final = Annex(
    name="lab",
    summary="An embedded Kubernetes cluster with NUMA nodes, in one process.",
    extra="lab",
    follows="Kubernetes 1.37",
    pages=("how-to/run-a-lab.md", "contribute/lab-api.md"),
    commands=(
        Added(name="lab", summary="Run a cluster with NUMA nodes in one process.", section="Lab"),
        Added(
            name="demo",
            summary="Place the same pods with and without NUMA awareness.",
            section="Lab",
        ),
    ),
    replays=(Added(name="api", summary="Requests to an API server, against the lab's."),),
    examples=MappingProxyType(
        {
            "demo": ("",),
            "lab": ("up", "status", "down"),
            "lab up": ("", "--nodes 8 --machine dgx-h100 --kubelet policy=restricted", "--detach"),
            "lab down": ("", "--name other"),
            "lab status": ("", "--name lab -o json"),
            "lab node": ("add --count 2", "kill node-0", "start node-0"),
            "lab node add": ("--count 2 --machine dgx-h100",),
            "lab node set": ("node-0 --kubelet policy=restricted,scope=pod",),
            "lab node kill": ("node-0",),
            "lab node start": ("node-0",),
            "lab node restart": ("node-0",),
            "lab node pause": ("node-0",),
            "lab node resume": ("node-0",),
            "lab node path": ("node-0",),
            "lab node remove": ("node-0",),
            "lab fault": ("fail --code 503 --share 0.5", "list", "clear"),
            "lab fault fail": ("--code 503 --path /pods --times 3",),
            "lab fault delay": ("2 --method GET",),
            "lab fault drop": ("--share 0.1",),
            "lab fault list": ("",),
            "lab fault clear": ("",),
            "lab fault freeze-exporter": ("node-0",),
            "lab fault thaw-exporter": ("node-0",),
            "lab fault skew-reports": ("node-0 --amount cpu=-2",),
            "lab fault drop-watches": ("",),
            "lab fault expire-history": ("",),
            "replay api": ("requests.jsonl --check",),
        }
    ),
)
