"""A belief made with the kubelet model: the reported state, and every pod admitted on top of it.

The model is only built on demand, and only the most recent ones are kept (`ModelShelf`):
what follows from it, free amounts and predicted places, is small and stays.

Pods that wait before they are bound come last, since the kubelet meets all others before them. So a
pod that is asked about is admitted before they are, and fits only if they still do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from numakube.kubelet.admission_outcome import Rejected
from numakube.scheduling.numa.caches.counts_belief import reduced, use_in_model, use_in_report
from numakube.scheduling.numa.caches.kubelet_states import KubeletStates, LearntArrival, SharedState
from numakube.scheduling.numa.caches.since_report import (
    AdmissionStep,
    PlacementStep,
    ReleaseStep,
    Step,
)
from numakube.scheduling.snapshot.pod_equivalence import kubelet_demand, kubelet_key
from numakube.scheduling.snapshot.zone_belief import TAKES_A_PLACE, KubeletRejection
from numakube.topology.exact_report import uid_hash
from numakube.topology.foreseen_holdings import foreseen_text, overlap
from numakube.topology.model_report import (
    frame_of,
    holding_of,
    moved,
    node_of,
    place,
    remove_pod,
    zones_of,
)
from numakube.topology.nrt_names import FORESEEN
from numakube.topology.numa_zones import Unusable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.api.nrt import NodeResourceTopology
    from numakube.kubelet.admission_outcome import Admitted
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.scheduling.numa.caches.kubelet_states import PerId
    from numakube.scheduling.numa.caches.latest_reports import LatestReport
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import ZoneUse
    from numakube.topology.exact_report import ExactReport, Holding, UidHash
    from numakube.topology.topology_view import NodeTopology
    from numakube.values.resources import Amounts

_MODELS_KEPT: Final = 256


@dataclass(frozen=True, slots=True)
class Outlook:
    """What follows from a model.

    Attributes:
        available: what is free in each zone of the report.
        uses: what each pod on its way will get, or how it will be rejected.
    """

    available: tuple[Amounts, ...]
    uses: Mapping[str, ZoneUse | KubeletRejection]


class ModelShelf:
    """Keeps the models of the beliefs that were asked last.

    Attributes:
        states: what is known of states that nodes have in common.
        turned_away: nodes where pods were refused that might fit after those that wait.
    """

    def __init__(self, size: int = _MODELS_KEPT) -> None:
        self.states = KubeletStates()
        self.turned_away: set[str] = set()
        self._size = size
        self._beliefs: dict[str, ExactBelief] = {}

    def keep(self, belief: ExactBelief) -> None:
        """Keep the model of *belief*, if it has one, and drop the one that was kept longest."""
        node = belief.topology.node
        self._beliefs.pop(node, None)
        if belief.has_model:
            self._beliefs[node] = belief
        if len(self._beliefs) > self._size:
            self._beliefs.pop(next(iter(self._beliefs))).drop_model()

    def forget(self, node: str) -> None:
        """Do not keep a model of *node* any more."""
        self._beliefs.pop(node, None)
        self.turned_away.discard(node)


@dataclass(frozen=True, slots=True)
class Basis:
    """What an exact belief rests on.

    Attributes:
        steps: what has happened since the report, is about to, or is assumed.
        unknown: pods of the report that may be gone, since nothing else is known of them.
        late: how many of the steps, the last ones, are admissions of pods that wait.
    """

    report: LatestReport
    exact: ExactReport
    steps: tuple[Step, ...] = ()
    unknown: tuple[UidHash, ...] = ()
    late: int = 0

    @property
    def early_steps(self) -> tuple[Step, ...]:
        """The steps before pods that wait are admitted."""
        return self.steps[: len(self.steps) - self.late]

    @property
    def late_pods(self) -> list[PodInfo]:
        """The pods that wait."""
        late = self.steps[len(self.steps) - self.late :]
        return [step.pod for step in late if isinstance(step, AdmissionStep)]

    def followed_by(self, *steps: Step) -> Basis:
        """Return what there is after *steps*, which come before pods that wait."""
        gone = {step.uid for step in steps if isinstance(step, ReleaseStep)}
        late = [AdmissionStep(pod) for pod in self.late_pods if pod.uid not in gone]
        return replace(self, steps=(*self.early_steps, *steps, *late), late=len(late))

    @property
    def differs_from_report(self) -> bool:
        """Tell whether anything has happened since the report."""
        return bool(self.steps)

    @property
    def incoming(self) -> list[PodInfo]:
        """The pods that the report does not name and that have not ended."""
        gone = {step.uid for step in self.steps if isinstance(step, ReleaseStep)}
        admissions = (step.pod for step in self.steps if isinstance(step, AdmissionStep))
        return [pod for pod in admissions if pod.uid not in gone]

    def holders(self) -> set[str]:
        """Return the hashed uids of the pods that hold something or are about to."""
        released = [step.uid for step in self.steps if isinstance(step, ReleaseStep)]
        # Of pods that nothing else is known of, only the hash is.
        gone = {*map(uid_hash, released), *released}
        return (self.exact.pods.keys() - gone) | {uid_hash(pod.uid) for pod in self.incoming}


@dataclass(slots=True)
class _Tried:
    """A pod that was admitted to a model, or refused."""

    pod: PodInfo
    model: KubeletNode
    outcome: Admitted | Rejected

    @property
    def use(self) -> ZoneUse | KubeletRejection:
        """What the pod holds in the model now, or why it does not."""
        if isinstance(self.outcome, Rejected):
            return KubeletRejection(self.outcome.reason, self.outcome.message)
        return use_in_model(self.model, self.pod.uid)


class ExactBelief:
    """What the kubelet model says."""

    # A belief never changes, but what follows from it costs from microseconds to milliseconds, and
    # thousands of nodes are asked in each cycle. So it works out each thing when it is first asked
    # for and keeps it. None of the layers does for another:
    #
    #   _outlook    what is free, and what pods on their way will get: what filters read. It is
    #               small and outlives the model; otherwise every cycle would build all models.
    #   _model      a kubelet in the believed state. Only the `ModelShelf`'s last ones are kept: one
    #               for each of thousands of nodes would take more memory than all the rest.
    #   _early      the same without the pods that wait, who come after a pod that is asked about.
    #   _tried      copies to which a pod was admitted. The node that is confirmed is reserved next:
    #               without them every pod would be admitted twice.
    #   _imagined   beliefs after one more pod, for gangs and what-ifs that ask in turns.
    #   _state      shared with nodes that differ in names alone, which then need no model at all.
    #   _reference  what the model has free where nothing has happened. Amounts are the report's,
    #               moved by what the model differs from that: a report may count what the model
    #               does not know, such as what the system reserves, and that must not be lost.
    #
    # Whatever is copied to another belief must follow from its basis: `rests_on` decides that.

    __slots__ = (
        "_early",
        "_imagined",
        "_model",
        "_nrt",
        "_outlook",
        "_reference",
        "_shelf",
        "_state",
        "_tried",
        "basis",
        "blocked",
    )

    def __init__(self, basis: Basis, *, shelf: ModelShelf, blocked: str = "") -> None:
        self.basis = basis
        self.blocked = blocked
        self._shelf = shelf
        self._model: KubeletNode | None = None
        self._early: KubeletNode | None = None
        self._nrt: NodeResourceTopology | None = None
        self._outlook: Outlook | None = None
        self._reference: PerId = {}
        self._tried: tuple[_Tried, ...] = ()
        self._imagined: tuple[tuple[PodInfo, ExactBelief], ...] = ()
        self._state: SharedState | None = None

    @property
    def topology(self) -> NodeTopology:
        """The report as it came."""
        return self.basis.report.topology

    @property
    def available(self) -> tuple[Amounts, ...]:
        """What is free in each zone once everything on its way has been admitted."""
        if self._outlook is None and not self.basis.differs_from_report:
            return tuple(zone.available for zone in self.topology.zones)
        return self.outlook().available

    @property
    def nrt(self) -> NodeResourceTopology:
        """The report as an object, with what is `available`."""
        if self._nrt is None:
            differs = self.basis.differs_from_report
            report = self.basis.report
            self._nrt = reduced(report, self.available) if differs else report.nrt
        return self._nrt

    @property
    def foreseen(self) -> Mapping[str, ZoneUse | KubeletRejection]:
        """What each pod on its way will get, or how it will be rejected, by uid."""
        return self.outlook().uses if self.basis.steps else {}

    def outlook(self) -> Outlook:
        """Return what follows from the model."""
        if self._outlook is None:
            self.model()
        # A model that cannot be built foresees nothing; `Predict` uses counts then.
        return self._outlook or Outlook(tuple(zone.available for zone in self.topology.zones), {})

    def frame(self) -> KubeletNode | None:
        """Return a model without pods and devices, for what never changes; ``None`` if none can be.

        It is shared: nobody may change it.
        """
        return frame_of(self.basis.exact)

    def model(self) -> KubeletNode | None:
        """Return the model in the believed state; clone it before changing it."""
        if self._model is None and self._build():
            self._shelf.keep(self)
        return self._model

    def _build(self) -> bool:
        """Make the model; tell whether it can be made."""
        model = node_of(self.basis.exact)
        if isinstance(model, Unusable):
            return False
        self._reference = _free(model)
        uses = _replay(model, self.basis)
        self._settle(model, uses)
        return True

    def rests_on(self, basis: Basis) -> bool:
        """Tell whether the same follows from *basis*, which it rests on from now on if so.

        A pod's status does not matter.
        """
        # A cache makes a basis anew for every event on a node, and most say the same as before. To
        # call those a change would drop model and outlook, and wake every waiting pod in vain. The
        # report is compared by identity, as equal ones are read once; the order of steps counts,
        # because a kubelet that meets two pods in another order gives them other places.
        mine, others = self.basis, basis
        same = (
            mine.report is others.report
            and len(mine.steps) == len(others.steps)
            and mine.late == others.late
            and mine.unknown == others.unknown
            and all(map(self._same_step, mine.steps, others.steps))
        )
        if same:
            self.basis = basis
        return same

    def with_others_late(self, basis: Basis) -> ExactBelief | None:
        """Return what follows from *basis*, if it differs in nothing but who waits."""
        mine = self.basis.late
        if mine == basis.late or not self.rests_on(replace(basis, late=mine)):
            return None
        belief = ExactBelief(basis, shelf=self._shelf, blocked=self.blocked)
        belief._model, belief._outlook = self._model, self._outlook
        belief._reference = self._reference
        self._shelf.keep(belief)
        return belief

    def _same_step(self, one: Step, other: Step) -> bool:
        if isinstance(one, ReleaseStep) or isinstance(other, ReleaseStep):
            return one == other
        if not _same_pod(one.pod, other.pod):
            return False
        if isinstance(one, PlacementStep):
            return isinstance(other, PlacementStep) and one.holding == other.holding
        return not isinstance(other, PlacementStep) or self.holds(one.pod.uid, other.holding)

    def holds(self, uid: str, holding: Holding) -> bool:
        """Tell whether a pod that is on its way will hold just *holding*."""
        model = self.model()
        return model is not None and uid in model.pods and holding_of(model, uid) == holding

    def annotations_for(self, uid: str) -> dict[str, str]:
        """Return what the binding of a pod that was reserved for has to write on it."""
        model = self.model() if self.topology.heartbeat is not None else None
        if model is None or uid not in model.pods:
            return {}
        return {FORESEEN: foreseen_text(model, uid)}

    def drop_model(self) -> None:
        """Give up the model, but not what followed from it; it is built again when needed."""
        self._model, self._early, self._tried, self._imagined = None, None, (), ()

    @property
    def has_model(self) -> bool:
        """Whether there is a model already."""
        return self._model is not None

    @property
    def state(self) -> SharedState:
        """The state that the kubelet is in; one of its own if pods wait, who must still fit."""
        if self._state is None and self.basis.late:
            self._state = SharedState()
        elif self._state is None:
            self._state = self._shelf.states.after(self.basis.exact, self.basis.steps)
        return self._state

    def outcome_of(self, pod: PodInfo) -> Admitted | Rejected | None:
        """Return what the kubelet will do with *pod* if it comes next; ``None`` without a model."""
        # Pods that wait before they are bound (such as for their gang) were promised their
        # room, but their kubelet will meet them after this pod. To admit it last would be simpler:
        # it would then get what they leave over, and be bound, and take their place. So it is
        # admitted before them, and refused if one of them does not fit any more.
        key = kubelet_key(pod)
        outcome = self.state.outcome(key)
        if outcome is not None:
            return outcome
        if any(kubelet_key(waiting) != key for waiting in self.basis.late_pods):
            outcome = self._try_early(pod)
        else:  # of pods that are alike, it does not matter which one comes last
            tried = self._try(pod)
            outcome = None if tried is None else tried.outcome
        if outcome is not None:
            self.state.learn_outcome(key, outcome)
        return outcome

    def followed_by(self, pod: PodInfo) -> ExactBelief | None:
        """Return what is believed when *pod* comes after all but those that wait.

        That is ``None`` without a model.
        """
        for imagined, belief in self._imagined:
            if _same_pod(imagined, pod):
                return belief
        after = self._after(pod)
        if after is not None:
            # Another may be asked about between the two.
            self._imagined = ((pod, after), *self._imagined[:1])
        return after

    def _after(self, pod: PodInfo) -> ExactBelief | None:
        basis = self.basis.followed_by(AdmissionStep(pod))
        belief = ExactBelief(basis, shelf=self._shelf, blocked=self.blocked)
        if basis.late:
            return belief if belief._build() else None
        # What an arrival leads to is learnt once for all kubelets in this state. It holds amounts
        # by zone and no model: the belief after it has none either until somebody asks for one.
        key = kubelet_key(pod)
        arrival = self.state.arrival(key)
        if arrival is None:
            tried = self._try(pod)
            if tried is None:
                return None
            use, belief._model = tried.use, tried.model
            tried.model.collect_garbage()
            arrival = LearntArrival(use, self._reference, _free(tried.model), SharedState())
            self._shelf.states.learn(self.state, key, arrival)
        belief._state, belief._reference = arrival.after, arrival.reported
        belief._conclude(arrival.free, {**self.foreseen, pod.uid: arrival.use})
        return belief

    def _try(self, pod: PodInfo) -> _Tried | None:
        """Admit *pod* to a copy of the model; a confirmed pod is usually reserved next."""
        for tried in self._tried:
            if _same_pod(tried.pod, pod):
                return tried
        model = self.model()
        if model is None:
            return None
        model = model.clone()
        tried = _Tried(pod, model, model.admit(kubelet_demand(pod, model)))
        # Another may be asked about between the two.
        self._tried = (tried, *self._tried[:1])
        return tried

    def _try_early(self, pod: PodInfo) -> Admitted | Rejected | None:
        """Admit *pod* before those that wait; refuse it if one of them would be refused then."""
        if self._early is None:
            early = node_of(self.basis.exact)
            if isinstance(early, Unusable) or self.model() is None:
                return None
            _replay(early, replace(self.basis, steps=self.basis.early_steps, late=0))
            early.collect_garbage()
            self._early = early
        model = self._early.clone()
        outcome = model.admit(kubelet_demand(pod, model))
        if not isinstance(outcome, Rejected) and self._refuses_late(model):
            outcome = TAKES_A_PLACE
        if isinstance(outcome, Rejected):
            self._shelf.turned_away.add(self.topology.node)
        return outcome

    def _refuses_late(self, model: KubeletNode) -> bool:
        """Let those that wait come to *model*; one that would be refused anyway does not count."""
        uses = {pod.uid: _admitted(model, AdmissionStep(pod)) for pod in self.basis.late_pods}
        return any(
            isinstance(use, KubeletRejection)
            and not isinstance(self.foreseen.get(uid), KubeletRejection)
            for uid, use in uses.items()
        )

    def places_of(self, uid: str) -> frozenset[int]:
        """Return the NUMA nodes on which a pod holds something."""
        use = self.foreseen.get(uid)
        holding = self.basis.exact.holding(uid)
        if holding is not None:
            use = use_in_report(self.basis.exact, holding)
        if use is None or isinstance(use, KubeletRejection):
            return frozenset()
        return frozenset(zone for zones in use for zone in zones)

    def without(self, uids: Iterable[str]) -> ExactBelief:
        """Return what is believed when those pods are gone; unknown ones free nothing."""
        gone = tuple(uids)
        basis = self.basis.followed_by(*map(ReleaseStep, gone))
        belief = ExactBelief(basis, shelf=self._shelf, blocked=self.blocked)
        if self.basis.late:
            belief._build()  # those that wait may get other places
            return belief
        model = self.model()
        if model is not None:
            model = model.clone()
            for uid in gone:
                remove_pod(model, uid)
            belief._reference = self._reference
            belief._settle(model, self.foreseen)
        return belief

    def _settle(self, model: KubeletNode, uses: Mapping[str, ZoneUse | KubeletRejection]) -> None:
        """Release what no pod holds any more and note what follows."""
        model.collect_garbage()
        self._model = model
        if self._outlook is None:
            self._conclude(_free(model), uses)

    def _conclude(self, free: PerId, uses: Mapping[str, ZoneUse | KubeletRejection]) -> None:
        """Note what follows if the model has so much *free*."""
        available = tuple(
            moved(zone, self._reference.get(zone.id, {}), free.get(zone.id, {}))
            for zone in self.topology.zones
        )
        self._outlook = Outlook(available, uses)


def rejection_of(belief: object, uid: str) -> KubeletRejection | None:
    """Return how the kubelet will reject a pod on its way, if that is foreseen."""
    use = belief.foreseen.get(uid) if isinstance(belief, ExactBelief) else None
    return use if isinstance(use, KubeletRejection) else None


def annotations_for(belief: object, uid: str) -> Mapping[str, str]:
    """Return what the binding of a pod has to write on it, if anything is foreseen for it."""
    return belief.annotations_for(uid) if isinstance(belief, ExactBelief) else {}


def _same_pod(one: PodInfo, other: PodInfo) -> bool:
    return one is other or (one.uid == other.uid and asks_the_same(one, other))


def asks_the_same(one: PodInfo, other: PodInfo) -> bool:
    """Tell whether two versions of a pod ask the kubelet for the same."""
    mine, others = one.pod.spec, other.pod.spec
    return (
        mine.containers == others.containers
        and mine.init_containers == others.init_containers
        and mine.resources == others.resources
    )


def _replay(model: KubeletNode, basis: Basis) -> dict[str, ZoneUse | KubeletRejection]:
    """Let what has happened happen to *model*; return what became of each pod that came."""
    # Two kinds of steps admit pods. An `AdmissionStep` lets the model choose, so its place depends
    # on who is there at that moment. A `PlacementStep` is known to be where its annotation says,
    # whatever the model would choose now; if a pod whose end comes later still holds that place, it
    # has to wait for the release. To apply releases first would be simpler, but then pods that were
    # admitted before an end would get room that they never had.
    _remove_disproved(model, basis)
    uses: dict[str, ZoneUse | KubeletRejection] = {}
    # Pods that are there, but whose place is that of a pod whose end comes later.
    waiting: list[PlacementStep] = []
    releases = sum(isinstance(step, ReleaseStep) for step in basis.steps)
    for step in basis.steps:
        if isinstance(step, ReleaseStep):
            releases -= 1
            remove_pod(model, step.uid)
            waiting, retried = [], waiting
        else:
            retried = [step] if isinstance(step, PlacementStep) else []
        # What is booked beyond the memory that there is would be missing after a release.
        crowded = bool(basis.unknown) and not releases
        for one in retried:
            if _placed(model, one, crowded=crowded):
                uses[one.pod.uid] = use_in_model(model, one.pod.uid)
            else:
                waiting.append(one)
        if isinstance(step, AdmissionStep) and not isinstance(step, PlacementStep):
            uses[step.pod.uid] = _admitted(model, step)
    for step in waiting:
        uses[step.pod.uid] = _admitted(model, step)
    return uses


def _remove_disproved(model: KubeletNode, basis: Basis) -> None:
    """Remove the pods that nothing is known of and whose CPUs or devices others hold by now."""
    placed = [step.holding for step in basis.steps if isinstance(step, PlacementStep)]
    for uid in basis.unknown:
        if any(overlap(basis.exact.pods[uid], holding) for holding in placed):
            model.remove(uid)


def _admitted(model: KubeletNode, step: AdmissionStep) -> ZoneUse | KubeletRejection:
    outcome = model.admit(kubelet_demand(step.pod, model))
    return _Tried(step.pod, model, outcome).use


def _placed(model: KubeletNode, step: PlacementStep, *, crowded: bool) -> bool:
    """Let a pod have what was foreseen for it, unless pods that are there have it.

    Which of the pods that nothing is known of have left their memory to it cannot be told: if it is
    *crowded*, they keep it too.
    """
    if place(model, step.pod.uid, step.holding):
        return True
    model.collect_garbage()
    return place(model, step.pod.uid, step.holding, crowded=crowded)


def _free(model: KubeletNode) -> PerId:
    return {zone.id: zone.available for zone in zones_of(model)}
