"""What comes to a cluster: which pods, when, made by whom, and how long they run.

A workload described by a mix of kinds: how often each comes, how large it is, how long it runs.

    workloads:
    - name: train
      kind: Job
      count: 200                      # how many Jobs
      arrivals: {poisson: 12}         # on average so many an hour; or {every: 30s}, {at: 10m}
      pods: 4                         # pods of each
      together: true                  # the work begins when all of them run
      gang: 4                         # so many are placed together, or none
      annotations: {numakube.dev/gang-topology: rack}
      lifetime: {lognormal: 1h, sigma: 1}
      requests:
        cpu: {4: 3, 8: 1}             # three of four have 4 CPUs
        memory: 32Gi
        nvidia.com/gpu: 1

Whatever can be drawn is a value, or a map: ``{exponential: 1h}``, ``{uniform: [10m, 2h]}``,
``{lognormal: 1h, sigma: 1}`` (its median), or values with their weights. The same seed draws the
same workload.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import numpy as np

from numakube.api.codec import Wire, convert
from numakube.api.meta import ObjectMeta
from numakube.api.pod import Container, Pod, PodSpec, ResourceRequirements
from numakube.errors import InvalidValue, MalformedObject
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.values.resources import CPU, MEMORY, amount_of, is_extended, quantities_of
from numakube.values.times import SECOND, parse_duration
from numakube_planning.simulation.trace_rows import most_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

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
        gang: how many of them the scheduler places together, or none; 0 for each by itself.
        backoff_limit: of a Job.
    """

    at: float
    pod: Pod
    copies: int = 1
    owner: OwnerKind = OwnerKind.REPLICA_SET
    seconds: float | None = None
    together: bool = False
    gang: int = 0
    backoff_limit: int = BACKOFF_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivingWork:
    """Everything that comes, in order of time.

    Attributes:
        notes: how it was made, as ``name: value``; printed with every result.
    """

    arrivals: tuple[Arrival, ...]
    notes: tuple[str, ...] = ()


def typical_pods(workload: ArrivingWork) -> tuple[Mapping[str, object], ...]:
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
            shape = tuple(
                sorted(
                    request for request in requests if request[0] == CPU or is_extended(request[0])
                )
            )
            known[id(arrival.pod.spec)] = shape
        counted[shape] += arrival.copies
    del counted[()]
    return tuple(
        {"requests": quantities_of(dict(shape)), "weight": count}
        for shape, count in most_of(counted).items()
    )


def check_simulated(workload: ArrivingWork, volume_claims: Collection[str]) -> None:
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


def _unsimulated(pod: Pod, volume_claims: Collection[str]) -> Iterator[tuple[str, str]]:
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


Drawn: TypeAlias = Any
"""A value, or a map that says how to draw one."""

_HOUR: Final = 3600.0
_DISTRIBUTIONS: Final = ("exponential", "uniform", "lognormal")


class MixEntry(Wire, frozen=True, forbid_unknown_fields=True):
    """One kind of workload in a mix; see the module."""

    name: str
    kind: OwnerKind = OwnerKind.REPLICA_SET
    count: int = 1
    arrivals: Mapping[str, Any] = {}
    pods: int = 1
    together: bool = False
    gang: int = 0
    """How many of its pods the scheduler has to place together; 0 for each by itself."""
    annotations: Mapping[str, str] = {}
    """Of the pods, such as what a gang asks for."""
    lifetime: Drawn = None
    requests: Mapping[str, Drawn] = {}
    limits: bool = True
    """Whether limits equal the requests, which makes pods Guaranteed."""
    priority: int = 0
    backoff_limit: int = 6
    template: Mapping[str, Any] = {}
    """Fields of the pods' spec besides their one container."""


class Mix(Wire, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    workloads: tuple[MixEntry, ...]


def workload_of_mix(tree: Mapping[str, Any], subject: str, seed: int) -> ArrivingWork:
    """Return the workload that the mix in *tree*, read from *subject*, describes.

    Raises:
        MalformedObject: it names the entry and the field that are wrong.
    """
    mix = convert(Mix, tree, subject)
    if not mix.workloads:
        raise MalformedObject(subject, "at least one is required", path="workloads")
    arrivals: list[Arrival] = []
    for number, entry in enumerate(mix.workloads):
        where = f"workloads[{number}] ({entry.name})"
        _check(entry, subject, where)
        rng = np.random.default_rng((seed, 3, number))
        arrivals += _EntryDraw(entry, rng, subject, where).arrivals()
    arrivals.sort(key=lambda arrival: arrival.at)
    return ArrivingWork(arrivals=tuple(arrivals))


def _check(entry: MixEntry, subject: str, where: str) -> None:
    for field in ("count", "pods"):
        if getattr(entry, field) < 1:
            raise MalformedObject(subject, "must be at least 1", path=f"{where}.{field}")
    if not 0 <= entry.gang <= entry.pods:
        told = f"{entry.gang} is not between 0 and its {entry.pods} pods"
        raise MalformedObject(subject, told, path=f"{where}.gang")
    if not entry.requests:
        raise MalformedObject(subject, "is required", path=f"{where}.requests")


class _EntryDraw:
    """Draws what one entry says."""

    def __init__(self, entry: MixEntry, rng: np.random.Generator, subject: str, where: str) -> None:
        self._entry, self._rng = entry, rng
        self._subject, self._where = subject, where
        self._pods: dict[tuple[tuple[str, str], ...], Pod] = {}

    def arrivals(self) -> Iterator[Arrival]:
        """Yield every arrival."""
        entry = self._entry
        for at in self._times():
            requests = tuple(
                (name, self._quantity(name, drawn)) for name, drawn in entry.requests.items()
            )
            seconds = None
            if entry.lifetime is not None:
                seconds = self._seconds("lifetime", entry.lifetime)
            yield Arrival(
                at=at,
                pod=self._pod(requests),
                copies=entry.pods,
                owner=entry.kind,
                seconds=seconds,
                together=entry.together,
                gang=entry.gang,
                backoff_limit=entry.backoff_limit,
            )

    def _times(self) -> list[float]:
        told, count = self._entry.arrivals, self._entry.count
        path = "arrivals"
        start = self._seconds(f"{path}.at", told.get("at", 0))
        if unknown := told.keys() - {"at", "every", "poisson"}:
            raise self._wrong(f"{path}.{min(unknown)}", "there are at, every and poisson")
        if "poisson" in told:
            rate = told["poisson"]
            if not isinstance(rate, int | float) or rate <= 0:
                raise self._wrong(f"{path}.poisson", f"{rate!r} is no number of arrivals an hour")
            gaps = self._rng.exponential(_HOUR / rate, count)
            return [start + float(one) for one in np.cumsum(gaps)]
        every = self._seconds(f"{path}.every", told.get("every", 0))
        return [start + number * every for number in range(count)]

    def _pod(self, requests: tuple[tuple[str, str], ...]) -> Pod:
        """Return the pod with these requests; those that are alike share one."""
        if requests not in self._pods:
            entry, wanted = self._entry, dict(requests)
            limits = {
                name: text for name, text in wanted.items()
                if entry.limits or name not in (CPU, MEMORY)
            }  # fmt: skip
            resources = ResourceRequirements(requests=wanted, limits=limits)
            spec = convert(
                PodSpec, dict(entry.template), f"{self._subject}: {self._where}.template"
            )
            spec = msgspec.structs.replace(
                spec,
                containers=(Container(name="main", resources=resources),),
                priority=entry.priority,
            )
            labels = {"app": entry.name}
            self._pods[requests] = Pod(
                metadata=ObjectMeta(
                    name=entry.name, labels=labels, annotations=dict(entry.annotations)
                ),
                spec=spec,
            )
        return self._pods[requests]

    def _quantity(self, name: str, drawn: Drawn) -> str:
        path = f"requests.{name}"
        text = str(self._weighted(path, drawn) if isinstance(drawn, Mapping) else drawn)
        try:
            amount_of(name, text)
        except InvalidValue as error:
            raise self._wrong(path, str(error)) from None
        return text

    def _seconds(self, path: str, drawn: Drawn) -> float:
        """Return a duration in seconds, drawn if *drawn* says how."""
        if not isinstance(drawn, Mapping):
            return self._duration(path, drawn)
        name = next(
            (distribution for distribution in _DISTRIBUTIONS if distribution in drawn), None
        )
        if name is None:
            return self._duration(path, self._weighted(path, drawn))
        return self._from_distribution(path, name, drawn)

    def _from_distribution(self, path: str, name: str, drawn: Mapping[str, Any]) -> float:
        if name == "exponential":
            return float(self._rng.exponential(self._duration(path, drawn[name])))
        if name == "lognormal":
            sigma = drawn.get("sigma", 1.0)
            if not isinstance(sigma, int | float) or sigma < 0:
                raise self._wrong(f"{path}.sigma", f"{sigma!r} is not a number of 0 or more")
            median = self._duration(path, drawn[name])
            return median * float(self._rng.lognormal(0.0, float(sigma)))
        bounds = drawn[name]
        if not isinstance(bounds, list | tuple) or len(bounds) != 2:
            raise self._wrong(f"{path}.uniform", "is not like [10m, 2h]")
        low, high = (self._duration(path, bound) for bound in bounds)
        return float(self._rng.uniform(low, high))

    def _duration(self, path: str, value: object) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = float(value)
        else:
            try:
                seconds = parse_duration(str(value)) / SECOND
            except InvalidValue as error:
                raise self._wrong(path, str(error)) from None
        if seconds < 0:
            raise self._wrong(path, f"{value!r} is negative")
        return seconds

    def _weighted(self, path: str, drawn: Mapping[Any, Any]) -> Any:  # noqa: ANN401
        """Draw one of the keys by the weights that are their values."""
        weights = list(drawn.values())
        numbers = all(isinstance(weight, int | float) and weight >= 0 for weight in weights)
        if not drawn or not numbers or not sum(weights):
            raise self._wrong(path, "is neither a value nor a map of values with their weights")
        share = np.array(weights, dtype=np.float64)
        return list(drawn)[int(self._rng.choice(len(weights), p=share / share.sum()))]

    def _wrong(self, path: str, detail: str) -> MalformedObject:
        return MalformedObject(self._subject, detail, path=f"{self._where}.{path}")
