"""What has happened on a node since its report, in the order in which its kubelet met it.

Where the kubelet puts a pod depends on who is there at that moment. So it matters whether a pod
ended before or after others were admitted. A kubelet reports both in order: a pod that it had
acknowledged when the end of a pod became known was admitted before, and all others after.

Where the node's exporter reports only surprises (`numakube.topology.foreseen_holdings`), a pod that
the kubelet has acknowledged is simply where its annotation says: the exporter would contradict.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.api.static_pods import static_uid
from numakube.scheduling.numa.caches.known_pods import PodStage
from numakube.topology.exact_report import uid_hash

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numakube.scheduling.numa.caches.known_pods import KnownPod
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.topology.exact_report import ExactReport, Holding, UidHash

_MOST_UNREPORTED: Final = 64
"""Pods that came and went between two reports: a dead exporter must not make them pile up."""


@dataclass(frozen=True, slots=True)
class Admission:
    """A pod is admitted, or refused."""

    pod: PodInfo


@dataclass(frozen=True, slots=True)
class Placement(Admission):
    """A pod has been admitted and holds what was foreseen."""

    holding: Holding


@dataclass(frozen=True, slots=True)
class Release:
    """What a pod holds is released; of one that is known from a report alone, its hash is given."""

    uid: str


Step: TypeAlias = Admission | Release


@dataclass(frozen=True, slots=True)
class Departure:
    """A pod that has ended, or was deleted before any report named it.

    Attributes:
        pod: as it was last known.
        after: uids of the pods that the kubelet had acknowledged before.
    """

    pod: KnownPod
    after: frozenset[str]


class Departures:
    """The pods that have ended on each node since its report, in the order in which they did."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, Departure]] = {}

    def on(self, node: str) -> Iterable[Departure]:
        """Return who has left *node*."""
        return self._by_node.get(node, {}).values()

    def note(self, pod: KnownPod, others: Iterable[KnownPod], exact: ExactReport) -> None:
        """Note that *pod* has ended while *others* were on the node."""
        departures = self._by_node.setdefault(pod.node, {})
        if pod.uid in departures:
            return
        after = frozenset(one.uid for one in others if one.stage is PodStage.TAKEN)
        departures[pod.uid] = Departure(pod, after)
        unreported = [uid for uid, one in departures.items() if not is_named(one.pod.info, exact)]
        for uid in unreported[:-_MOST_UNREPORTED]:
            del departures[uid]

    def note_early(self, pod: KnownPod, exact: ExactReport) -> None:
        """Note that *pod*, which had ended before we came to know it, is deleted now."""
        if is_named(pod.info, exact):
            self._by_node.setdefault(pod.node, {}).setdefault(pod.uid, Departure(pod, frozenset()))

    def reported(self, node: str, exact: ExactReport) -> None:
        """Forget those whom a new report of *node* does not name any more.

        A pod that was deleted by force may still run: if the report names it, it has not left.
        """
        left = {
            uid: one
            for uid, one in self._by_node.pop(node, {}).items()
            if one.pod.stage is PodStage.ENDED and is_named(one.pod.info, exact)
        }
        if left:
            self._by_node[node] = left

    def forget(self, node: str) -> None:
        """Forget who has left *node*."""
        self._by_node.pop(node, None)


def steps_since(
    exact: ExactReport,
    pods: Iterable[KnownPod],
    departures: Iterable[Departure],
    placed: Mapping[str, Placement] = MappingProxyType({}),
) -> tuple[Step, ...]:
    """Return what leads from the state in *exact* to that in which all of *pods* have arrived.

    Args:
        exact: the report.
        pods: in the order in which the kubelet meets them.
        departures: the pods that have ended.
        placed: those of *pods* that are known to hold what was foreseen, by uid.
    """
    departures = list(departures)
    left = {one.pod.uid for one in departures}
    pods = [pod for pod in pods if pod.uid not in placed]
    known = [pod for pod in pods if pod.uid not in left] + [one.pod for one in departures]
    arrivals = sorted(
        (
            pod
            for pod in known
            if not is_named(pod.info, exact)
            and (pod.stage is not PodStage.ENDED or pod.uid in left)
        ),
        key=lambda pod: pod.order,
    )
    # Pods that had ended before we came to know the node are released first.
    early = [pod for pod in known if pod.stage is PodStage.ENDED and pod.uid not in left]
    steps: list[Step] = [Release(pod.uid) for pod in early if is_named(pod.info, exact)]
    releases = _releases(arrivals, departures)
    steps.extend(Release(uid) for uid in releases.pop(0, ()))
    steps.extend(placed.values())
    for position, pod in enumerate(arrivals, 1):
        steps.append(Admission(pod.info))
        steps.extend(Release(uid) for uid in releases.get(position, ()))
    return tuple(steps)


def _releases(
    arrivals: Sequence[KnownPod], departures: Iterable[Departure]
) -> dict[int, list[str]]:
    """Return who is released before which of *arrivals* is admitted."""
    position = {pod.uid: index + 1 for index, pod in enumerate(arrivals)}
    releases: dict[int, list[str]] = {}
    for one in departures:
        before = max((position.get(uid, 0) for uid in (*one.after, one.pod.uid)), default=0)
        releases.setdefault(before, []).append(one.pod.uid)
    return releases


def unknown_in(
    exact: ExactReport, pods: Iterable[KnownPod], departures: Iterable[Departure]
) -> tuple[UidHash, ...]:
    """Return the pods that *exact* names and that we know nothing of."""
    known = {uid_hash(uid) for pod in pods for uid in _uids(pod.info)}
    known |= {uid_hash(one.pod.uid) for one in departures}
    return tuple(uid for uid in exact.pods if uid not in known)


def is_one_of(pod: PodInfo, hashes: Collection[UidHash]) -> bool:
    """Tell whether *pod* is among pods that a report names."""
    return any(uid_hash(uid) in hashes for uid in _uids(pod))


def is_named(pod: PodInfo, exact: ExactReport) -> bool:
    """Tell whether *exact* accounts for *pod*; the kubelet knows a static pod by another uid."""
    return any(map(exact.accounts_for, _uids(pod)))


def _uids(pod: PodInfo) -> tuple[str, ...]:
    static = static_uid(pod.pod)
    return (pod.uid,) if static is None else (pod.uid, static)
