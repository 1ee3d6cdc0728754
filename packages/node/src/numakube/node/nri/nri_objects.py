"""What a runtime says of pods and containers, and what a plugin says of their CPUs."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from numakube.node.nri.nri_messages import NRI

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

STOPPED: Final = 4
"""The state of a container that does not run any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuLimits:
    """CPUs, memory nodes and CPU time; what is empty or ``None`` is not said."""

    cpus: str = ""
    mems: str = ""
    quota: int | None = None
    period: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """A pod, with the labels and annotations that it had when it was started."""

    id: str
    uid: str
    namespace: str
    name: str
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    annotations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class NriContainer:
    """A container.

    Attributes:
        cpu: what the kubelet wants for it, or what it has.
        env: its environment, with what devices add to it, each as ``NAME=value``.
    """

    id: str
    sandbox_id: str
    name: str
    state: int = 0
    cpu: CpuLimits = CpuLimits()
    env: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What a container is to have from now on."""

    container_id: str
    cpu: CpuLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerAdjustment:
    """What a plugin says of the container that it is asked about, and what else is to change.

    Attributes:
        env: variables of the container, instead of those of the same names.
    """

    cpu: CpuLimits | None = None
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    others: Sequence[Update] = ()


def sandbox_of(message: Any) -> Sandbox:  # noqa: ANN401 - a generated class
    """Return the pod of a message."""
    return Sandbox(
        id=message.id,
        uid=message.uid,
        namespace=message.namespace,
        name=message.name,
        labels=dict(message.labels),
        annotations=dict(message.annotations),
    )


def container_of(message: Any) -> NriContainer:  # noqa: ANN401 - a generated class
    """Return the container of a message."""
    return NriContainer(
        id=message.id,
        sandbox_id=message.pod_sandbox_id,
        name=message.name,
        state=message.state,
        cpu=cpu_of(message.linux.resources),
        env=tuple(message.env),
    )


def cpu_of(resources: Any) -> CpuLimits:  # noqa: ANN401 - a generated class
    """Return what a message says of CPUs."""
    cpu = resources.cpu
    return CpuLimits(
        cpus=cpu.cpus,
        mems=cpu.mems,
        quota=cpu.quota.value if cpu.HasField("quota") else None,
        period=cpu.period.value if cpu.HasField("period") else None,
    )


def resources_for(cpu: CpuLimits) -> Any:  # noqa: ANN401 - a generated class
    """Return the message that says *cpu*."""
    message = NRI.LinuxResources()
    message.cpu.cpus = cpu.cpus
    message.cpu.mems = cpu.mems
    if cpu.quota is not None:
        message.cpu.quota.value = cpu.quota
    if cpu.period is not None:
        message.cpu.period.value = cpu.period
    return message


def update_for(update: Update) -> Any:  # noqa: ANN401 - a generated class
    """Return the message of an update; one that fails is not worth a failure of anything else."""
    return NRI.ContainerUpdate(
        container_id=update.container_id,
        linux=NRI.LinuxContainerUpdate(resources=resources_for(update.cpu)),
        ignore_failure=True,
    )


def update_of(message: Any) -> Update:  # noqa: ANN401 - a generated class
    """Return the update of a message."""
    return Update(container_id=message.container_id, cpu=cpu_of(message.linux.resources))
