"""The programs of the heart that run until they are stopped: one line for each, as plain data.

The command line, the lab and the manifests read this table; what a program does is in
``numakube.apps.<name>``, which is imported when the program is run. Annexes have programs too:
`numakube.annexes.programs` has all.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


RUN: Final = "Run"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramEntry:
    """One program.

    Attributes:
        name: what it is called on the command line.
        summary: what it does, in one sentence.
        port: where it serves health and metrics unless told otherwise.
        extra: the extra of the package that brings the libraries it needs; empty if none.
        on_every_node: whether it runs on every node, where memory counts.
        section: where the help lists it as a command; with most others, below ``run``.
    """

    name: str
    summary: str
    port: int
    extra: str = ""
    on_every_node: bool = False
    section: str = RUN

    @property
    def path(self) -> str:
        """The words that call it."""
        return f"run {self.name}" if self.section == RUN else self.name


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
                name="operator",
                summary="Run exporters and a scheduler as two custom resources describe.",
                port=8081,
            ),
            ProgramEntry(
                name="gc",
                summary="Remove NodeResourceTopology objects of nodes that have vanished.",
                port=8080,
            ),
        )
    }
)
