"""Which programs of ours, or that do the same, run in the cluster, by their pods' templates."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from numakube.api.selectors import selector_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.pod import Container, Pod
    from numakube.api.workloads import Workload
    from numakube.insight.facts import ClusterFacts


class ProgramRole(StrEnum):
    """What a process does."""

    EXPORTER = "exporter"
    SCHEDULER = "scheduler"
    EXTENDER = "extender"
    GC = "gc"


_OTHERS: Final = {
    "resource-topology-exporter": ProgramRole.EXPORTER,
    "nfd-topology-updater": ProgramRole.EXPORTER,
    "scheduler-plugins/kube-scheduler": ProgramRole.SCHEDULER,
    "noderesourcetopology-scheduler": ProgramRole.SCHEDULER,
    "nfd-gc": ProgramRole.GC,
}
"""Programs of others, by a word of their image or command."""


@dataclass(frozen=True, slots=True)
class Deployed:
    """A workload that runs one of the programs."""

    program: ProgramRole
    kind: str
    workload: Workload
    container: Container

    @property
    def namespace(self) -> str:
        """The namespace of the workload."""
        return self.workload.metadata.namespace

    @property
    def name(self) -> str:
        """The name of the workload."""
        return self.workload.metadata.name

    @property
    def wanted(self) -> int:
        """How many pods there should be."""
        if self.kind == "DaemonSet":
            return self.workload.status.desired_number_scheduled
        replicas = self.workload.spec.replicas
        return 1 if replicas is None else replicas

    @property
    def ready(self) -> int:
        """How many pods are ready."""
        status = self.workload.status
        return status.number_ready if self.kind == "DaemonSet" else status.ready_replicas

    def flag(self, name: str) -> str:
        """Return the value of a flag on the command line; empty if it is not there."""
        words = (*self.container.command, *self.container.args)
        for place, word in enumerate(words):
            if word.startswith(f"{name}="):
                return word.partition("=")[2]
            if word == name and place + 1 < len(words):
                return words[place + 1]
        return ""

    @property
    def scheduler_name(self) -> str:
        """What pods name to be scheduled by it, as far as its command line tells."""
        return self.flag("--scheduler-name") or self.flag("--leader-elect-resource-name")

    @property
    def is_ours(self) -> bool:
        """Whether it is numakube's, and not another program for the same purpose."""
        return is_ours(self.container)

    def pods(self, facts: ClusterFacts) -> Iterator[Pod]:
        """Yield the pods that the workload selects."""
        selector = selector_of(self.workload.spec.selector)
        for pod in facts.pods:
            same = pod.metadata.namespace == self.namespace
            if same and selector.matches(pod.metadata.labels):
                yield pod


def deployed(facts: ClusterFacts, *programs: ProgramRole) -> tuple[Deployed, ...]:
    """Return the workloads that run one of *programs*, or any."""
    kinds = {"DaemonSet": facts.daemon_sets, "Deployment": facts.deployments}
    found = (
        Deployed(program, kind, workload, container)
        for kind, workloads in kinds.items()
        for workload in workloads
        for container in workload.spec.template.spec.containers
        if (program := program_of(container)) is not None
    )
    return tuple(one for one in found if not programs or one.program in programs)


def program_of(container: Container) -> ProgramRole | None:
    """Return which program a container runs; ``None`` if another one."""
    words = (*container.command, *container.args)
    if is_ours(container):
        return next((ProgramRole(word) for word in words if word in set(ProgramRole)), None)
    told = " ".join((container.image, *container.command[:1]))
    return next((program for mark, program in _OTHERS.items() if mark in told), None)


def is_ours(container: Container) -> bool:
    """Tell whether a container runs numakube, by its image or its command."""
    image = container.image.rpartition("/")[2].partition("@")[0].partition(":")[0]
    command = container.command[0].rpartition("/")[2] if container.command else ""
    return "numakube" in (image, command)
