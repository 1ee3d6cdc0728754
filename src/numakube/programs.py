"""The programs of numakube that run until they are stopped: one line for each, as plain data.

The command line, the lab and the manifests read this table; what a program does is in
``numakube.apps.<name>``, which is imported when the program is run.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramEntry:
    """One program.

    Attributes:
        name: what it is called on the command line.
        summary: what it does, in one sentence.
        port: where it serves health and metrics unless told otherwise.
        extra: the extra of the package that brings the libraries it needs; empty if none.
        on_every_node: whether it runs on every node, where memory counts.
    """

    name: str
    summary: str
    port: int
    extra: str = ""
    on_every_node: bool = False


PROGRAMS: Final[Mapping[str, ProgramEntry]] = MappingProxyType(
    {
        entry.name: entry
        for entry in (
            ProgramEntry(name="scheduler", summary="Schedule pods by NUMA topology.", port=10259),
            ProgramEntry(
                name="extender", summary="Answer a stock kube-scheduler's calls.", port=10263
            ),
            ProgramEntry(
                name="exporter",
                summary="Publish what this node's NUMA zones have and have left.",
                port=2112,
                extra="exporter",
                on_every_node=True,
            ),
            ProgramEntry(
                name="enforcer",
                summary="Give containers what a scheduler allotted to them.",
                port=2114,
                extra="enforcer",
                on_every_node=True,
            ),
            ProgramEntry(
                name="sriov",
                summary="Offer PCI devices to this node's kubelet.",
                port=2113,
                extra="sriov",
                on_every_node=True,
            ),
            ProgramEntry(
                name="operator",
                summary="Run exporters and a scheduler as two custom resources describe.",
                port=8081,
            ),
            ProgramEntry(
                name="webhook", summary="Refuse pods whose NUMA annotations are wrong.", port=8443
            ),
            ProgramEntry(
                name="gc",
                summary="Remove NodeResourceTopology objects of nodes that have vanished.",
                port=8080,
            ),
            ProgramEntry(
                name="admission-check",
                summary="Let queued work start only when all of its pods fit.",
                port=8082,
            ),
            ProgramEntry(
                name="rebalancer",
                summary="Move a few pods an hour so that others fit.",
                port=8083,
            ),
            ProgramEntry(
                name="dashboard",
                summary="Serve pages that show a cluster by NUMA zone.",
                port=8090,
            ),
        )
    }
)
