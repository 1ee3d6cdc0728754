"""What is believed to be free in the zones of one node, and what a cache tells of its changes.

Caches (`numakube.scheduling.numa.caches`) make beliefs from reports and reservations; filters and
scores only read them. A belief never changes: a new report or reservation makes a new one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeGuard

from numakube.kubelet.admission_outcome import Rejected
from numakube.values.resources import is_memory

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from numakube.api.nrt import NodeResourceTopology
    from numakube.kubelet.admission_outcome import Admitted
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.topology.topology_view import NodeTopology
    from numakube.values.resources import Amounts


TAKES_A_PLACE: Final = Rejected(
    "TakesAPlace", "would take the place of a pod that waits to be bound"
)
"""What becomes of a pod after which one that waits to be bound would be refused."""


class NumaBelief(Protocol):
    """What a cache believes of one node."""

    @property
    def topology(self) -> NodeTopology | None:
        """The report as we read it, the same object while it lasts; ``None`` if of no use."""
        ...

    @property
    def available(self) -> tuple[Amounts, ...]:
        """What is free in each zone of the topology, in its order, reservations taken off."""
        ...

    @property
    def nrt(self) -> NodeResourceTopology:
        """The report as an object, reservations taken off ``available``: what upstream sees."""
        ...

    @property
    def blocked(self) -> str:
        """Why the node must not be used for now; empty if it may."""
        ...

    def model(self) -> KubeletNode | None:
        """Return the kubelet model in the believed state; ``None`` without exact data.

        It is shared: clone it before admitting anything.
        """
        ...

    def without(self, uids: Iterable[str]) -> NumaBelief:
        """Return what will be believed when those pods are gone; no credit for unknown places."""
        ...


class Believer(Protocol):
    """Knows what is believed of each node."""

    def belief(self, node: str) -> NumaBelief | None:
        """Return what is believed of *node*; ``None`` without a usable report."""
        ...


class Extensible(NumaBelief, Protocol):
    """A belief that can tell what will be when another pod comes."""

    def followed_by(self, pod: PodInfo) -> NumaBelief | None:
        """Return what is believed when *pod* comes next; ``None`` if unknown.

        It comes after all others but those that wait to be bound.
        """
        ...


class ForeseesOutcomes(NumaBelief, Protocol):
    """A belief with a model, which remembers how it took the pod that was asked about last.

    Reserving for that pod next need not ask the model again.
    """

    def outcome_of(self, pod: PodInfo) -> Admitted | Rejected | None:
        """Return what the kubelet will do with *pod* if it comes next; ``None`` without exact data.

        It is `TAKES_A_PLACE` if one that waits to be bound would not fit any more.
        """
        ...

    @property
    def state(self) -> Hashable:
        """Equal for nodes whose kubelets do the same with pods that are alike."""
        ...

    def frame(self) -> KubeletNode | None:
        """Return a model without pods and devices, for what never changes; nobody may change it."""
        ...


def is_extensible(belief: object) -> TypeGuard[Extensible]:
    """Tell whether *belief* is one; a runtime protocol would take a hundred times as long."""
    return hasattr(belief, "followed_by")


def foresees(belief: object) -> TypeGuard[ForeseesOutcomes]:
    """Tell whether *belief* is one, as fast."""
    return hasattr(belief, "outcome_of")


# ------------------------------------------------------------------------------------------------
# What a NUMA cache tells of an event: beliefs that changed, mispredictions, facts for the log.
#
# Reserving returns it, as do reports and pods that come; the caller hands it to `Cluster.take`,
# which reads the new beliefs, and passes the rest on to logs, metrics and the flight recorder.

ZoneUse: TypeAlias = "Mapping[tuple[int, ...], Amounts]"
"""What a pod holds exclusively, by NUMA node; memory and devices of several nodes by all of them.

Places where it holds nothing are missing.
"""


@dataclass(frozen=True, slots=True)
class KubeletRejection:
    """The pod is not admitted, in the kubelet's words."""

    reason: str
    message: str = ""


def came_true(predicted: ZoneUse | KubeletRejection, reported: ZoneUse, *, has_init: bool) -> bool:
    """Tell whether a pod holds what was predicted.

    What finished init containers hold of memory is given back when the next container starts, which
    may be before the first report that names the pod.
    """
    if isinstance(predicted, KubeletRejection) or not has_init:
        return predicted == reported
    expected, got = _flat(predicted), _flat(reported)
    return all(
        got.get(place, 0) == amount or (is_memory(place[1]) and got.get(place, 0) < amount)
        for place, amount in (dict.fromkeys(got, 0) | expected).items()
    )


def _flat(use: ZoneUse) -> dict[tuple[tuple[int, ...], str], int]:
    return {(zones, name): size for zones in use for name, size in use[zones].items()}


class MispredictionSeverity(StrEnum):
    """How wrong a prediction was."""

    VERDICT = "verdict"
    """Admitted instead of rejected, or the other way round."""
    ZONES = "zones"
    """Admitted, but on other zones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misprediction:
    """A prediction that did not come true, with both sides.

    Attributes:
        pod: ``namespace/name``.
        predicted: what the model said when the pod was on its way.
        reported: what the node said, or the pod's own status if it was refused.
    """

    node: str
    pod: str
    uid: str
    predicted: ZoneUse | KubeletRejection
    reported: ZoneUse | KubeletRejection

    @property
    def severity(self) -> MispredictionSeverity:
        """How wrong it was."""
        refused = (
            isinstance(self.predicted, KubeletRejection),
            isinstance(self.reported, KubeletRejection),
        )
        return MispredictionSeverity.VERDICT if any(refused) else MispredictionSeverity.ZONES


class ChangeCause(StrEnum):
    """Why a belief changed."""

    REPORT = "report"
    """A report came."""
    REPORT_GONE = "report-gone"
    """The report was deleted."""
    RESERVED = "reserved"
    """A pod of ours was put on the node."""
    RELEASED = "released"
    """A pod of ours was not bound after all."""
    POD = "pod"
    """A pod was seen on the node, moved on, or ended."""
    POD_GONE = "pod-gone"
    """A pod was deleted."""
    RESYNC = "resync"
    """Doubts about the node were settled."""


@dataclass(frozen=True, slots=True)
class BeliefChange:
    """One belief that changed.

    Attributes:
        frees: whether a pod that did not fit the node may fit it now.
    """

    node: str
    cause: ChangeCause
    frees: bool


class FactKind(StrEnum):
    """What a fact is about; the label of a metric."""

    UNUSABLE_REPORT = "unusable-report"
    """An NRT cannot be read; its node counts as one without data."""
    ODD_REPORT = "odd-report"
    """An NRT was read, but parts of it were passed over."""
    NO_EXACT_DATA = "no-exact-data"
    """An NRT has exact data that cannot be used; counts are used instead."""
    OLD_REPORT = "old-report"
    """A report came that is older than the one already known."""
    FOREIGN_POD = "foreign-pod"
    """A pod of another scheduler appeared; the node waits for the report that has it."""
    FINGERPRINT_MISMATCH = "fingerprint-mismatch"
    """A report is of other pods than those known."""
    TAKEN_UNCONFIRMED = "taken-unconfirmed"
    """A report was trusted although its fingerprint matches no known set of pods."""
    EXPORTER_GONE = "exporter-gone"
    """Nobody keeps a report up to date; pods that the API server does not know are forgotten."""
    REJECTION_FORESEEN = "rejection-foreseen"
    """The model says that the kubelet will reject a pod which is on its way to it."""


@dataclass(frozen=True, slots=True)
class Fact:
    """Something worth a line in a log.

    Attributes:
        pod: ``namespace/name`` of the pod it is about, if it is about one.
    """

    kind: FactKind
    node: str
    text: str
    pod: str = ""


@dataclass(frozen=True, slots=True)
class BeliefChanges:
    """What came of one event."""

    changes: tuple[BeliefChange, ...] = ()
    mispredictions: tuple[Misprediction, ...] = ()
    facts: tuple[Fact, ...] = ()

    def __bool__(self) -> bool:
        """Tell whether there is anything to tell."""
        return bool(self.changes or self.mispredictions or self.facts)

    def __add__(self, other: BeliefChanges) -> BeliefChanges:
        """Return both, in this order."""
        if not (self and other):
            return self or other
        return BeliefChanges(
            self.changes + other.changes,
            self.mispredictions + other.mispredictions,
            self.facts + other.facts,
        )

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes whose belief changed, each once."""
        return tuple(dict.fromkeys(change.node for change in self.changes))

    @property
    def freed(self) -> tuple[str, ...]:
        """The nodes on which a waiting pod may fit now, each once."""
        return tuple(dict.fromkeys(change.node for change in self.changes if change.frees))


NOTHING = BeliefChanges()
