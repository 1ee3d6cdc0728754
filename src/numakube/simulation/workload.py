"""What comes to a cluster: which pods, when, made by whom, and how long they run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from numakube.errors import MalformedObject
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.simulation.traces.trace_samples import most_of
from numakube.values.resources import CPU, is_extended, quantities_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from numakube.api.pod import Pod

BACKOFF_LIMIT: Final = 6
"""How many failed pods a Job tolerates by default."""


class OwnerKind(StrEnum):
    """Who makes the pods, and so what happens when one is rejected or evicted."""

    POD = "Pod"
    """Nobody: a pod that fails is not replaced."""
    REPLICA_SET = "ReplicaSet"
    """A pod that fails is replaced at once, for as long as it takes."""
    JOB = "Job"
    """A pod that fails is replaced after a pause that doubles from 10 s, up to the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """Pods that are alike and come at the same time.

    Attributes:
        at: when, in seconds since the beginning.
        pod: what each of them is like; its name, or that of its owner, tells arrivals apart.
        copies: how many: the replicas of a ReplicaSet, the parallelism of a Job.
        seconds: how long each runs; ``None`` for longer than the simulation.
        together: whether the pods are a gang, which begins to work when all of them run: *seconds*
            count from then.
        backoff_limit: of a Job.
    """

    at: float
    pod: Pod
    copies: int = 1
    owner: OwnerKind = OwnerKind.REPLICA_SET
    seconds: float | None = None
    together: bool = False
    backoff_limit: int = BACKOFF_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Everything that comes, in order of time.

    Attributes:
        notes: how it was made, as ``name: value``; printed with every result.
    """

    arrivals: tuple[Arrival, ...]
    notes: tuple[str, ...] = ()


def typical_pods(workload: Workload) -> tuple[Mapping[str, object], ...]:
    """Return the commonest pods, by CPUs and devices, as LeastFragmentation takes them.

    They make up 95 % of all that come.
    """
    counted: Counter[tuple[tuple[str, int], ...]] = Counter()
    known: dict[int, tuple[tuple[str, int], ...]] = {}
    for arrival in workload.arrivals:
        # Pods that are alike share a spec.
        shape = known.get(id(arrival.pod.spec))
        if shape is None:
            requests = PodInfo(arrival.pod).requests.items()
            shape = tuple(sorted(one for one in requests if one[0] == CPU or is_extended(one[0])))
            known[id(arrival.pod.spec)] = shape
        counted[shape] += arrival.copies
    del counted[()]
    return tuple(
        {"requests": quantities_of(dict(shape)), "weight": count}
        for shape, count in most_of(counted).items()
    )


def check_simulated(workload: Workload, volume_claims: Container[str]) -> None:
    """Refuse pods that would wait for ever for what no simulation makes.

    Args:
        workload: what comes.
        volume_claims: the PersistentVolumeClaims that are known, as ``namespace/name``.

    Raises:
        MalformedObject: a pod has resource claims, or a volume whose claim is not known.
    """
    checked: set[tuple[int, str]] = set()
    for arrival in workload.arrivals:
        pod = arrival.pod
        kind = id(pod.spec), pod.metadata.namespace
        if kind not in checked:
            checked.add(kind)
            for path, problem in _unsimulated(pod, volume_claims):
                name = f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"
                raise MalformedObject(f"Pod {name}", problem, path=path)


def _unsimulated(pod: Pod, volume_claims: Container[str]) -> Iterator[tuple[str, str]]:
    if pod.spec.resource_claims:
        yield "spec.resourceClaims", "resource claims (DRA) are not simulated; leave the pod out"
    namespace = pod.metadata.namespace or "default"
    for number, volume in enumerate(pod.spec.volumes):
        path, source = f"spec.volumes[{number}]", volume.persistent_volume_claim
        if volume.ephemeral is not None:
            yield f"{path}.ephemeral", "claims made from templates are not simulated"
        if source is not None and f"{namespace}/{source.claim_name}" not in volume_claims:
            known = f"PersistentVolumeClaim {source.claim_name!r} is not known of the cluster"
            yield f"{path}.persistentVolumeClaim", known
