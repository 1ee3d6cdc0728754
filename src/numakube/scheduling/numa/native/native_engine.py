"""Native mode as an engine of the NUMA plugin."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias
from weakref import WeakKeyDictionary

from numakube.api.pod_resources import has_pod_level_resources
from numakube.api.strictness import Strictness, strictness_of
from numakube.scheduling.arrays import picked, uniform
from numakube.scheduling.framework.cycle_state import StateKey
from numakube.scheduling.framework.plugins import MAX_NODE_SCORE
from numakube.scheduling.framework.status import SUCCESS
from numakube.scheduling.numa.alignment_refusal import AlignmentRefusal, AlignmentRefusalGroup
from numakube.scheduling.numa.native.model_check import (
    DeviceForecasts,
    ModelCheck,
    blended,
    blended_unknown,
    too_far,
    wants_pairs,
)
from numakube.scheduling.numa.native.native_options import Fidelity, NativeOptions
from numakube.scheduling.numa.native.node_batch import RuleColumns
from numakube.scheduling.numa.native.pod_wants import checks_of, wants_of
from numakube.scheduling.numa.native.reference_alignment import AlignmentFit, judge
from numakube.scheduling.numa.native.reference_alignment_score import score_node
from numakube.scheduling.numa.native.verdict_cache import (
    VerdictCache,
    blocked_refusal,
    broken_promise,
    counts_at,
    promised_score,
    status_of,
)
from numakube.scheduling.snapshot.pod_equivalence import kubelet_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.api.pod import Pod
    from numakube.kubelet.device_pairs import Prospect
    from numakube.kubelet.pod_demand import DemandRules
    from numakube.scheduling.arrays import Ratings, Rows
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.framework.status import Status, Verdicts
    from numakube.scheduling.numa.native.pod_wants import PodWants
    from numakube.scheduling.numa.native.reference_alignment_score import ScoreParts
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_table import ZoneTable

_Key: TypeAlias = tuple[bytes, Strictness]
_REMEMBERED_KINDS = 64
"""Kinds of pods whose answers are kept; each takes about 10 bytes a node."""
_CACHE: Final = StateKey["tuple[Snapshot, VerdictCache | None]"]("native-verdicts")


class NativeEngine:
    """Predicts what each node's kubelet will do with a pod; a `NumaEngine`."""

    # Three answers of rising cost and certainty. Counts over arrays refuse: such a refusal is a
    # proof, and settles nearly every node in microseconds. Counts accept too much, so the kubelet
    # model is asked, a thousand times dearer, but only about the nodes that would be chosen
    # (`confirm`). How close devices would be costs as much as that and only moves a score, so it is
    # asked about the best connected nodes. A model for every node would be simpler and exact, and a
    # cycle would take seconds; counts alone would bind pods that their kubelets reject.
    #
    # Verdicts belong to a table of zones and not to the engine: what-ifs judge copies of the
    # cluster with tables of their own, whose verdicts must not mix with those of the real one, nor
    # outlive the copy.

    def __init__(self, options: NativeOptions | None = None) -> None:
        self.options = options or NativeOptions()
        self._caches: WeakKeyDictionary[ZoneTable, VerdictCaches] = WeakKeyDictionary()
        self._model = ModelCheck(remembered=self.options.remembered_refusals)
        self._forecasts = DeviceForecasts(remembered=self.options.remembered_refusals)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Tell whether *node* can take *pod*, from counts."""
        del state
        verdict = self.judge(pod, node)
        return _status(verdict) if isinstance(verdict, AlignmentRefusal) else SUCCESS

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Tell which of *rows* can take *pod*, from counts; ``None`` if all of them can."""
        cache = self._cache_for(pod, snapshot)
        state.write(_CACHE, (snapshot, cache))
        return None if cache is None else cache.verdicts(snapshot, rows)

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Rate *node* from 0 (it promises too little) to `MAX_NODE_SCORE`."""
        del state
        if wants_nothing(pod):
            return MAX_NODE_SCORE
        counts = counts_at(node)
        score = promised_score(self.strictness_of(pod), None if counts is None else counts.rules)
        if score is None:
            parts = self.explain_score(pod, node)
            score = parts.total(self.options) if parts is not None else 0
        if not wants_pairs(pod):
            return score
        return self._forecasts.rated(pod, node, score, self.options.closeness_weight)

    def score_all(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Ratings:
        """Rate the nodes at *rows*, all of which passed the filter."""
        seen, cache = state.read(_CACHE) or (None, None)
        if seen is not snapshot:
            cache = self._cache_for(pod, snapshot)
        if cache is None:
            return uniform(MAX_NODE_SCORE, len(rows))
        scores, weight = picked(cache.scores, rows), self.options.closeness_weight
        if not cache.wants_pairs:
            return scores
        mixed = blended_unknown(weight).take(scores)
        connected = cache.columns.connected(rows)
        if connected.size:
            some = scores[connected]
            worths = self._forecasts.worth_of_all(
                pod, snapshot, rows[connected], some, cache.worths
            )
            mixed[connected] = blended(some, worths, weight)
        return mixed

    def confirm(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Ask the kubelet model whether *node* will admit *pod*, with devices that are close."""
        del state
        if self.options.fidelity is Fidelity.EXACT:
            answer = self._model.check(pod, node)
            if isinstance(answer, AlignmentRefusal):
                return _status(answer)
        asked = self.strictness_of(pod)
        far = too_far(asked, self.foresee(pod, node)) if asked.closeness is not None else None
        return SUCCESS if far is None else _status(far)

    def foresee(self, pod: PodInfo, node: NodeInfo) -> tuple[Prospect, ...] | None:
        """Return how close the devices of *pod* will be; ``None`` if that is not known."""
        return self._forecasts.of(pod, node)

    def judge(self, pod: PodInfo, node: NodeInfo) -> AlignmentFit | AlignmentRefusal:
        """Return what counts say of one node, as a value."""
        wants_for = wants_by_rules(pod)
        if wants_nothing(pod):
            return AlignmentFit()
        if node.numa is not None and node.numa.blocked:
            return blocked_refusal(node)
        counts = counts_at(node)
        broken = broken_promise(self.strictness_of(pod), None if counts is None else counts.rules)
        if broken is not None:
            return broken
        return AlignmentFit() if counts is None else judge(wants_for(counts.rules.demand), counts)

    def strictness_of(self, pod: PodInfo) -> Strictness:
        """Return what is done about nodes that promise less than *pod* wants."""
        default = self.options.strictness
        asked = pod.memo(
            ("strictness", default), lambda pod: strictness_of(pod.metadata.annotations, default)
        )
        if asked.closeness is None or asked.mistakes or wants_pairs(pod):
            return asked
        return replace(asked, closeness=None)

    def explain_score(self, pod: PodInfo, node: NodeInfo) -> ScoreParts | None:
        """Return the parts of a node's score; ``None`` for a node that has none."""
        counts = counts_at(node)
        fit = self.judge(pod, node)
        if counts is None or isinstance(fit, AlignmentRefusal):
            return None
        checks = checks_of(wants_by_rules(pod)(counts.rules.demand), counts.rules)
        return score_node(checks, counts, fit, self.options.typical)

    def _cache_for(self, pod: PodInfo, snapshot: Snapshot) -> VerdictCache | None:
        caches = self._caches.get(snapshot.zones)
        if caches is None:
            caches = self._caches[snapshot.zones] = VerdictCaches(self.options)
        return caches.up_to_date(pod, self.strictness_of(pod), snapshot)


class VerdictCaches:
    """The verdict caches of one cluster, by what pods demand."""

    def __init__(self, options: NativeOptions) -> None:
        self._options = options
        self._columns = RuleColumns()
        self._by_key: OrderedDict[_Key, VerdictCache | None] = OrderedDict()

    def up_to_date(
        self, pod: PodInfo, asked: Strictness, snapshot: Snapshot
    ) -> VerdictCache | None:
        """Return the cache of pods like *pod*, up to date; ``None`` if they want nothing."""
        key = kubelet_key(pod), asked
        if key not in self._by_key:
            self._open(key, pod)
        self._by_key.move_to_end(key)
        cache = self._by_key[key]
        if cache is not None:
            self._columns.update(snapshot)
            cache.update(snapshot)
        return cache

    def _open(self, key: _Key, pod: PodInfo) -> None:
        wants = None if wants_nothing(pod) else wants_by_rules(pod)
        options = self._options
        if key[1] is not options.strictness:
            options = replace(options, strictness=key[1])
        pairs = wants_pairs(pod)
        self._by_key[key] = wants and VerdictCache(self._columns, wants, options, wants_pairs=pairs)
        if len(self._by_key) > _REMEMBERED_KINDS:
            self._by_key.popitem(last=False)


def wants_nothing(pod: PodInfo) -> bool:
    """Tell whether no kubelet aligns anything of *pod*."""
    if pod.memo("pod-level-resources", has_pod_level_resources):
        return False
    return not pod.memo("numa-wants", wants_of)


def wants_by_rules(pod: PodInfo) -> Callable[[DemandRules], PodWants]:
    """Return what *pod* wants, by how a kubelet reads it; differs for pod-level resources only."""
    if not pod.memo("pod-level-resources", has_pod_level_resources):
        wants = pod.memo("numa-wants", wants_of)
        return lambda rules: wants

    def read(rules: DemandRules) -> PodWants:
        def make(pod: Pod) -> PodWants:
            return wants_of(pod, rules)

        return pod.memo(("numa-wants", rules), make)

    return read


def _status(refusal: AlignmentRefusal) -> Status:
    return status_of(AlignmentRefusalGroup(1, refusal))
