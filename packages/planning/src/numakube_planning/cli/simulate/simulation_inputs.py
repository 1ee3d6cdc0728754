"""What ``numakube plan simulate`` was given, as runs to be executed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.cli.shared.cluster_options import LIVE
from numakube.cli.shared.connection_options import connected
from numakube.cli.shared.machine_argument import load_machine, read_bytes
from numakube.cli.shared.pods_in_manifests import batches_of
from numakube.errors import ConfigError, InvalidValue, MalformedObject
from numakube.insight import facts_of
from numakube.insight.explain import manifest_subject
from numakube.insight.node_setup import nodes_of_kinds
from numakube.values.resources import CPU, MEMORY, is_extended
from numakube.values.times import SECOND, parse_duration
from numakube_planning.simulation.compared_schedulers import (
    SCHEDULERS,
    Arm,
    Reports,
    WhatIf,
    scheduler_arm,
)
from numakube_planning.simulation.simulated_cluster import (
    Changes,
    SimulatedCluster,
    changed,
    cluster_of,
    kubelet_words,
    waiting_in,
)
from numakube_planning.simulation.simulator import PlannedRun, SimulatorOptions
from numakube_planning.simulation.trace_rows import read_nodes, read_pods
from numakube_planning.simulation.traced_cluster import promotion_of, trace_cluster, trace_workload
from numakube_planning.simulation.workload import (
    Arrival,
    ArrivingWork,
    OwnerKind,
    check_simulated,
    typical_pods,
    workload_of_mix,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numakube.api.pod import Pod
    from numakube.cli.shared.connection_options import ClusterOptions
    from numakube.insight import ClusterFacts
    from numakube.insight.collected import Collected
    from numakube_planning.simulation.trace_rows import TracePod
    from numakube_planning.simulation.traced_cluster import Promotion

_LIVE: Final = "the cluster"
_OWNERS: Final = {"Pod": OwnerKind.POD, "Job": OwnerKind.JOB, "CronJob": OwnerKind.JOB}
"""Who replaces the pods of a manifest; all other kinds do as a ReplicaSet does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateOptions:
    """The options of the command; see its help."""

    cluster: ClusterOptions
    kinds: tuple[str, ...] = ()
    source: str | None = None
    machine: str | None = None
    pending: bool = True
    filenames: tuple[str, ...] = ()
    trace: str | None = None
    trace_nodes: str | None = None
    rules: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = ()
    configs: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    memories: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    drained: tuple[str, ...] = ()
    seeds: Sequence[int]
    assumptions: tuple[str, ...] = ()


def read_runs(given: SimulateOptions) -> list[PlannedRun]:
    """Return every run that was asked for: arm by arm, seed by seed.

    Raises:
        ConfigError: an option makes no sense.
        MalformedObject: a file cannot be read; it says where.
    """
    options = _options(given.assumptions)
    cluster, waiting, facts = _beginning(given)
    changes = Changes(
        kubelet=kubelet_words(given.settings),
        added=given.added,
        removed=given.removed,
        drained=given.drained,
    )
    runs: list[PlannedRun] = []
    documents = [_Documents.read(file) for file in given.filenames]
    traced = _Traced.read(given) if given.trace is not None else None
    workloads = {seed: _workload(documents, waiting, facts, seed) for seed in given.seeds}
    if traced is not None:
        workloads = {
            seed: _merged(traced.workload(cluster, seed), one) for seed, one in workloads.items()
        }
    if not cluster.running and not any(workload.arrivals for workload in workloads.values()):
        raise ConfigError("no pod runs and none comes: give -f FILE with what is to come")
    for arm in _arms(given, cluster, workloads[given.seeds[0]], alone=bool(changes)):
        runs += [
            PlannedRun(cluster=cluster, workload=workload, arm=arm, seed=seed, options=options)
            for seed, workload in workloads.items()
        ]
    runs += list(_changed_runs(runs, changes)) if changes else []
    for workload in {id(run.workload): run.workload for run in runs}.values():
        check_simulated(workload, cluster.objects.get("claims", {}))
    return runs


def _changed_runs(runs: Sequence[PlannedRun], changes: Changes) -> Iterator[PlannedRun]:
    """Yield *runs* once more on the changed cluster."""
    for run in runs:
        cluster, workload = changed(run.cluster, run.workload, changes)
        name = f"{run.arm.name}, {changes.brief}"
        what_if = WhatIf(run.arm.name, str(changes), changes.sentence)
        arm = replace(run.arm, name=name, what_if=what_if)
        yield replace(run, cluster=cluster, workload=workload, arm=arm)


def _beginning(
    given: SimulateOptions,
) -> tuple[SimulatedCluster, ArrivingWork, ClusterFacts | None]:
    """Return the cluster, what waits there, and what is known of it if it is a real one."""
    if given.trace_nodes is not None:
        if given.kinds or given.source is not None or given.machine is not None:
            raise ConfigError(
                "--trace-nodes is the cluster: it goes with neither --nodes, --from nor --machine"
            )
        with Path(given.trace_nodes).open() as lines:
            nodes_read = read_nodes(lines, file=given.trace_nodes)
        cluster = trace_cluster(nodes_read, promotion_of(given.rules))
        return cluster, ArrivingWork(arrivals=()), None
    if given.kinds:
        if given.source is not None or given.machine is not None:
            raise ConfigError(
                "--nodes makes up a cluster: it goes with neither --from nor --machine"
            )
        nodes = nodes_of_kinds(given.kinds)
        return SimulatedCluster(nodes=nodes), ArrivingWork(arrivals=()), None
    facts = facts_of(_collected(given))
    machine = load_machine(given.machine) if given.machine else None
    cluster = cluster_of(facts, given.source or _LIVE, machine=machine)
    return cluster, waiting_in(facts) if given.pending else ArrivingWork(arrivals=()), facts


def _collected(given: SimulateOptions) -> Collected:
    if given.source is None or given.source == LIVE:
        return asyncio.run(_gathered(given.cluster))
    from numakube.apps import read_cluster

    return read_cluster(read_bytes(given.source), given.source)


async def _gathered(cluster: ClusterOptions) -> Collected:
    from numakube.apps.gathering import SCHEDULING, gather
    from numakube.insight.collected import CONFIGZ

    async with connected(cluster) as client:
        return await gather(client, what=SCHEDULING | {CONFIGZ})


@dataclass(frozen=True, slots=True)
class _Documents:
    """A file with what comes."""

    file: str
    trees: tuple[dict[str, Any], ...]

    @classmethod
    def read(cls, file: str) -> _Documents:
        from numakube.api.yaml_text import load_manifests

        subject = "standard input" if file == "-" else file
        return cls(subject, load_manifests(read_bytes(file), subject))

    def arrivals(self, seed: int, facts: ClusterFacts | None) -> Iterator[Arrival]:
        """Yield what the file says comes."""
        mixes = [tree for tree in self.trees if "workloads" in tree and "kind" not in tree]
        for tree in mixes:
            yield from workload_of_mix(tree, self.file, seed).arrivals
        others = [tree for tree in self.trees if tree not in mixes]
        classes = facts.priority_classes if facts is not None else {}
        for batch in batches_of(others, self.file) if others else ():
            pod = manifest_subject(batch.pod, classes=classes).pod
            owner = _OWNERS.get(batch.kind, OwnerKind.REPLICA_SET)
            copies = 1 if batch.replicas is None else batch.replicas
            yield Arrival(at=0.0, pod=_called(pod, batch.name), copies=copies, owner=owner)


@dataclass(frozen=True, slots=True)
class _Traced:
    """The pods of a trace, and how they become pods of a cluster."""

    pods: tuple[TracePod, ...]
    rules: Promotion

    @classmethod
    def read(cls, given: SimulateOptions) -> _Traced:
        file = given.trace or ""
        with Path(file).open() as lines:
            return cls(read_pods(lines, file=file), promotion_of(given.rules))

    def workload(self, cluster: SimulatedCluster, seed: int) -> ArrivingWork:
        return trace_workload(self.pods, cluster, self.rules, seed=seed)


def _merged(one: ArrivingWork, other: ArrivingWork) -> ArrivingWork:
    arrivals = sorted((*one.arrivals, *other.arrivals), key=lambda arrival: arrival.at)
    return ArrivingWork(arrivals=tuple(arrivals), notes=(*one.notes, *other.notes))


def _called(pod: Pod, name: str) -> Pod:
    """Return *pod* with the name of what makes it."""
    metadata = msgspec.structs.replace(pod.metadata, name=name or pod.metadata.name, uid="")
    return msgspec.structs.replace(pod, metadata=metadata)


def _workload(
    documents: Sequence[_Documents], waiting: ArrivingWork, facts: ClusterFacts | None, seed: int
) -> ArrivingWork:
    more = [arrival for document in documents for arrival in document.arrivals(seed, facts)]
    arrivals = sorted((*waiting.arrivals, *more), key=lambda arrival: arrival.at)
    return ArrivingWork(arrivals=tuple(arrivals), notes=waiting.notes)


def _arms(
    given: SimulateOptions, cluster: SimulatedCluster, workload: ArrivingWork, *, alone: bool
) -> Iterator[Arm]:
    """Yield every scheduler with every way to set kubelets.

    If a change is asked about and no scheduler named, ours stands *alone*.
    """
    names = given.schedulers or (() if given.configs else ("numakube",) if alone else SCHEDULERS)
    resources = _counted(cluster)
    typical = partial(typical_pods, workload)
    arms = [scheduler_arm(name, resources, typical) for name in names]
    arms += [_configured(file) for file in given.configs]
    for arm in arms:
        for words in _kubelets(given):
            told = ", ".join((arm.name, *(f"{name}={value}" for name, value in words.items())))
            yield replace(arm, name=told, kubelet=words)


def _kubelets(given: SimulateOptions) -> Iterator[Mapping[str, str]]:
    """Yield every combination of policies, scopes and memory managers that was given.

    A scope means nothing to the policy ``none``, which is combined with the first one only.
    """
    choices = {"policy": given.policies, "scope": given.scopes, "memory": given.memories}
    known = {word: values for word, values in choices.items() if values}
    for values in product(*known.values()):
        words = dict(zip(known, values, strict=True))
        if words.get("policy") == "none" and words.get("scope") not in (None, *given.scopes[:1]):
            continue
        yield kubelet_words([f"{word}={value}" for word, value in words.items()])


def _counted(cluster: SimulatedCluster) -> tuple[str, ...]:
    """Return what a NUMA-blind scheduler counts: CPU, memory and every device."""
    found = {name for node in cluster.nodes for name in (*node.machine.devices, *node.also)}
    return (CPU, MEMORY, *sorted(name for name in found if is_extended(name)))


def _configured(file: str) -> Arm:
    from numakube.api.yaml_text import load_manifests
    from numakube.insight import tried

    documents = load_manifests(read_bytes(file), file)
    if len(documents) != 1:
        raise MalformedObject(file, "not one KubeSchedulerConfiguration")
    config = tried(documents[0], file)
    return Arm(name=Path(file).stem, scheduler=config, reports=Reports())


def _options(assumptions: Sequence[str]) -> SimulatorOptions:
    """Return the options that ``decision=0.01`` and the like make."""
    known = {
        field.name.removesuffix("_seconds").replace("_", "-"): field
        for field in fields(SimulatorOptions)
    }
    told: dict[str, Any] = {}
    for text in assumptions:
        name, equals, value = text.partition("=")
        if name not in known or not equals:
            raise ConfigError(f"--assume {text}: not like {', '.join(known)}=VALUE")
        told[known[name].name] = _number(text, value, whole=name == "most-rejections")
    return SimulatorOptions(**told)


def _number(text: str, value: str, *, whole: bool) -> float | int:
    if value.isdecimal() and (whole or int(value)):
        return int(value) if whole else float(value)
    try:
        seconds = parse_duration(value) / SECOND
    except InvalidValue:
        raise ConfigError(f"--assume {text}: {value!r} is not like 5, 20ms or 2h") from None
    if whole or seconds < 0:
        raise ConfigError(f"--assume {text}: {value!r} is not a whole number of 0 or more")
    return seconds
