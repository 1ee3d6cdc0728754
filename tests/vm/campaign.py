"""Campaigns: many random pods on a real kubelet, and counts of what went wrong, which must be 0."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TextIO, TypeAlias

from tests.vm.cluster import Cluster, NotInTime, Verdict, verdict_of
from tests.vm.kubelets import Choice
from tests.vm.pods import PodMaker, bound_directly
from tests.vm.reports import Settled, judge
from tests.vm.truth import Truth

from numakube.api.pod import Pod
from numakube.kubelet.admission_outcome import Admitted
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.topology.model_report import node_of

MUST_BE_ZERO: Final[Mapping[str, str]] = {
    "rejected": "bound by our scheduler, rejected by the kubelet",
    "waiting": "left waiting, though a twin bound directly is admitted",
    "mispredicted": "foreseen otherwise than it came, by the scheduler",
    "misjudged": "foreseen otherwise than it came, by the model of the report",
    "unsettled": "times at which the report never became what the books say",
    "short": "versions that list a pod with less than it ends up with",
    "forgotten": "versions in which something is free that a running pod holds",
    "lost": "versions in which a zone has less than the node",
    "inexact": "versions that have lost their exact data",
}
Action: TypeAlias = Callable[[], Awaitable[None]]
"""Something that happens to a cluster."""

_VERDICT_SECONDS: Final = 30.0
# Of one burst: each takes seconds, and most of them say the same.
_MOST_TWINS: Final = 4
_QUIET_SECONDS: Final = 1.5
# The scheduler tries again after at most ten seconds.
_BACKOFF_SECONDS: Final = 14.0


@dataclass(slots=True)
class Campaign:
    """Runs pods against one cluster and counts.

    Attributes:
        cluster: what it runs on.
        rng: the source of randomness.
        counts: how often what happened.
        details: what was wrong, in words.
        stuck: whether pods are admitted only and never run.
        out: where progress is printed.
    """

    cluster: Cluster
    rng: Random
    stuck: bool = False
    out: TextIO = sys.stderr
    counts: Counter[str] = field(default_factory=Counter)
    details: list[str] = field(default_factory=list)
    _choice: Choice = field(default_factory=Choice)
    _number: int = 0
    _before: Settled | None = None
    _judged: int = 0
    _mispredictions: int = 0
    _restarting: bool = False

    async def use(self, choice: Choice) -> None:
        """Go on under another configuration of the kubelet."""
        self.counts["configurations"] += 1
        self.say(f"kubelet: {choice.name}")
        await self.cluster.configure(choice)
        await self.adopt(choice)

    async def adopt(self, choice: Choice) -> None:
        """Take over a cluster whose kubelet has that configuration already."""
        self._choice, self._before = choice, None
        self._judged = len(self.cluster.watcher.versions)
        self._mispredictions = await self.cluster.mispredictions()
        await self.settle()

    async def one_by_one(self, pods: int) -> None:
        """Create pods one after the other, and take some away again."""
        for _ in range(pods):
            settled = await self.settle()
            document = self._maker().draw(self._name("p"))
            pod = await self.cluster.create(document)
            verdict = await self._verdicts([pod.metadata.name])
            await self._account(document, verdict, settled)
            await self._make_room(1 / max(4, len(self.cluster.live)))
        await self.settle()

    async def burst(
        self, pods: int, *, meanwhile: Action | None = None, restarting: bool = False
    ) -> None:
        """Create pods all at once, do something in the middle, and look when all is quiet.

        Args:
            pods: how many.
            meanwhile: what to do.
            restarting: whether that takes kubelet or device plugins away from the pods.
        """
        await self.settle()
        maker = self._maker()
        documents = [maker.draw(self._name("b")) for _ in range(pods)]
        created = asyncio.gather(*(self.cluster.create(document) for document in documents))
        await created
        self._restarting = restarting
        if meanwhile is not None:
            await meanwhile()
        names = [document["metadata"]["name"] for document in documents]
        verdicts = await self._verdicts(names)
        settled = await self.settle()
        for name in set(names) & set(self.cluster.live.values()):
            verdicts[name] = ("admitted", verdicts[name][1])
        waiting = [name for name in names if verdicts[name][0] == "waiting"]
        untried = set(waiting[_MOST_TWINS:])
        for document in documents:
            if document["metadata"]["name"] not in untried:
                await self._account(document, verdicts, settled, burst=True)
        await self.cluster.delete(*untried)
        await self._make_room(0.6)
        await self.settle()
        self._restarting = False

    async def disturb(self, name: str, action: Action) -> None:
        """Let something happen to the node while its pods run."""
        await self.settle()
        self.counts[name] += 1
        await action()
        await self.settle()

    async def settle(self) -> tuple[Settled, Truth] | None:
        """Wait until report and books agree, and judge what was published meanwhile."""
        try:
            found = await self.cluster.settle()
        except NotInTime as error:
            self._wrong("unsettled", str(error))
            return None
        settled = found[0]
        versions = self.cluster.watcher.versions[self._judged : settled.position]
        self.counts["versions"] += len(versions)
        for version, kind, texts in judge(versions, self._before, settled):
            at = time.strftime("%H:%M:%S", time.gmtime(version.time))
            self._wrong(kind, f"version {version.name} at {at}: {'; '.join(texts)}")
        self._judged, self._before = settled.position, settled
        self.counts["settled"] += 1
        self.counts["failed by a kubelet that restarts"] = len(self.cluster.failed)
        await self._look_for_mispredictions()
        return found

    async def _account(
        self,
        document: Mapping[str, Any],
        verdicts: Mapping[str, tuple[Verdict, Pod]],
        settled: tuple[Settled, Truth] | None,
        *,
        burst: bool = False,
    ) -> None:
        name = document["metadata"]["name"]
        verdict, pod = verdicts[name]
        self.counts[f"pods {verdict}"] += 1
        if verdict == "rejected":
            status = pod.status
            words = f"{status.reason}: {status.message}" if status is not None else ""
            self._wrong(self._kind("rejected"), f"{name} {_wishes(document)}: {words}")
            await self.cluster.delete(name)
        elif verdict == "waiting":
            await self._try_twin(document, pod)
        elif verdict == "admitted" and not burst and settled is not None:
            await self._compare_with_model(pod, settled[0])
        elif verdict == "unknown":
            self._wrong("unsettled", f"{name}: neither admitted nor rejected nor told to wait")

    async def _compare_with_model(self, pod: Pod, before: Settled) -> None:
        """Compare what the kubelet gave to *pod* with what the model of the report gives it."""
        report = before.version.exact
        assert report is not None, "a settled report has exact data"
        model = node_of(report)
        assert isinstance(model, KubeletNode), model
        foreseen = model.admit(pod)
        after = await self.settle()
        if after is None:
            return
        held = after[0].held.get(pod.metadata.uid)
        if not isinstance(foreseen, Admitted) or held is None:
            self._wrong("misjudged", f"{pod.metadata.name}: {foreseen}, but it runs")
            return
        cpus = 0
        for container in foreseen.containers.values():
            cpus |= container.cpus.bits
        memory = tuple(
            sorted(
                (block.numa_nodes, block.type, block.size_bytes)
                for container in foreseen.containers.values()
                for block in container.memory
            )
        )
        self.counts["compared with the model"] += 1
        if cpus != held.cpus.bits or memory != held.memory:
            self._wrong("misjudged", f"{pod.metadata.name}: {foreseen}, kubelet: {held}")
        books = model.memory.books if model.memory is not None else {}
        groups, cells = {number: one.cells for number, one in books.items()}, after[1].cells
        if groups != cells:
            self._wrong("misjudged", f"{pod.metadata.name}: groups {groups}, kubelet: {cells}")

    async def _try_twin(self, document: Mapping[str, Any], pod: Pod) -> None:
        """Ask the kubelet itself about a pod that the scheduler leaves waiting."""
        name = document["metadata"]["name"]
        if await self._is_scheduled_later(pod):
            await self._account(document, await self._verdicts([name]), None, burst=True)
            return
        await self.cluster.delete(name)
        twin = bound_directly(document, f"{name}-twin", self.cluster.node.name)
        await self.cluster.create(twin)
        verdicts = await self._verdicts([f"{name}-twin"])
        self.counts["twins"] += 1
        if verdicts[f"{name}-twin"][0] == "admitted":
            self._wrong("waiting", f"{name} {_wishes(document)}: {_why_waiting(pod)}")
        await self.cluster.delete(f"{name}-twin")

    async def _is_scheduled_later(self, pod: Pod) -> bool:
        """Give the scheduler the time of a retry, if the model says that the pod fits by now."""
        if self._before is None or self._before.version.exact is None:
            return False
        model = node_of(self._before.version.exact)
        if not isinstance(model, KubeletNode) or not isinstance(model.admit(pod), Admitted):
            return False

        async def waits() -> str:
            verdict, _ = verdict_of((await self.cluster.pods()).get(pod.metadata.name))
            return "" if verdict in ("admitted", "rejected") else verdict

        try:
            await self.cluster.until(waits, within=_BACKOFF_SECONDS)
        except NotInTime:
            return False
        return True

    async def _verdicts(self, names: Sequence[str]) -> dict[str, tuple[Verdict, Pod]]:
        """Wait until each pod has been decided on, and nothing changes for a moment."""
        seen: dict[str, tuple[Verdict, Pod]] = {}
        since = time.monotonic()
        quiet = _QUIET_SECONDS * self.cluster.node.slowness if len(names) > 1 else 0.0

        async def undecided() -> str:
            nonlocal since
            pods = await self.cluster.pods()
            now = {name: verdict_of(pods[name]) for name in names if name in pods}
            if {n: v for n, (v, _) in now.items()} != {n: v for n, (v, _) in seen.items()}:
                since = time.monotonic()
            seen.clear()
            seen.update(now)
            open_ones = [name for name, (verdict, _) in now.items() if verdict == "unknown"]
            settled = not open_ones and time.monotonic() - since >= quiet
            return "" if settled else f"undecided: {open_ones}"

        try:
            await self.cluster.until(undecided, within=_VERDICT_SECONDS + len(names))
        except NotInTime as error:
            self.say(str(error))
        for name, (verdict, pod) in seen.items():
            if verdict == "admitted":
                self.cluster.live[pod.metadata.uid] = name
        return seen

    async def _make_room(self, share: float) -> None:
        """Delete some pods, so that others fit and the free room has holes."""
        names = list(self.cluster.live.values())
        if leaving := [name for name in names if self.rng.random() < share]:
            await self.cluster.delete(*leaving)

    async def _look_for_mispredictions(self) -> None:
        count = await self.cluster.mispredictions()
        if new := count - self._mispredictions:
            self._mispredictions = count
            log = self.cluster.scheduler.last_words(50_000)
            for pod in re.findall(r" misprediction .* pod=default/(\S+)", log)[-new:]:
                events = await self.cluster.events_of(pod)
                wrong = [event for event in events if event["event"] == "mispredicted"]
                if not events:
                    # Its zones are not recorded: nobody can tell if more than devices differ.
                    self.counts["foreseen otherwise, of pods bound directly"] += 1
                elif wrong and all(map(only_devices_differ, wrong)):
                    self.counts["devices that the kubelet took at random"] += 1
                else:
                    self._wrong(self._kind("mispredicted"), f"{pod}: {wrong or events}")

    def _kind(self, kind: str) -> str:
        """Return what a mistake counts as; a starting kubelet admits pods in an order of its own.

        It takes those that were bound while it was away by their age, before device plugins are
        back, and rejects pods that it had admitted before: nobody can foresee that.
        """
        return f"{kind} during a restart" if self._restarting else kind

    def _maker(self) -> PodMaker:
        return PodMaker(
            self.cluster.node.machine,
            self.rng,
            wide=self._choice.policy != "single-numa-node",
            whole_cores="full-pcpus-only" in self._choice.cpu_options,
            stuck=self.stuck,
        )

    def _name(self, letter: str) -> str:
        self._number += 1
        self.counts["pods"] += 1
        return f"{letter}{self._number}"

    def _wrong(self, kind: str, text: str) -> None:
        self.counts[kind] += 1
        self.details.append(f"{kind} ({self._choice.name}): {text}")
        self.say(f"  {kind}: {text[:400]}")

    def say(self, text: str) -> None:
        """Tell about progress."""
        print(f"{time.strftime('%H:%M:%S')} {text}", file=self.out, flush=True)

    @property
    def mistakes(self) -> dict[str, int]:
        """The counts that must be 0 and are not."""
        return {name: self.counts[name] for name in MUST_BE_ZERO if self.counts[name]}

    def table(self) -> str:
        """Return all counts, for people."""
        others = sorted(self.counts.keys() - MUST_BE_ZERO.keys())
        rows = [f"{self.counts[name]:>6}  {name}" for name in others]
        rows += [f"{self.counts[name]:>6}  {name}: {MUST_BE_ZERO[name]}" for name in MUST_BE_ZERO]
        return "\n".join(rows)

    def line(self) -> str:
        """Return all counts, for programs."""
        zeros = dict.fromkeys(MUST_BE_ZERO, 0)
        return json.dumps({**zeros, **self.counts}, sort_keys=True)


def only_devices_differ(event: Mapping[str, Any]) -> bool:
    """Tell whether a misprediction is about devices alone.

    Among devices that are equally good the kubelet takes any, unless their plugin has a preference.
    """
    predicted, reported = event["predicted"], event["reported"]
    if "zones" not in (predicted or ()) or "zones" not in reported:
        return False
    return _without_devices(predicted["zones"]) == _without_devices(reported["zones"])


def _without_devices(zones: Sequence[Mapping[str, Any]]) -> list[tuple[list[int], dict[str, str]]]:
    kept = [
        (zone["ids"], {name: one for name, one in zone["amounts"].items() if "/" not in name})
        for zone in zones
    ]
    return [(ids, amounts) for ids, amounts in kept if amounts]


def _why_waiting(pod: Pod) -> str:
    conditions = pod.status.conditions if pod.status is not None else ()
    return next(
        (condition.message for condition in conditions if condition.type == "PodScheduled"), ""
    )


def _wishes(document: Mapping[str, Any]) -> str:
    spec = document["spec"]
    containers = [*spec.get("initContainers", ()), *spec["containers"]]
    return json.dumps([container["resources"].get("requests") for container in containers])
