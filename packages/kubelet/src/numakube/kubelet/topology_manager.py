"""The Topology Manager: ask every provider for hints, merge them, admit or refuse, allocate.

Init containers are treated in order, then app containers. In container scope each is aligned by
itself and sees what the ones before it took; in pod scope one merge serves the whole pod.
Follows ``pkg/kubelet/cm/topologymanager`` of Kubernetes 1.28 to 1.37.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from numakube.errors import KubeletStartError
from numakube.kubelet.admission_outcome import Rejected
from numakube.kubelet.manager_settings import OptionGates, read_bool, read_options
from numakube.kubelet.topology_hints import NOWHERE, Hint, NumaInfo, ProviderHints, axes_of, merge
from numakube.kubelet.wide_hints import AnyAxis, WideHints, merge_wide
from numakube.values.topology_policy import TopologyPolicy, TopologyScope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numakube.kubelet.admission_outcome import Failure
    from numakube.kubelet.admission_trace import AdmissionTrace
    from numakube.kubelet.kubelet_versions import Behaviour
    from numakube.kubelet.machine import Machine
    from numakube.kubelet.manager_settings import KubeletSettings
    from numakube.kubelet.pod_demand import ContainerDemand, PodDemand
    from numakube.kubelet.topology_hints import HintProvider


# The Topology Manager's policies: how hints are merged and whether the result is admitted.
#
# Kubernetes 1.26 to 1.37 behave the same.


class Decision(NamedTuple):
    """The merged hint and whether the policy admits it."""

    hint: Hint
    admitted: bool


def decide(policy: TopologyPolicy, answers: Iterable[ProviderHints], numa: NumaInfo) -> Decision:
    """Merge the providers' answers as *policy* does. Not for policy ``none``, which never asks."""
    axes = axes_of(answers)
    if policy is TopologyPolicy.SINGLE_NUMA_NODE:
        hint = _merge_single(axes, numa)
        return Decision(hint, hint.preferred)
    hint = merge_wide(axes, numa)
    return Decision(hint, hint.preferred or policy is TopologyPolicy.BEST_EFFORT)


def _merge_single(axes: Sequence[AnyAxis], numa: NumaInfo) -> Hint:
    """Merge only preferred hints of one node; a result that says "all nodes" is stored as none."""
    hint = merge([_single_nodes(axis) for axis in axes], numa)
    if hint.mask == numa.everywhere:
        return Hint(None, hint.preferred)
    return hint


def _single_nodes(axis: AnyAxis) -> list[Hint]:
    if isinstance(axis, WideHints):
        return axis.preferred_single_nodes()
    preferred = (hint for hint in axis if hint.preferred)
    return [hint for hint in preferred if hint.mask is None or hint.mask.bit_count() == 1]


MOST_NUMA_NODES = 8
"""The kubelet's work doubles with every NUMA node, so it refuses larger machines unless told."""

_CLOSEST = "prefer-closest-numa-nodes"
_MAX_NODES = "max-allowable-numa-nodes"

_REASON = "TopologyAffinityError"
_MESSAGE = "Resources cannot be allocated with Topology locality"
_BUBBLE_MESSAGES = {
    TopologyScope.POD: "Pod Scope pod with pod-level resources failed admission under pod-scope "
    "topology manager",
    TopologyScope.CONTAINER: "Pod Scope pod with pod-level resources failed admission with a "
    "container-level topology manager",
}


class TopologyManager:
    """Policy, scope and options in force, and the hints settled on for each container."""

    def __init__(self, machine: Machine, settings: KubeletSettings, behaviour: Behaviour) -> None:
        self.policy, self.scope = TopologyPolicy.NONE, TopologyScope.CONTAINER
        self.numa = NumaInfo.of(machine)
        self.hints: dict[str, dict[str, Hint]] = {}
        if settings.topology_policy == TopologyPolicy.NONE:
            return
        closest, max_nodes = _read_options(settings, behaviour)
        if closest and any(not node.distances for node in machine.nodes):
            raise KubeletStartError(
                "cannot discover NUMA topology: error getting NUMA distances from cadvisor"
            )
        if len(machine.nodes) > max_nodes:
            raise KubeletStartError(
                f"unsupported on machines with more than {max_nodes} NUMA Nodes"
            )
        self.policy = _policy(settings.topology_policy)
        self.scope = _scope(settings.topology_scope)
        # Among single nodes there is nothing to be close to.
        single = self.policy is TopologyPolicy.SINGLE_NUMA_NODE
        self.numa = NumaInfo.of(machine, closest=closest and not single)

    def clone(self) -> TopologyManager:
        """Return an independent copy of the state."""
        copy = object.__new__(TopologyManager)
        copy.__dict__.update(self.__dict__)
        copy.hints = {uid: dict(hints) for uid, hints in self.hints.items()}
        return copy

    def admit(
        self, pod: PodDemand, providers: Sequence[HintProvider], trace: AdmissionTrace | None
    ) -> Rejected | None:
        """Align and allocate *pod*; a rejection leaves behind what was allocated before it."""
        if self.policy is TopologyPolicy.NONE:
            return self._allocate_each(pod, providers, trace)
        if self.scope is TopologyScope.CONTAINER:
            return self._allocate_each(pod, providers, trace, align=True)
        if rejected := self._align(pod, None, providers, trace):
            return rejected
        if pod.pod_level is not None:
            return self._allocate_bubble(pod, providers)
        return self._allocate_each(pod, providers, trace)

    def hint_of(self, uid: str, container: str) -> Hint:
        """Return the hint stored for a container."""
        return self.hints.get(uid, {}).get(container, NOWHERE)

    def forget(self, uid: str) -> None:
        """Drop the hints of a pod."""
        self.hints.pop(uid, None)

    def _align(
        self,
        pod: PodDemand,
        container: ContainerDemand | None,
        providers: Sequence[HintProvider],
        trace: AdmissionTrace | None,
    ) -> Rejected | None:
        """Merge the hints for one container, or for the whole pod, and store the result."""
        # The policy looks at no others; a trace shows all.
        alone = self.policy is TopologyPolicy.SINGLE_NUMA_NODE and trace is None
        answers: list[ProviderHints] = [
            provider.pod_hints(pod, alone=alone)
            if container is None
            else provider.container_hints(pod, container, alone=alone)
            for provider in providers
        ]
        decision = decide(self.policy, answers, self.numa)
        if trace is not None:
            trace.record(
                pod, container, zip(providers, answers, strict=True), decision, self.policy
            )
        if not decision.admitted:
            bubble = pod.pod_level is not None
            message = _BUBBLE_MESSAGES[self.scope] if bubble else _MESSAGE
            return Rejected(_REASON, message, container.name if container else None)
        stored = self.hints.setdefault(pod.uid, {})
        for demand in (container,) if container else pod.containers:
            stored[demand.name] = decision.hint
        return None

    def _allocate_each(
        self,
        pod: PodDemand,
        providers: Sequence[HintProvider],
        trace: AdmissionTrace | None,
        *,
        align: bool = False,
    ) -> Rejected | None:
        """Let every provider allocate for each container, aligning it first if asked to."""
        for container in pod.containers:
            if align and (rejected := self._align(pod, container, providers, trace)):
                return rejected
            hint = self.hint_of(pod.uid, container.name)
            for provider in providers:
                if failure := provider.allocate(pod, container, hint):
                    if trace is not None:
                        trace.record_failure(provider, pod, container)
                    return _rejected(failure, container)
        return None

    def _allocate_bubble(
        self, pod: PodDemand, providers: Sequence[HintProvider]
    ) -> Rejected | None:
        first = pod.containers[0]
        for provider in providers:
            if failure := provider.allocate_pod(pod, self.hint_of(pod.uid, first.name)):
                return _rejected(failure, None)
        return None


def _rejected(failure: Failure, container: ContainerDemand | None) -> Rejected:
    return Rejected(failure.reason, failure.message, container.name if container else None)


def _policy(name: str) -> TopologyPolicy:
    try:
        return TopologyPolicy(name)
    except ValueError:
        raise KubeletStartError(f'unknown policy: "{name}"') from None


def _scope(name: str) -> TopologyScope:
    try:
        return TopologyScope(name)
    except ValueError:
        raise KubeletStartError(f'unknown scope: "{name}"') from None


def _read_options(settings: KubeletSettings, behaviour: Behaviour) -> tuple[bool, int]:
    """Return whether distances count and how many NUMA nodes are allowed."""
    gates = OptionGates(
        alpha=settings.gate("TopologyManagerPolicyAlphaOptions", behaviour.version),
        beta=settings.gate("TopologyManagerPolicyBetaOptions", behaviour.version),
        alpha_refusal="topology manager policy alpha-level options not enabled, "
        'but option "{name}" provided',
        beta_refusal="topology manager policy beta-level options not enabled, "
        'but option "{name}" provided',
        unknown='unknown Topology Manager Policy option: "{name}"',
    )
    readers: dict[str, Callable[[str, str], int]] = {_CLOSEST: read_bool, _MAX_NODES: _read_max}
    values = read_options(settings.topology_options, behaviour.topology_options, gates, readers)
    return bool(values.get(_CLOSEST, False)), values.get(_MAX_NODES, MOST_NUMA_NODES)


def _read_max(name: str, text: str) -> int:
    try:
        number = int(text) if text.isascii() and "_" not in text and text == text.strip() else None
    except ValueError:
        number = None
    if number is None:
        raise KubeletStartError(
            f'unable to convert policy option to integer "{name}": '
            f'strconv.Atoi: parsing "{text}": invalid syntax'
        )
    if number < MOST_NUMA_NODES:
        raise KubeletStartError(
            f'the minimum value of "{name}" should not be less than {MOST_NUMA_NODES}'
        )
    return number
