"""The KubeletConfiguration: its fields, the command line over it, and where else it is read.

`with_defaults` fills in what the kubelet fills in, `config_problems` finds what it refuses before
any manager is made, in its words (Kubernetes 1.35, pkg/kubelet/apis/config). Names of CPU and
memory policies are not checked there: a wrong one fails when the manager is made.
"""

from __future__ import annotations

import difflib
import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

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
from numakube.errors import InvalidValue, MalformedObject
from numakube.values.cpuset import parse_cpu_list
from numakube.values.gotext import go_quote, go_quote_list
from numakube.values.quantity import parse_quantity
from numakube.values.resources import MEMORY, is_hugepages
from numakube.values.times import parse_duration
from numakube.values.topology_policy import TopologyPolicy, TopologyScope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


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


# The kubelet's command line, in files of systemd too, as far as it decides about topology.
#
# Deprecated as they are, flags win over the configuration file and its drop-ins (Kubernetes 1.35,
# cmd/kubelet/app). A drop-in is merged into what came before it: objects key by key, lists as a
# whole.


Tree: TypeAlias = dict[str, Any]

DEFAULT_ROOT: Final = "/var/lib/kubelet"
_GATES: Final = "featureGates"
_SWITCHES: Final = {
    **dict.fromkeys(("true", "t", "1"), True),
    **dict.fromkeys(("false", "f", "0"), False),
}
_CONTINUED: Final = re.compile(r"\\\n\s*")
_VARIABLE: Final = re.compile(
    r"(?:export\s+|Environment=)?[\"']?(?P<name>KUBELET_\w+)=(?P<rest>.*)"
)
_COMMAND: Final = re.compile(r"ExecStart=\S*kubelet(?P<rest>\s.*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletFlags:
    """What a command line says.

    Attributes:
        config: the configuration file; empty if there is none.
        config_dir: the folder of drop-ins; empty if there is none.
        root_dir: the kubelet's own folder.
        fields: fields of the configuration that flags set.
    """

    config: str = ""
    config_dir: str = ""
    root_dir: str = DEFAULT_ROOT
    fields: Tree = field(default_factory=dict)


def arguments_in(text: str, subject: str) -> tuple[str, ...] | None:
    """Return the kubelet's arguments in a file of systemd; ``None`` if it is no such file."""
    lines = [line.strip() for line in _CONTINUED.sub(" ", text).splitlines()]
    if not any(_VARIABLE.match(line) or _COMMAND.match(line) for line in lines):
        return None
    return tuple(_arguments(lines, subject))


def _arguments(lines: Iterable[str], subject: str) -> Iterator[str]:
    """Yield the arguments of the command, then those of variables; the last of a name counts."""
    command: list[str] = []
    variables: dict[str, list[str]] = {}
    for line in lines:
        if found := _VARIABLE.match(line):
            # A quote before the name is closed at the end of the line, as in units.
            quoted = line[: found.start("name")][-1:] in ("'", '"')
            rest = found["rest"][:-1] if quoted else found["rest"]
            variables[found["name"]] = _words(rest, subject)
        elif found := _COMMAND.match(line):
            command = [word for word in _words(found["rest"] or "", subject) if word[:1] != "$"]
    yield from command
    for words in variables.values():
        yield from words


def _words(text: str, subject: str) -> list[str]:
    """Return the words that systemd makes of a variable's value: quotes go, blanks part."""
    try:
        return [word for part in shlex.split(text, comments=True) for word in part.split()]
    except ValueError as error:
        raise MalformedObject(subject, f"{text!r}: {error}") from None


def read_flags(arguments: Sequence[str]) -> KubeletFlags:
    """Return what *arguments* say; flags about other things are passed over.

    Raises:
        InvalidValue: a flag makes no sense.
    """
    given = list(_pairs(arguments))
    last = dict(given)
    fields: Tree = {}
    for name, text in given:
        if name in _FIELDS:
            key, read = _FIELDS[name]
            fields[key] = _joined(fields.get(key), read(text))
    return KubeletFlags(
        config=last.get("config", ""),
        config_dir=last.get("config-dir", ""),
        root_dir=last.get("root-dir", DEFAULT_ROOT),
        fields=fields,
    )


def configuration(files: Iterable[Tree], flags: KubeletFlags) -> KubeletConfiguration:
    """Return what the configuration file, its drop-ins in order, and *flags* add up to."""
    tree: Tree = {}
    for file in files:
        tree = _merged(tree, file)
    gates = {**(tree.get(_GATES) or {}), **flags.fields.get(_GATES, {})}
    tree = {**tree, **flags.fields, **({_GATES: gates} if gates else {})}
    return convert(KubeletConfiguration, tree, "the kubelet's command line and files")


def write_flags(tree: Tree) -> list[str]:
    """Return the flags that say what *tree*, a KubeletConfiguration, says; for known fields."""
    return [
        f"--{name}={_written(tree[key], '<' if read is _thresholds else '=')}"
        for name, (key, read) in _FIELDS.items()
        if tree.get(key)
    ]


def _written(value: Any, sign: str) -> str:  # noqa: ANN401 - the value of any field
    if isinstance(value, dict):
        return ",".join(f"{name}{sign}{_written(one, sign)}" for name, one in value.items())
    if isinstance(value, list):
        return ";".join(f"{entry['numaNode']}:{_written(entry['limits'], sign)}" for entry in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _pairs(arguments: Sequence[str]) -> Iterable[tuple[str, str]]:
    rest = iter(arguments)
    for argument in rest:
        name, equals, text = argument.removeprefix("--").partition("=")
        name = name.replace("_", "-")
        if argument.startswith("--") and name in _KNOWN:
            yield name, text if equals else next(rest, "")


def _joined(before: Any, new: Any) -> Any:  # noqa: ANN401 - whatever the field is
    """Return what a flag that is given twice says: texts are replaced, the rest adds up."""
    if isinstance(new, dict):
        return {**(before or {}), **new}
    return [*(before or ()), *new] if isinstance(new, list) else new


def _merged(base: Tree, patch: Tree) -> Tree:
    result = dict(base)
    for key, value in patch.items():
        known = result.get(key)
        both = isinstance(known, dict) and isinstance(value, dict)
        result[key] = _merged(known, value) if both else value  # type: ignore[arg-type]
    return {key: value for key, value in result.items() if value is not None}


def _map(text: str, sign: str = "=") -> dict[str, str]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if any(sign not in part for part in parts):
        raise InvalidValue(f"kubelet flag: {text!r} is not a list of name{sign}value")
    return {name.strip(): value.strip() for name, _, value in (p.partition(sign) for p in parts)}


def _thresholds(text: str) -> dict[str, str]:
    return _map(text, "<")


def _gates(text: str) -> dict[str, bool]:
    return {name: _switch(name, value) for name, value in _map(text).items()}


def _switch(name: str, text: str) -> bool:
    if text.lower() not in _SWITCHES:
        raise InvalidValue(f"kubelet flag --feature-gates: {name}={text} is neither true nor false")
    return _SWITCHES[text.lower()]


def _reserved_memory(text: str) -> list[Tree]:
    found = []
    for part in text.strip("'\"").split(";"):
        node, colon, limits = part.strip().partition(":")
        if not colon or not node.isdecimal():
            raise InvalidValue(f"kubelet flag --reserved-memory: {part!r} names no NUMA node")
        found.append({"numaNode": int(node), "limits": _map(limits)})
    return found


_FIELDS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "topology-manager-policy": ("topologyManagerPolicy", str),
    "topology-manager-scope": ("topologyManagerScope", str),
    "topology-manager-policy-options": ("topologyManagerPolicyOptions", _map),
    "cpu-manager-policy": ("cpuManagerPolicy", str),
    "cpu-manager-policy-options": ("cpuManagerPolicyOptions", _map),
    "cpu-manager-reconcile-period": ("cpuManagerReconcilePeriod", str),
    "memory-manager-policy": ("memoryManagerPolicy", str),
    "reserved-cpus": ("reservedSystemCPUs", str),
    "reserved-memory": ("reservedMemory", _reserved_memory),
    "system-reserved": ("systemReserved", _map),
    "kube-reserved": ("kubeReserved", _map),
    "eviction-hard": ("evictionHard", _thresholds),
    "feature-gates": (_GATES, _gates),
}
_KNOWN: Final = frozenset({"config", "config-dir", "root-dir", *_FIELDS})


# The files in which administrators keep a kubelet's configuration, read into one configuration.
#
# * a KubeletConfiguration: the kubelet's file, a drop-in (``--config-dir``), a kubeadm patch, or
#   the answer of ``/configz``;
# * a KubeletConfig of OpenShift, which has one in ``spec.kubeletConfig``;
# * files of systemd: variables such as ``KUBELET_EXTRA_ARGS`` (``/etc/default/kubelet``,
#   ``/etc/sysconfig/kubelet``, ``/var/lib/kubelet/kubeadm-flags.env``), and the kubelet's unit.
#
# Later files win over earlier ones, and flags over all files, as in the kubelet. A kubelet ignores
# a field that it does not know, and then aligns nothing; so a misspelled field is an error here.


OPENSHIFT_KIND: Final = "KubeletConfig"

_MODELLED: Final = KubeletConfiguration.__struct_encode_fields__
_OTHER_NAMES: Final = """
address allowedUnsafeSysctls authentication authorization cgroupDriver cgroupRoot cgroupsPerQOS
clusterDNS clusterDomain configMapAndSecretChangeDetectionStrategy containerLogMaxFiles
containerLogMaxSize containerLogMaxWorkers containerLogMonitorInterval containerRuntimeEndpoint
contentType cpuCFSQuota cpuCFSQuotaPeriod crashLoopBackOff enableContentionProfiling
enableControllerAttachDetach enableDebugFlagsHandler enableDebuggingHandlers
enableProfilingHandler enableServer enableSystemLogHandler enableSystemLogQuery
enforceNodeAllocatable eventBurst eventRecordQPS evictionMaxPodGracePeriod
evictionMinimumReclaim evictionPressureTransitionPeriod evictionSoft evictionSoftGracePeriod
failCgroupV1 failSwapOn fileCheckFrequency hairpinMode healthzBindAddress healthzPort
httpCheckFrequency imageGCHighThresholdPercent imageGCLowThresholdPercent imageMaximumGCAge
imageMinimumGCAge imagePullCredentialsVerificationPolicy imageServiceEndpoint iptablesDropBit
iptablesMasqueradeBit kernelMemcgNotification kubeAPIBurst kubeAPIQPS kubeletCgroups
localStorageCapacityIsolation logging makeIPTablesUtilChains maxOpenFiles maxParallelImagePulls
memorySwap memoryThrottlingFactor nodeLeaseDurationSeconds nodeStatusMaxImages
nodeStatusReportFrequency nodeStatusUpdateFrequency oomScoreAdj podCIDR podLogsDir podPidsLimit
port preloadedImagesVerificationAllowlist protectKernelDefaults providerID qosReserved
readOnlyPort registerNode registerWithTaints registryBurst registryPullQPS resolvConf
rotateCertificates runOnce runtimeRequestTimeout seccompDefault serializeImagePulls
serverTLSBootstrap showHiddenMetricsForVersion shutdownGracePeriod
shutdownGracePeriodByPodPriority shutdownGracePeriodCriticalPods singleProcessOOMKill
staticPodPath staticPodURL staticPodURLHeader streamingConnectionIdleTimeout syncFrequency
systemCgroups tlsCertFile tlsCipherSuites tlsMinVersion tlsPrivateKeyFile tracing userNamespaces
volumePluginDir volumeStatsAggPeriod
"""
_OTHERS: Final = frozenset(_OTHER_NAMES.split())
"""Fields of Kubernetes 1.35 that no resource manager reads."""
_NEAR: Final = 0.8


@dataclass(frozen=True, slots=True)
class KubeletSource:
    """What one file says: fields of a configuration, or arguments of the command line.

    Attributes:
        unknown: fields that the kubelet does not know and passes over.
    """

    tree: Tree = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def read_source(text: str, subject: str) -> KubeletSource:
    """Return what a file says.

    Raises:
        MalformedObject: it is none of the kinds that we know, or a field is misspelled.
    """
    arguments = arguments_in(text, subject)
    if arguments is not None:
        return KubeletSource(arguments=arguments)
    tree: Any = load_yaml(text, subject) or {}
    if isinstance(tree, dict) and tree.get("kind") == OPENSHIFT_KIND:
        tree = (tree.get("spec") or {}).get("kubeletConfig") or {}
    unknown = check_fields(tree, subject)
    tree = tree.get("kubeletconfig", tree)
    convert(KubeletConfiguration, tree, subject)
    return KubeletSource(tree=tree, unknown=unknown)


def merged(sources: Iterable[KubeletSource]) -> KubeletConfiguration:
    """Return what *sources*, in the order in which the kubelet reads them, add up to."""
    known = tuple(sources)
    return configuration((source.tree for source in known), flags_in(known))


def flags_in(sources: Iterable[KubeletSource]) -> KubeletFlags:
    """Return the flags that *sources* have together."""
    return read_flags([argument for source in sources for argument in source.arguments])


def check_fields(tree: Any, subject: str) -> tuple[str, ...]:  # noqa: ANN401 - any document
    """Return the fields that are not known, and look like none that matters.

    Raises:
        MalformedObject: it is another kind of object, or a field that matters is misspelled.
    """
    config = tree.get("kubeletconfig", tree) if isinstance(tree, dict) else tree
    if not isinstance(config, dict):
        raise MalformedObject(subject, "not a KubeletConfiguration")
    kind = config.get("kind", KubeletConfiguration().kind)
    if kind != KubeletConfiguration().kind:
        raise MalformedObject(subject, f"a {kind}, not a KubeletConfiguration", path="kind")
    unknown = [str(name) for name in config if name not in _OTHERS and name not in _MODELLED]
    for name in unknown:
        near = difflib.get_close_matches(name, _MODELLED, n=1, cutoff=_NEAR)
        if near:
            raise MalformedObject(subject, f"unknown field; did you mean {near[0]}?", path=name)
    return tuple(unknown)
