"""What gives pods their resources: the model alone, or the model and device plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from numakube.kubelet.admission_outcome import Rejected

if TYPE_CHECKING:
    from numakube.api.pod import Pod
    from numakube_lab.nodes.kubelet_admission import Admission


class Aligner(Protocol):
    """Gives pods their resources."""

    async def align(self, pod: Pod) -> Rejected | None:
        """Give *pod* what it wants, or say why not."""
        ...

    async def prepare(self, pod: Pod) -> str | None:
        """Get what a pod holds ready for its containers; return what went wrong, if anything."""
        ...

    def forget(self, uid: str) -> None:
        """Drop what is remembered of a pod that is gone; unknown uids are fine."""
        ...


class ModelAligner:
    """Asks the model alone."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission

    async def align(self, pod: Pod) -> Rejected | None:
        """Give *pod* what it wants, or say why not."""
        outcome = self._admission.align(pod)
        return outcome if isinstance(outcome, Rejected) else None

    async def prepare(self, pod: Pod) -> str | None:
        """Return at once: there is nothing to get ready."""
        del pod
        return None

    def forget(self, uid: str) -> None:
        """Do nothing: others update the model."""
