"""DaemonSets: one pod on every node that is meant to have one.

Follows kube-controller-manager 1.35: the pods name their node in their affinity and are bound by
the scheduler. A pod that failed is deleted and started again, after pauses that grow with each
failure on its node.

The pod of a daemon set on one node: whether there should be one, and what it looks like.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from numakube.api.affinity_and_taints import NAME_FIELD
from numakube.api.codec import convert
from numakube.api.meta import LabelSelector
from numakube.api.pod import Pod, has_ended
from numakube.api.selectors import selects
from numakube.kube import ObjectKey, key_of, reference_to
from numakube.kube.catalog import NODES, PODS
from numakube_lab.controllers.common.controller_loop import (
    NOTHING,
    Action,
    Create,
    Delete,
    LabController,
    Note,
    ObjectPlan,
    soonest,
    status_change,
)
from numakube_lab.controllers.common.pod_states import (
    NO_EXECUTE,
    claim,
    is_available,
    is_ready,
    is_terminating,
    is_wanted_node,
    named_nodes,
    owner_document,
    owner_key,
    owner_reference,
    phase_of,
    seconds_to_available,
    untolerated,
)
from numakube_lab.controllers.object_types import (
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    ControllerRevision,
    DaemonSet,
    DaemonSetStatus,
    RollingUpdate,
)
from numakube_lab.controllers.workloads.deployment_sets import share_of
from numakube_lab.controllers.workloads.template_revisions import (
    HASH_LABEL,
    latest_revision,
    pod_from_template,
    surplus_revisions,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from numakube.api.nodes import Node
    from numakube.api.pod import PodSpec
    from numakube.kube import Document, EventRecorder
    from numakube_lab.controllers.common.controller_loop import MirroredCluster


_PREFIX: Final = "node.kubernetes.io/"
_NO_EXECUTE_TOLERATED: Final = ("not-ready", "unreachable")
_NO_SCHEDULE_TOLERATED: Final = (
    "disk-pressure",
    "memory-pressure",
    "pid-pressure",
    "unschedulable",
)
_HOST_NETWORK_TOLERATED: Final = "network-unavailable"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class DaemonVerdict:
    """Whether a node is to have the daemon.

    Attributes:
        runs: a pod should be started there.
        stays: a pod that is there may go on.
    """

    runs: bool
    stays: bool


def verdict_on(node: Node, spec: PodSpec) -> DaemonVerdict:
    """Tell whether a daemon with *spec* (see `pod_spec`) belongs on *node*."""
    if not is_wanted_node(spec, node):
        return DaemonVerdict(runs=False, stays=False)
    if untolerated(node.spec.taints, spec.tolerations) is None:
        return DaemonVerdict(runs=True, stays=True)
    evicts = untolerated(node.spec.taints, spec.tolerations, (NO_EXECUTE,)) is not None
    return DaemonVerdict(runs=False, stays=not evicts)


def pod_spec(daemon_set: DaemonSet) -> PodSpec:
    """Return the spec that decides about nodes: the template's, with the daemon's tolerations."""
    spec = daemon_set.spec.template.get("spec") or {}
    tolerant = {**spec, "tolerations": _tolerations(spec)}
    about = f"DaemonSet {daemon_set.metadata.key}: spec.template"
    return convert(Pod, {"spec": tolerant}, about).spec


def target_of(pod: Pod) -> str:
    """Return the node that *pod* is on or is meant for."""
    if pod.spec.node_name:
        return pod.spec.node_name
    names = named_nodes(pod.spec)
    return min(names) if names else ""


def pod_for(daemon_set: DaemonSet, node: str, revision_hash: str) -> Document:
    """Return the pod for *node*."""
    pod = pod_from_template(
        daemon_set.spec.template,
        namespace=daemon_set.metadata.namespace,
        owner=owner_document(DAEMON_SETS, daemon_set),
        generate_name=f"{daemon_set.metadata.name}-",
        labels={HASH_LABEL: revision_hash},
    )
    spec = pod["spec"]
    placed = {"tolerations": _tolerations(spec), "affinity": _affinity(spec, node)}
    return {**pod, "spec": {**spec, **placed}}


def _affinity(spec: Document, node: str) -> Document:
    """Return the affinity of the template, with the requirements replaced by the node's name."""
    affinity: Document = spec.get("affinity") or {}
    wanted = {"key": NAME_FIELD, "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [wanted]}]}
    node_affinity = {**(affinity.get("nodeAffinity") or {}), _REQUIRED: required}
    return {**affinity, "nodeAffinity": node_affinity}


def _tolerations(spec: Document) -> list[Document]:
    """Return the tolerations of the template and those that every daemon has."""
    own = list(spec.get("tolerations") or ())
    return own + [each for each in _common(bool(spec.get("hostNetwork"))) if each not in own]


@lru_cache(maxsize=2)
def _common(host_network: bool) -> tuple[Document, ...]:
    no_schedule = _NO_SCHEDULE_TOLERATED + ((_HOST_NETWORK_TOLERATED,) if host_network else ())
    pairs = [(name, "NoExecute") for name in _NO_EXECUTE_TOLERATED]
    pairs += [(name, "NoSchedule") for name in no_schedule]
    return tuple(
        {"key": f"{_PREFIX}{name}", "operator": "Exists", "effect": effect}
        for name, effect in pairs
    )


BURST: Final = 250
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 900.0
"""Seconds for which a failed pod is left alone: doubling from one to the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedDaemonSet:
    """A daemon set and its surroundings.

    Attributes:
        pods: the pods that name it as their controller.
        orphans: pods of its namespace without a controller.
        pauses: seconds for which failed pods on a node are still to be left alone.
    """

    daemon_set: DaemonSet
    nodes: Sequence[Node]
    pods: Sequence[Pod] = ()
    orphans: Sequence[Pod] = ()
    revisions: Sequence[ControllerRevision] = ()
    pauses: Mapping[str, float] = field(default_factory=dict)
    now: datetime


def reconcile(seen: ObservedDaemonSet) -> ObjectPlan:
    """Decide what to do about a daemon set."""
    daemon_set = seen.daemon_set
    if daemon_set.spec.selector == LabelSelector():
        return NOTHING
    going = daemon_set.metadata.deletion_timestamp is not None
    claimed = claim(
        PODS,
        owner=owner_reference(DAEMON_SETS, daemon_set),
        selector=daemon_set.spec.selector,
        managed=seen.pods,
        orphans=seen.orphans,
        owner_is_going=going,
    )
    if claimed.changes:
        return ObjectPlan(claimed.changes)
    if going:
        return NOTHING
    latest = latest_revision(
        DAEMON_SETS,
        daemon_set,
        daemon_set.spec.template,
        _template_labels(daemon_set),
        seen.revisions,
    )
    if latest.actions:
        return ObjectPlan(latest.actions)
    look = _DaemonSetLook(seen, claimed.objects, latest.hash)
    actions = look.manage() or look.update()
    live = {latest.hash, *(pod.metadata.labels.get(HASH_LABEL, "") for pod in claimed.objects)}
    limit = daemon_set.spec.revision_history_limit
    cleaning = () if actions else surplus_revisions(seen.revisions, live, limit)
    return ObjectPlan((*actions, *cleaning, *look.report()), look.wait())


class _DaemonSetLook:
    """One look at a daemon set: its pods by node, and what is to be done about them."""

    def __init__(self, seen: ObservedDaemonSet, pods: Sequence[Pod], latest: str) -> None:
        self._seen = seen
        self._set = seen.daemon_set
        self._latest = latest
        self._by_node = _by_node(pods)
        spec = pod_spec(seen.daemon_set)
        self._verdicts: dict[str, DaemonVerdict] = {
            node.metadata.name: verdict_on(node, spec) for node in seen.nodes
        }

    def manage(self) -> tuple[Action, ...]:
        """Return what brings the right number of pods to every node."""
        actions: list[Action] = []
        for node, verdict in self._verdicts.items():
            pods = self._by_node.get(node, [])
            if verdict.runs and not pods:
                actions.append(self._create(node))
            elif not verdict.stays:
                actions += [self._delete(pod) for pod in pods if not is_terminating(pod)]
            else:
                actions += self._tidied(node, pods)
        for node, pods in self._by_node.items():
            if node not in self._verdicts:
                actions += [
                    self._delete(pod)
                    for pod in pods
                    if not pod.spec.node_name and not is_terminating(pod)
                ]
        return tuple(actions[:BURST])

    def _tidied(self, node: str, pods: Sequence[Pod]) -> list[Action]:
        """Return the deletion of pods that ended, and of all but one that run."""
        ended = [pod for pod in pods if has_ended(pod) and not is_terminating(pod)]
        if ended and not self._seen.pauses.get(node):
            return [step for pod in ended for step in (self._failure(pod, node), self._delete(pod))]
        running = [pod for pod in pods if not has_ended(pod) and not is_terminating(pod)]
        keep = self._keepers(running)
        return [self._delete(pod) for pod in running if pod not in keep]

    def _keepers(self, running: Sequence[Pod]) -> list[Pod]:
        """Return the oldest pod; with surging, the oldest of each, old and new."""
        ordered = sorted(running, key=lambda pod: pod.metadata.creation_timestamp or "")
        if not self._surge():
            return ordered[:1]
        new = [pod for pod in ordered if self._is_new(pod)]
        old = [pod for pod in ordered if not self._is_new(pod)]
        return new[:1] + old[:1]

    def update(self) -> tuple[Action, ...]:
        """Return the next step of a rolling update."""
        if self._set.spec.update_strategy.type != "RollingUpdate":
            return ()
        return self._surging() if self._surge() else self._replacing()

    def _replacing(self) -> tuple[Action, ...]:
        """Delete old pods, no more at a time than may be unavailable."""
        unavailable = 0
        must: list[Pod] = []
        may: list[Pod] = []
        for node in self._concerned():
            new, old = self._new_and_old(node)
            if old is None or new is not None:
                unavailable += new is None or old is not None or not self._is_available(new)
            elif not self._is_available(old):
                must.append(old)
                unavailable += 1
            else:
                may.append(old)
        spare = max(0, self._most_unavailable() - unavailable)
        return tuple(self._delete(pod) for pod in (*must, *may[:spare]))

    def _surging(self) -> tuple[Action, ...]:
        """Start new pods next to old ones, and delete those when the new are available."""
        surged = 0
        actions: list[Action] = []
        candidates: list[str] = []
        for node in self._wanted():
            new, old = self._new_and_old(node)
            if old is None:
                continue
            if new is None:
                if self._is_available(old):
                    candidates.append(node)
                else:
                    actions.append(self._create(node))
            elif self._is_available(new):
                actions.append(self._delete(old))
            else:
                surged += 1
        spare = max(0, self._surge() - surged)
        started = (self._create(node) for node in candidates[:spare])
        return (*actions, *self._leaving(), *started)

    def _leaving(self) -> tuple[Action, ...]:
        """Delete old pods that were only left where they are, as far as others make up for them."""
        wanted = set(self._wanted())
        left = [self._new_and_old(node) for node in self._concerned() if node not in wanted]
        old = [pod for new, pod in left if new is None and pod is not None]
        must = [pod for pod in old if not self._is_available(pod)]
        may = [pod for pod in old if self._is_available(pod)]
        shown = [old or new for new, old in map(self._new_and_old, self._concerned())]
        available = sum(pod is not None and self._is_available(pod) for pod in shown)
        spare = max(0, available - len(wanted))
        return tuple(self._delete(pod) for pod in (*must, *may[:spare]))

    def report(self) -> tuple[Action, ...]:
        """Return the change of the status, if it is to change."""
        wanted = self._wanted()
        first = [pods[0] for node in wanted if (pods := self._oldest_first(node))]
        available = sum(map(self._is_available, first))
        status: DaemonSetStatus = msgspec.structs.replace(
            self._set.status,
            desired_number_scheduled=len(wanted),
            current_number_scheduled=len(first),
            number_misscheduled=sum(
                bool(self._by_node.get(node))
                for node, verdict in self._verdicts.items()
                if not verdict.runs
            ),
            number_ready=sum(map(is_ready, first)),
            number_available=available,
            number_unavailable=len(wanted) - available,
            updated_number_scheduled=sum(map(self._is_new, first)),
            observed_generation=self._set.metadata.generation,
        )
        key, version = key_of(self._set), self._set.metadata.resource_version
        return status_change(DAEMON_SETS, key, version, self._set.status, status)

    def wait(self) -> float | None:
        """Return when to look again by the clock."""
        seconds = self._set.spec.min_ready_seconds
        waits = [
            seconds_to_available(pod, seconds, self._seen.now)
            for pods in self._by_node.values()
            for pod in pods
        ]
        return soonest([*self._seen.pauses.values(), *(each for each in waits if each)])

    # Small questions.

    def _wanted(self) -> list[str]:
        return [node for node, verdict in self._verdicts.items() if verdict.runs]

    def _concerned(self) -> list[str]:
        """Return the nodes that are to have a pod, and those that still have one."""
        return [node for node, one in self._verdicts.items() if one.runs or self._by_node.get(node)]

    def _oldest_first(self, node: str) -> list[Pod]:
        pods = self._by_node.get(node, [])
        return sorted(pods, key=lambda pod: pod.metadata.creation_timestamp or "")

    def _new_and_old(self, node: str) -> tuple[Pod | None, Pod | None]:
        running = [pod for pod in self._oldest_first(node) if not is_terminating(pod)]
        new = next((pod for pod in running if self._is_new(pod)), None)
        old = next((pod for pod in running if not self._is_new(pod)), None)
        return new, old

    def _is_new(self, pod: Pod) -> bool:
        return pod.metadata.labels.get(HASH_LABEL) == self._latest

    def _is_available(self, pod: Pod) -> bool:
        return is_available(pod, self._set.spec.min_ready_seconds, self._seen.now)

    def _rolling(self) -> RollingUpdate:
        return self._set.spec.update_strategy.rolling_update or RollingUpdate()

    def _surge(self) -> int:
        surge = self._rolling().max_surge
        return 0 if surge is None else share_of(surge, len(self._wanted()), round_up=True)

    def _most_unavailable(self) -> int:
        most = self._rolling().max_unavailable
        share = 1 if most is None else share_of(most, len(self._wanted()), round_up=True)
        return max(1, share)

    def _create(self, node: str) -> Create:
        document = pod_for(self._set, node, self._latest)
        return Create(resource=PODS, document=document, told=reference_to(DAEMON_SETS, self._set))

    def _delete(self, pod: Pod) -> Delete:
        told = reference_to(DAEMON_SETS, self._set)
        return Delete(resource=PODS, key=key_of(pod), uid=pod.metadata.uid, told=told)

    def _failure(self, pod: Pod, node: str) -> Note:
        word = phase_of(pod)
        return Note(
            about=reference_to(DAEMON_SETS, self._set),
            reason=f"{word}DaemonPod",
            message=f"Found {word.lower()} daemon pod {key_of(pod)} on node {node}, "
            f"will try to {'kill' if word == 'Failed' else 'delete'} it",
            warning=word == "Failed",
        )


def _by_node(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    found: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        # One that has ended and is deleted needs no attention.
        if not (is_terminating(pod) and has_ended(pod)):
            found[target_of(pod)].append(pod)
    return found


def _template_labels(daemon_set: DaemonSet) -> dict[str, str]:
    labels: dict[str, str] = (daemon_set.spec.template.get("metadata") or {}).get("labels") or {}
    return labels


@dataclass(slots=True)
class _Failures:
    """How often pods of one daemon set failed on one node, and until when to wait."""

    last_uid: str = ""
    count: int = 0
    until: float = 0.0


class DaemonSets(LabController):
    """Looks after all daemon sets."""

    name: ClassVar[str] = "daemonset-controller"

    def __init__(self, cluster: MirroredCluster, *, recorder: EventRecorder | None = None) -> None:
        super().__init__(cluster, recorder=recorder)
        self._sets = cluster.mirror(DAEMON_SETS)
        self._pods = cluster.mirror(PODS)
        self._nodes = cluster.mirror(NODES)
        self._revisions = cluster.mirror(CONTROLLER_REVISIONS)
        self._failures: dict[ObjectKey, dict[str, _Failures]] = {}
        self._known_nodes: dict[str, tuple[object, object]] = {}

    def watch(self) -> None:
        """Look again when a daemon set, what belongs to it, or what a node is like changes."""
        self.follow(self._sets)
        self.follow(self._revisions, lambda each: owner_key(each, "DaemonSet"))
        self.follow(self._pods, self._concerned)
        self.follow(self._nodes, self._all_if_it_matters)

    def plan(self, key: ObjectKey) -> ObjectPlan:
        """Decide what to do about one daemon set."""
        daemon_set = self._sets.get(key)
        if daemon_set is None:
            self._failures.pop(key, None)
            return NOTHING
        pods = self._pods.managed_by(daemon_set.metadata.uid)
        return reconcile(
            ObservedDaemonSet(
                daemon_set=daemon_set,
                nodes=tuple(self._nodes.store.values()),
                pods=pods,
                orphans=self._pods.orphans_in(key.namespace),
                revisions=self._revisions.managed_by(daemon_set.metadata.uid),
                pauses=self._pauses(key, pods),
                now=self.clock.now(),
            )
        )

    def _pauses(self, key: ObjectKey, pods: Iterable[Pod]) -> dict[str, float]:
        """Return for how long failed pods on nodes are left alone; each failure counts once."""
        now = self.clock.monotonic()
        known = self._failures.setdefault(key, {})
        for pod in pods:
            if not has_ended(pod) or is_terminating(pod):
                continue
            failures = known.setdefault(target_of(pod), _Failures())
            if failures.last_uid != pod.metadata.uid:
                pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0**failures.count)
                failures.last_uid, failures.until = pod.metadata.uid, now + pause
                failures.count += 1
        return {node: each.until - now for node, each in known.items() if each.until > now}

    def _concerned(self, pod: Pod) -> Iterable[ObjectKey]:
        metadata = pod.metadata
        if metadata.controller is not None:
            return owner_key(pod, "DaemonSet")
        return [
            key_of(one)
            for one in self._sets.in_namespace(metadata.namespace)
            if metadata.labels and selects(one.spec.selector, metadata.labels)
        ]

    def _all_if_it_matters(self, node: Node) -> Iterable[ObjectKey]:
        """Return all daemon sets if the node is new, gone or changed; heartbeats do not count."""
        name = node.metadata.name
        current = self._nodes.get(ObjectKey("", name))
        traits = None if current is None else (current.metadata.labels, current.spec)
        if traits is not None and self._known_nodes.get(name) == traits:
            return ()
        if traits is None:
            self._known_nodes.pop(name, None)
        else:
            self._known_nodes[name] = traits
        return list(self._sets.store.keys())
