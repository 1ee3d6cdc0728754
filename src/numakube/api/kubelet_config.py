"""KubeletConfiguration (kubelet.config.k8s.io/v1beta1): the part about resources and topology.

`with_defaults` fills in what the kubelet fills in, `config_problems` finds what it refuses before
any manager is made, in its words (Kubernetes 1.35, pkg/kubelet/apis/config). Names of CPU and
memory policies are not checked there: a wrong one fails when the manager is made.
"""

from typing import Final

import msgspec

from numakube.api.codec import (
    DurationText,
    QuantityText,
    ResourceList,
    Wire,
    always,
    convert,
    decode,
)
from numakube.api.yaml_text import load_yaml
from numakube.errors import InvalidValue
from numakube.values.cpuset import parse_cpu_list
from numakube.values.gotext import go_quote, go_quote_list
from numakube.values.quantity import parse_quantity
from numakube.values.resources import MEMORY, is_hugepages
from numakube.values.times import parse_duration
from numakube.values.topology_policy import TopologyPolicy, TopologyScope

TOPOLOGY_POLICIES: Final = tuple(policy.value for policy in TopologyPolicy)
TOPOLOGY_SCOPES: Final = tuple(scope.value for scope in TopologyScope)
DEFAULT_EVICTION_HARD: Final[dict[str, QuantityText]] = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}


class MemoryReservation(Wire, frozen=True):
    """Memory that is kept from pods on one NUMA node, by type of memory."""

    numa_node: int = 0
    limits: ResourceList = {}


class KubeletConfiguration(Wire, frozen=True):
    """What the configuration file says; an empty text means the default."""

    cpu_manager_policy: str = ""
    cpu_manager_policy_options: dict[str, str] = {}
    cpu_manager_reconcile_period: DurationText = ""
    memory_manager_policy: str = ""
    topology_manager_policy: str = ""
    topology_manager_scope: str = ""
    topology_manager_policy_options: dict[str, str] = {}
    reserved_system_cpus: str = msgspec.field(default="", name="reservedSystemCPUs")
    reserved_memory: tuple[MemoryReservation, ...] = ()
    system_reserved: ResourceList = {}
    kube_reserved: ResourceList = {}
    system_reserved_cgroup: str = ""
    kube_reserved_cgroup: str = ""
    eviction_hard: ResourceList | None = None
    merge_default_eviction_settings: bool = False
    feature_gates: dict[str, bool] = {}
    max_pods: int = 0
    pods_per_core: int = 0
    api_version: str = always("kubelet.config.k8s.io/v1beta1")
    kind: str = always("KubeletConfiguration")


class _Configz(Wire, frozen=True):
    kubeletconfig: KubeletConfiguration


def read_kubelet_config(text: str | bytes, subject: str | None = None) -> KubeletConfiguration:
    """Return the configuration in *text*: a YAML or JSON file, or an answer of ``/configz``."""
    name = subject or "KubeletConfiguration"
    tree = load_yaml(text, name) or {}
    if isinstance(tree, dict) and "kubeletconfig" in tree:
        return convert(_Configz, tree, name).kubeletconfig
    return convert(KubeletConfiguration, tree, name)


def decode_configz(data: bytes, subject: str | None = None) -> KubeletConfiguration:
    """Return the configuration in an answer of the kubelet's ``/configz``."""
    return decode(_Configz, data, subject or "configz").kubeletconfig


def with_defaults(config: KubeletConfiguration) -> KubeletConfiguration:
    """Return *config* with the kubelet's defaults where it says nothing."""
    period = config.cpu_manager_reconcile_period
    return msgspec.structs.replace(
        config,
        cpu_manager_policy=config.cpu_manager_policy or "none",
        cpu_manager_reconcile_period=period if _is_set(period) else "10s",
        memory_manager_policy=config.memory_manager_policy or "None",
        topology_manager_policy=config.topology_manager_policy or "none",
        topology_manager_scope=config.topology_manager_scope or "container",
        eviction_hard=_eviction_hard(config),
        max_pods=config.max_pods or 110,
    )


def config_problems(config: KubeletConfiguration) -> list[str]:
    """Say why the kubelet refuses *config*, in its words; empty if it does not."""
    config = with_defaults(config)
    return [
        *_limit_problems(config),
        *_topology_problems(config),
        *_reserved_cpu_problems(config),
        *_reserved_memory_problems(config.reserved_memory),
    ]


def _eviction_hard(config: KubeletConfiguration) -> dict[str, QuantityText]:
    if config.eviction_hard is None:
        return dict(DEFAULT_EVICTION_HARD)
    base = DEFAULT_EVICTION_HARD if config.merge_default_eviction_settings else {}
    return {**base, **config.eviction_hard}


def _is_set(duration: DurationText) -> bool:
    try:
        return duration != "" and parse_duration(duration) != 0
    except InvalidValue:
        return True


def _limit_problems(config: KubeletConfiguration) -> list[str]:
    limits = [
        ("maxPods", "--max-pods", config.max_pods),
        ("podsPerCore", "--pods-per-core", config.pods_per_core),
    ]
    return [
        f"invalid configuration: {field} ({flag}) {value} must not be a negative number"
        for field, flag, value in limits
        if value < 0
    ]


def _topology_problems(config: KubeletConfiguration) -> list[str]:
    problems = []
    policy, scope = config.topology_manager_policy, config.topology_manager_scope
    if policy not in TOPOLOGY_POLICIES:
        problems.append(
            "invalid configuration: topologyManagerPolicy (--topology-manager-policy) "
            f"{go_quote(policy)} must be one of: {go_quote_list(TOPOLOGY_POLICIES)}"
        )
    if scope not in TOPOLOGY_SCOPES:
        container, pod = map(go_quote, TOPOLOGY_SCOPES)
        problems.append(
            "invalid configuration: topologyManagerScope (--topology-manager-scope) "
            f"{go_quote(scope)} must be one of: {container}, or {pod}"
        )
    return problems


def _reserved_cpu_problems(config: KubeletConfiguration) -> list[str]:
    cpus = config.reserved_system_cpus
    if not cpus:
        return []
    problems = []
    if config.system_reserved_cgroup or config.kube_reserved_cgroup:
        problems.append(
            "invalid configuration: can't use reservedSystemCPUs (--reserved-cpus) with "
            "systemReservedCgroup (--system-reserved-cgroup) or kubeReservedCgroup "
            "(--kube-reserved-cgroup)"
        )
    try:
        parse_cpu_list(cpus)
    except InvalidValue as error:
        problems.append(
            "invalid configuration: unable to parse reservedSystemCPUs (--reserved-cpus) "
            f"{cpus}, error: {error.reason}"
        )
    return problems


def _reserved_memory_problems(reservations: tuple[MemoryReservation, ...]) -> list[str]:
    problems = []
    seen: set[tuple[int, str]] = set()
    for reservation in reservations:
        node = reservation.numa_node
        for name, quantity in reservation.limits.items():
            problems += _limit_type_problems(name, quantity, node)
            if (node, name) in seen:
                problems.append(
                    "invalid configuration: the reserved memory has a duplicate value for NUMA "
                    f"node {node} and resource {go_quote(name)}"
                )
            seen.add((node, name))
    return problems


def _limit_type_problems(name: str, quantity: QuantityText, node: int) -> list[str]:
    problems = []
    if name != MEMORY and not is_hugepages(name):
        problems.append(
            f"invalid configuration: the limit type {go_quote(name)} for NUMA node {node} is not "
            "supported, only [memory hugepages-<HugePageSize>] is accepted"
        )
    if not parse_quantity(quantity):
        problems.append(
            "invalid configuration: reserved memory may not be zero for NUMA node "
            f"{node} and resource {go_quote(name)}"
        )
    return problems
