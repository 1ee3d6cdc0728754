"""Checks of kubelets' configurations."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.api.koordinator.keys import RESOURCE_STATUS
from numakube.api.kubelet_config import config_problems, with_defaults
from numakube.errors import InvalidValue
from numakube.insight.doctor.findings import Finding, Rule, Severity, about_node
from numakube.insight.known_schedulers import numa_schedulers
from numakube.insight.misalignment import is_given_to_align
from numakube.topology.topology_view import NodeTopology
from numakube.values.quantity import Quantity, value
from numakube.values.resources import MEMORY, amounts_of
from numakube.values.times import SECOND, parse_duration
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.api.kubelet_config import KubeletConfiguration
    from numakube.api.nodes import Node
    from numakube.insight.facts import ClusterFacts


# How each kubelet is configured, by its own word or else by that of its report.


@dataclass(frozen=True, slots=True, kw_only=True)
class Managers:
    """The policies of one kubelet; ``None`` is an unknown one."""

    policy: str
    scope: str
    cpu_policy: str | None
    memory_policy: str | None

    @property
    def aligns(self) -> bool:
        """Whether the Topology Manager does anything."""
        return self.policy != TopologyPolicy.NONE

    @property
    def refuses(self) -> bool:
        """Whether the kubelet rejects pods that it cannot align."""
        return self.policy in (TopologyPolicy.RESTRICTED, TopologyPolicy.SINGLE_NUMA_NODE)


def managers_of(facts: ClusterFacts, node: str) -> Managers | None:
    """Return the policies of the kubelet of *node*; ``None`` if nothing tells them."""
    config = config_of(facts, node)
    if config is not None:
        return Managers(
            policy=config.topology_manager_policy,
            scope=config.topology_manager_scope,
            cpu_policy=config.cpu_manager_policy,
            memory_policy=config.memory_manager_policy,
        )
    view = facts.view(node)
    if not isinstance(view, NodeTopology) or view.policy_unknown:
        return None
    return Managers(
        policy=view.policy,
        scope=view.scope,
        cpu_policy=view.cpu_manager_policy,
        memory_policy=view.memory_manager_policy,
    )


def config_of(facts: ClusterFacts, node: str) -> KubeletConfiguration | None:
    """Return the kubelet's own configuration with its defaults; ``None`` if it was not read."""
    config = facts.kubelet_configs.get(node)
    return None if config is None else with_defaults(config)


def zone_count(facts: ClusterFacts, node: str) -> int | None:
    """Return how many NUMA nodes a node has; ``None`` if its report does not tell."""
    view = facts.view(node)
    return len(view.zones) if isinstance(view, NodeTopology) else None


_EDIT: Final = "in the kubelet's configuration file of the node, then restart the kubelet"
_SLOWEST_RECONCILE_SECONDS: Final = 10
_POOLS: Final[tuple[str, ...]] = (
    "machineconfiguration.openshift.io/role",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
)
"""Labels that say which nodes are meant to be alike."""
_TYPE: Final = "node.kubernetes.io/instance-type"
"""Nodes of one type are usually alike, but one may have two pools of them on purpose."""
_FEW: Final = 1 / 3
_MAX_ZONES: Final = "max-allowable-numa-nodes"

POLICY_NONE: Final = Rule(
    id="NUMA-KUBELET-POLICY-NONE",
    severity=Severity.WARNING,
    title="The Topology Manager is off where pods want alignment",
    why=(
        "Pods of a NUMA scheduler run there, but with the policy none the kubelet takes CPUs and"
        " devices from wherever they are free, and no scheduler can change that."
    ),
    fix=f"topologyManagerPolicy: single-numa-node   # {_EDIT}",
)
CPU_NOT_STATIC: Final = Rule(
    id="NUMA-KUBELET-CPU-NOT-STATIC",
    severity=Severity.WARNING,
    title="The Topology Manager is on, but no container gets CPUs of its own",
    why=(
        "With the CPU Manager policy none all containers share all CPUs, so the Topology Manager"
        " has no CPUs to align: it looks at devices and memory only."
    ),
    fix=(
        "cpuManagerPolicy: static\n"
        'reservedSystemCPUs: "0"   # some CPUs must be reserved\n'
        "# drain the node, stop the kubelet, delete /var/lib/kubelet/cpu_manager_state, start it"
    ),
)
MEMORY_OFF: Final = Rule(
    id="NUMA-KUBELET-MEMORY-OFF",
    severity=Severity.INFO,
    title="Memory is not aligned",
    why=(
        "The kubelet aligns CPUs and devices, but with the Memory Manager policy None memory and"
        " hugepages may come from any NUMA node."
    ),
    fix=(
        "memoryManagerPolicy: Static\n"
        "reservedMemory:   # sums up to kubeReserved + systemReserved + evictionHard\n"
        "- numaNode: 0\n"
        "  limits: {memory: 1Gi}"
    ),
)
RESERVED_MEMORY: Final = Rule(
    id="NUMA-KUBELET-RESERVED-MEMORY",
    severity=Severity.ERROR,
    title="Reserved memory does not add up",
    why=(
        "reservedMemory must be exactly kubeReserved + systemReserved + evictionHard. The kubelet"
        " checks it when it starts: it will not come back from its next restart."
    ),
    fix=f"# correct reservedMemory {_EDIT}",
)
INVALID: Final = Rule(
    id="NUMA-KUBELET-INVALID-CONFIG",
    severity=Severity.ERROR,
    title="A kubelet has a configuration that it refuses",
    why="The kubelet will not come back from its next restart.",
    fix=f"# correct the setting {_EDIT}",
)
NO_RESERVED_CPUS: Final = Rule(
    id="NUMA-KUBELET-NO-RESERVED-CPUS",
    severity=Severity.ERROR,
    title="The static CPU Manager has no CPUs reserved",
    why=(
        "The static policy needs at least one CPU for the system; without, the kubelet does not"
        " start."
    ),
    fix=f'reservedSystemCPUs: "0"   # {_EDIT}',
)
TOO_MANY_ZONES: Final = Rule(
    id="NUMA-KUBELET-TOO-MANY-ZONES",
    severity=Severity.ERROR,
    title="More NUMA nodes than the Topology Manager takes",
    why=(
        "Above 8 NUMA nodes the kubelet refuses to start with any policy but none, unless it is"
        " told how many to expect."
    ),
    fix=('topologyManagerPolicyOptions:\n  max-allowable-numa-nodes: "16"   # a number, not true'),
)
MIXED: Final = Rule(
    id="NUMA-KUBELET-MIXED-POLICIES",
    severity=Severity.WARNING,
    title="Nodes of one pool have kubelets of different policies",
    why=(
        "A pod is admitted by one node and rejected by its twin; autoscalers, which take one node"
        " for all, go wrong."
    ),
    fix="# give all nodes of the pool the same KubeletConfiguration",
)
SLOW_RECONCILE: Final = Rule(
    id="NUMA-KUBELET-SLOW-RECONCILE",
    severity=Severity.INFO,
    title="The CPU Manager checks containers rarely",
    why="A container that starts in between may run on CPUs of others for that long.",
    fix="cpuManagerReconcilePeriod: 10s",
)

STATE_FILES: Final = Rule(
    id="NUMA-KUBELET-STATE-FILES",
    severity=Severity.ERROR,
    title="State files will keep a kubelet from starting",
    why=(
        "A kubelet gives up when it finds a state file of another policy than the configured one,"
        " or one that contradicts itself. It will not come back from its next restart."
    ),
    fix=(
        "kubectl drain NODE --ignore-daemonsets\n"
        "# then, on the node:\n"
        "systemctl stop kubelet\n"
        "rm -f /var/lib/kubelet/cpu_manager_state /var/lib/kubelet/memory_manager_state\n"
        "systemctl start kubelet"
    ),
)

RULES: Final = (
    POLICY_NONE, CPU_NOT_STATIC, MEMORY_OFF, RESERVED_MEMORY, INVALID, NO_RESERVED_CPUS,
    TOO_MANY_ZONES, MIXED, SLOW_RECONCILE, STATE_FILES,
)  # fmt: skip


def check_policies(facts: ClusterFacts) -> Iterator[Finding]:
    """Look at the policies of every kubelet by themselves."""
    schedulers = numa_schedulers(facts)
    for name in facts.nodes:
        managers = managers_of(facts, name)
        if managers is None or zone_count(facts, name) == 1:
            continue
        if not managers.aligns:
            yield from _policy_none(facts, name, schedulers)
        else:
            yield from _managers(name, managers)


def _policy_none(facts: ClusterFacts, node: str, schedulers: frozenset[str]) -> Iterator[Finding]:
    pods = facts.pods_on(node)
    wishing = [
        pod.metadata.key
        for pod in pods
        if is_given_to_align(pod, schedulers) and RESOURCE_STATUS not in pod.metadata.annotations
    ]
    if wishing:
        more = f" and {len(wishing) - 1} more" if len(wishing) > 1 else ""
        detail = f"topologyManagerPolicy is none; {wishing[0]}{more} runs there"
        yield about_node(POLICY_NONE, node, detail, field="topologyManagerPolicy")


def _managers(node: str, managers: Managers) -> Iterator[Finding]:
    if managers.cpu_policy == "none":
        detail = f"topologyManagerPolicy is {managers.policy}, cpuManagerPolicy is none"
        yield about_node(CPU_NOT_STATIC, node, detail, field="cpuManagerPolicy")
    if managers.refuses and managers.memory_policy == "None":
        detail = f"topologyManagerPolicy is {managers.policy}, memoryManagerPolicy is None"
        yield about_node(MEMORY_OFF, node, detail, field="memoryManagerPolicy")


def check_configurations(facts: ClusterFacts) -> Iterator[Finding]:
    """Look for what a kubelet refuses when it starts the next time."""
    for name, node in facts.nodes.items():
        config = config_of(facts, name)
        if config is None:
            continue
        for problem in config_problems(config):
            yield about_node(INVALID, name, problem.removeprefix("invalid configuration: "))
        yield from _reserved_cpus(name, config)
        yield from _reserved_memory(name, node, config)
        yield from _reconcile(name, config)


def _reserved_cpus(name: str, config: KubeletConfiguration) -> Iterator[Finding]:
    if config.cpu_manager_policy != "static" or config.reserved_system_cpus:
        return
    reserved = [amounts_of(one).get("cpu", 0) for one in _reserved(config)]
    if not sum(reserved):
        detail = "neither reservedSystemCPUs nor kubeReserved.cpu nor systemReserved.cpu is set"
        yield about_node(NO_RESERVED_CPUS, name, detail, field="reservedSystemCPUs")


def _reserved_memory(name: str, node: Node, config: KubeletConfiguration) -> Iterator[Finding]:
    if config.memory_manager_policy != "Static":
        return
    listed = sum(value(reservation.limits.get(MEMORY, 0)) for reservation in config.reserved_memory)
    wanted = _memory_kept(node, config)
    if wanted is not None and listed != wanted:
        detail = (
            f"reservedMemory has {Quantity.of_bytes(listed)}, kubeReserved + systemReserved +"
            f" evictionHard are {Quantity.of_bytes(wanted)}"
        )
        yield about_node(RESERVED_MEMORY, name, detail, field="reservedMemory")


def _memory_kept(node: Node, config: KubeletConfiguration) -> int | None:
    """Return what is kept from pods; ``None`` if it is a share that we cannot tell exactly."""
    threshold = str((config.eviction_hard or {}).get("memory.available", "0"))
    if threshold.endswith("%"):
        return None
    try:
        kept = [amounts_of(one).get(MEMORY, 0) for one in _reserved(config)]
        return sum(kept) + value(threshold)
    except InvalidValue:
        return None


def _reserved(config: KubeletConfiguration) -> tuple[dict[str, str | int | float], ...]:
    return dict(config.kube_reserved), dict(config.system_reserved)


def _reconcile(name: str, config: KubeletConfiguration) -> Iterator[Finding]:
    if config.cpu_manager_policy != "static":
        return
    try:
        seconds = parse_duration(config.cpu_manager_reconcile_period) / SECOND
    except InvalidValue:
        return
    if seconds > _SLOWEST_RECONCILE_SECONDS:
        detail = f"cpuManagerReconcilePeriod is {config.cpu_manager_reconcile_period}"
        yield about_node(SLOW_RECONCILE, name, detail, field="cpuManagerReconcilePeriod")


def check_state_files(facts: ClusterFacts) -> Iterator[Finding]:
    """Pass on what exporters say of state files."""
    for name in facts.nodes:
        view = facts.view(name)
        if isinstance(view, NodeTopology) and view.state_trouble:
            yield about_node(
                STATE_FILES, name, view.state_trouble, fix=STATE_FILES.fix_for(NODE=name)
            )


def check_zone_limits(facts: ClusterFacts) -> Iterator[Finding]:
    """Count the NUMA nodes against what the Topology Manager takes."""
    for name in facts.nodes:
        view, managers = facts.view(name), managers_of(facts, name)
        if not isinstance(view, NodeTopology) or managers is None or not managers.aligns:
            continue
        allowed = _allowed_zones(view, config_of(facts, name))
        if len(view.zones) > allowed:
            detail = f"{len(view.zones)} NUMA nodes, {allowed} allowed"
            fix = TOO_MANY_ZONES.fix.replace("16", str(len(view.zones)))
            yield about_node(TOO_MANY_ZONES, name, detail, fix=fix)


def _allowed_zones(view: NodeTopology, config: KubeletConfiguration | None) -> int:
    options: Mapping[str, str] = {}
    if config is not None:
        options = config.topology_manager_policy_options
    elif view.report is not None:
        options = view.report.settings.topology_options
    told = options.get(_MAX_ZONES, "")
    return int(told) if told.isascii() and told.isdecimal() else view.max_numa_nodes


def check_pools(facts: ClusterFacts) -> Iterator[Finding]:
    """Compare the kubelets of nodes that are meant to be alike."""
    pools: dict[tuple[str, str], dict[str, Managers]] = {}
    for name, node in facts.nodes.items():
        managers = managers_of(facts, name)
        label = next((pool for pool in (*_POOLS, _TYPE) if pool in node.metadata.labels), None)
        if managers is not None and label is not None:
            pools.setdefault((label, node.metadata.labels[label]), {})[name] = managers
    for (label, pool), members in pools.items():
        most = _FEW if label == _TYPE else 1.0
        yield from _odd_ones(f"{label}={pool}", members, most=most)


def _odd_ones(pool: str, members: dict[str, Managers], *, most: float) -> Iterator[Finding]:
    """Tell of nodes that differ from the usual; more than a share *most* of them are on purpose."""
    counts = Counter(_policies(member) for member in members.values())
    usual, times = counts.most_common(1)[0]
    if len(members) - times > most * len(members):
        return
    for name, managers in members.items():
        if _policies(managers) != usual:
            detail = (
                f"{_spelled(_policies(managers))}; {times} of the {len(members)} nodes with"
                f" {pool} have {_spelled(usual)}"
            )
            yield about_node(MIXED, name, detail, field="topologyManagerPolicy")


def _policies(managers: Managers) -> tuple[str, str, str, str]:
    return (
        managers.policy, managers.scope,
        managers.cpu_policy or "?", managers.memory_policy or "?",
    )  # fmt: skip


def _spelled(policies: tuple[str, str, str, str]) -> str:
    policy, scope, cpu, memory = policies
    return f"{policy}/{scope}, CPU Manager {cpu}, Memory Manager {memory}"


CHECKS: Final = (
    check_policies, check_configurations, check_state_files, check_zone_limits, check_pools,
)  # fmt: skip
