"""The programs of the heart that run until they are stopped, and the feature gates: plain data.

The command line, the lab and the manifests read this table; what a program does is in
``numakube.apps.<name>``, which is imported when the program is run. Annexes have programs too:
`numakube.annexes.programs` has all, and `numakube.annexes.feature_gates` all gates.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
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


# Feature gates of our own: what may be switched off as a whole, or has to be switched on.
#
# They are spelt and staged as those of Kubernetes. An alpha feature is off and may change or go in
# any minor version, a beta feature is on and stays compatible while it can, a stable one has no
# gate. A gate allows; what is allowed is still asked for by its own flag. What only pods ask for,
# by an annotation, has no gate: it changes nothing for others.


class Stage(StrEnum):
    """How far a feature is, in the words of Kubernetes."""

    ALPHA = "ALPHA"
    BETA = "BETA"


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureGate:
    """One gate.

    Attributes:
        name: as ``--feature-gates`` has it.
        summary: what it allows.
        asked_for: the flag or program that asks for the feature.
        since: the version in which it reached its stage.
    """

    name: str
    summary: str
    asked_for: str
    stage: Stage
    since: str

    @property
    def default(self) -> bool:
        """Whether it is on unless somebody says otherwise."""
        return self.stage is Stage.BETA


FEATURE_GATES: Final = (
    FeatureGate(
        name="ReportUpdates",
        summary="Updates of reports in objects of their own, and reports of surprises only.",
        asked_for="run exporter --max-silence",
        stage=Stage.BETA,
        since="0.9",
    ),
    FeatureGate(
        name="SchedulerShards",
        summary="Several schedulers that share the nodes.",
        asked_for="run scheduler --shard",
        stage=Stage.BETA,
        since="0.9",
    ),
)
