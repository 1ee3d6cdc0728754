"""Promises of tools that are tried at once: what they say of pods is done, and has to come true.

probe fits cpu=2          so many more run as fits says, and not one more; /v1/fit says the same
probe simulate cpu=2      as many of some more run as in a simulation in which they come
probe explain cpu=2       the pod runs if and only if explain says that it fits
probe changes cpu=40      with a change that explain proposes the pod runs
probe advise cpu=5        with a size that advise names it runs on as many nodes as it says
probe hold cpu=2          room that a scheduler keeps is there, and others stay off it
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from tests.insight.explain.applying import applied, can_apply
from tests.worlds.fit_service import asked_to_fit
from tests.worlds.manifests import objects, pod_document
from tests.worlds.oracles import Finding, asked
from tests.worlds.oracles.placement import SIMULATED
from tests.worlds.virtual_lab import Lab
from tests.worlds.virtual_machines import seen_cells, told_of_cells

from numakube.annexes import Group, loaded
from numakube.api.codec import convert
from numakube.api.fit_question import HOLD
from numakube.api.pod import Pod, has_ended
from numakube.errors import InvalidValue
from numakube.insight.explain import explain, manifest_subject
from numakube.insight.explain.explained_pod import Subject
from numakube.insight.explain.explanation_document import Change, Explanation
from numakube.insight.explain.pod_explanation import ExplainOptions
from numakube.insight.facts import ClusterFacts
from numakube.insight.scheduler_engine import engine_of
from numakube.insight.usage.largest_pod import parse_shape, pod_of
from numakube.insight.usage.named_resources import in_full
from numakube.kube.catalog import PODS
from numakube_planning.advice import advice_on
from numakube_planning.fits_answer import HowManyMore, how_many_more
from numakube_planning.simulation.compared_schedulers import ours
from numakube_planning.simulation.simulated_cluster import cluster_of, waiting_in
from numakube_planning.simulation.simulator import Run
from numakube_planning.simulation.workload import Arrival, ArrivingWork, OwnerKind

_SPACE: Final = "default"
_MOST_PROBES: Final = 60
_HOLD_SECONDS: Final = 600
_HOST: Final = "kubernetes.io/hostname"
_ON_PODS: Final = frozenset(
    {
        "tolerate", "node-selector", "node-affinity", "topology-spread", "pod-affinity",
        "pod-anti-affinity", "whole-cpus", "numa-scope", "numa-policy", "offer", "more",
        "more-cpus", "more-memory", "fewer-cpus", "less-memory", "fewer-hugepages",
        "fewer-devices", "combined",
    }
)  # fmt: skip
"""Changes of the pod itself; those of the cluster are for whoever comes first."""


@dataclass(frozen=True, slots=True)
class Prober:
    """Asks tools, and tries what they say."""

    lab: Lab

    async def ask(self, tool: str, options: Mapping[str, str]) -> list[Finding]:
        """Return which promises were not kept, and what does not hold besides."""
        if not self.lab.served or self.lab.unsettled:
            return []
        told = {key: text for key, text in options.items() if key != "pick"} | {"priority": "never"}
        for resource, document in objects("pod", "probe", told):
            if resource.plural != PODS.plural:
                await self.lab.client.create(resource, document, namespace=_SPACE)
        facts = await self.lab.facts()
        pod = convert(Pod, pod_document("probe", told), "pod")
        subject = manifest_subject(pod, namespace=_SPACE, classes=facts.priority_classes)
        pick = int(options.get("pick", "0"))
        match tool:
            case "fits":
                return await self._fits(facts, subject, told)
            case "simulate":
                return await self._simulate(facts, subject, told)
            case "changes":
                return await self._changes(facts, subject, pick)
            case "advise":
                return await self._advise(facts, subject, told, pick)
            case "hold":
                return await self._hold(facts, subject, told)
            case _:
                return await self._explain(facts, subject, told)

    async def _explain(
        self, facts: ClusterFacts, subject: Subject, options: Mapping[str, str]
    ) -> list[Finding]:
        engine = engine_of(facts)
        said = explain(facts, engine, subject, ExplainOptions(changes=False))
        for add in loaded(Group.EXPLAINERS).values():
            said = add(said, engine, subject)
        fits, unknown = int(said.verdict == "fits"), int(said.verdict == "unknown")
        text = f"explain says that a pod with {options} {said.verdict}"
        promise = Finding("explain_is_true", text)
        names = await self._created(_copies(options, 1))
        self.lab.told[promise.oracle] += 1
        most = fits + unknown if self._is_certain else len(names)
        found = await self.kept(promise, names, least=fits, most=most)
        found += self._other_cells(said, names)
        await self._deleted(names)
        return found

    def _other_cells(self, said: Explanation, names: Collection[str]) -> Iterator[Finding]:
        """Yield guests that see other NUMA nodes than was said."""
        for pod in self.lab.pods:
            node = pod.spec.node_name
            if pod.metadata.name not in names or node != said.chosen or not self.lab.all_exact:
                continue
            cells = seen_cells(self.lab.pool.kubelet(node), pod)
            if cells and not told_of_cells(said, cells):
                text = f"{said.notes}, and the guest on {node} sees {cells}"
                yield Finding("guests_see_what_explain_says", text)

    async def _fits(
        self, facts: ClusterFacts, subject: Subject, options: Mapping[str, str]
    ) -> list[Finding]:
        answer = how_many_more(facts, engine_of, subject)
        most = answer.fits + answer.unknown
        if most > _MOST_PROBES:
            return []
        text = f"{answer.fits} more pods with {options} fit (and {answer.unknown} may)"
        services = await self._services(answer.fits, most, options)
        services += self._by_shape(facts, answer, options)
        promise = Finding("fits_is_true", text)
        pods = _copies(options, most + 1)
        return [*services, *await self._tried(promise, pods, least=answer.fits, most=most)]

    def _by_shape(
        self, facts: ClusterFacts, answer: HowManyMore, options: Mapping[str, str]
    ) -> Iterator[Finding]:
        """Ask for the same amounts by short names, as users do, and for what no node has."""
        if options.keys() - {"cpu", "memory", "gpu", "priority"} or not self.lab.all_exact:
            return
        amounts = [f"{name}={text}" for name, text in options.items() if name != "priority"]
        said = _fits_by_shape(facts, ",".join(amounts))
        if said != (answer.fits, answer.unknown) and (said is not None or answer.fits):
            text = f"fits says {answer.fits} of a pod with {amounts}, and {said} of its shape"
            yield Finding("shapes_are_understood", text)
        if (said := _fits_by_shape(facts, "cpu=1,npu=1")) is not None:
            yield Finding("shapes_are_understood", f"no node has an npu, and fits says {said}")

    async def _simulate(
        self, facts: ClusterFacts, subject: Subject, options: Mapping[str, str]
    ) -> list[Finding]:
        """Let more pods come than fit, in a simulation of the present state and then really."""
        room = how_many_more(facts, engine_of, subject).fits
        if not self.lab.all_exact or self.lab.sharded or room >= _MOST_PROBES:
            return []
        pods = _copies(options, room + 1)
        documents = (dict(one["document"]) for one in pods)
        coming = [
            Arrival(
                at=1.0,
                pod=_as_created(_named(document, f"probe-{number}"), facts),
                owner=OwnerKind.POD,
            )
            for number, document in enumerate(documents)
        ]
        run = Run(cluster_of(facts, "the lab"), ours(), 0, SIMULATED)
        run.play(ArrivingWork(arrivals=(*waiting_in(facts).arrivals, *coming)))
        fates = run.fates()
        placed = sum(fates[pod.pod.metadata.name] in facts.nodes for pod in coming)
        text = f"of {len(pods)} more pods with {options} {placed} run in a simulation"
        promise = Finding("simulations_come_true", text)
        return await self._tried(promise, pods, least=placed, most=placed)

    async def _services(self, least: int, most: int, options: Mapping[str, str]) -> list[Finding]:
        """Ask every scheduler the same over HTTP, as users write pods: with limits only."""
        found = []
        for name, running in self.lab.schedulers.items():
            if not running.process.leading or running.task.done() or running.shard:
                continue
            document = _with_limits_only(pod_document("probe", options))
            told = await asked_to_fit(self.lab, running, {"pod": document, "count": most + 1})
            self.lab.told["fit_services_agree"] += 1
            if self.lab.all_exact and not least <= told["fits"] <= most:
                text = f"scheduler {name} says {told['fits']}, fits says {least} to {most}"
                found.append(Finding("fit_services_agree", f"{text} of pods with {options}"))
        return found

    async def _changes(self, facts: ClusterFacts, subject: Subject, pick: int) -> list[Finding]:
        said = explain(facts, engine_of(facts), subject, ExplainOptions())
        changes = [change for change in said.changes if _is_of_pod(change) and can_apply(change)]
        if not changes or not self.lab.all_exact:
            return []
        change = changes[pick % len(changes)]
        _, pod = applied(change, facts, subject.pod)
        document = json.loads(msgspec.json.encode(pod))
        document.pop("status", None)
        document["metadata"].pop("uid", None)
        promise = Finding("changes_help", f"explain says: {change.text} ({change.kind})")
        return await self._tried(promise, [{"document": document}], least=1, most=1)

    async def _advise(
        self,
        facts: ClusterFacts,
        subject: Subject,
        options: Mapping[str, str],
        pick: int,
    ) -> list[Finding]:
        told = advice_on(facts, engine_of, subject.pod, name="pod/probe")
        sizes = [*told.smaller, *told.larger]
        if not sizes or not self.lab.all_exact:
            return []
        size = sizes[pick % len(sizes)]
        change = Change(
            kind="fewer-cpus",
            text="",
            container=size.container,
            resource=size.resource,
            was=size.was,
            to=size.to,
        )
        pod = convert(Pod, pod_document("probe", {**options, "apart": _HOST}), "pod")
        _, pod = applied(change, facts, pod)
        document = json.loads(msgspec.json.encode(pod))
        promise = Finding("advice_is_true", f"advise says: {size.text}")
        pods = [{"document": document}] * (size.nodes + 1)
        return await self._tried(promise, pods, least=size.nodes, most=size.nodes)

    async def _hold(
        self, facts: ClusterFacts, subject: Subject, options: Mapping[str, str]
    ) -> list[Finding]:
        """Have room kept for a pod, let others come, and then the pod."""
        answer = how_many_more(facts, engine_of, subject)
        leading = [
            scheduler
            for scheduler in self.lab.schedulers.values()
            if scheduler.process.leading and not scheduler.task.done() and not scheduler.shard
        ]
        room = answer.fits
        if answer.unknown or not self.lab.all_exact or not leading or not 0 < room < _MOST_PROBES:
            return []
        (running,) = leading
        hold = {"name": "later", "seconds": _HOLD_SECONDS}
        document = _with_limits_only(pod_document("probe", options))
        told = await asked_to_fit(self.lab, running, {"pod": document, "count": 1, "hold": hold})
        found = []
        if told["fits"] != 1:
            text = f"{room} pods with {options} fit, a scheduler keeps no room for one"
            found.append(Finding("holds_are_kept", text))
        self.lab.told["holds_are_kept"] += 1
        others = await self._created(_copies(options, room + 1))
        await self.lab.pass_time(30)
        if (run := self._running(others)) != room - 1:
            text = f"{room} pods with {options} fit, room for one is kept, and {run} others run"
            found.append(Finding("holds_are_kept", text))
        kept = pod_document("kept", options)
        kept["metadata"]["annotations"][HOLD] = "later"
        names = await self._created([{"document": kept}], "kept")
        await self.lab.pass_time(30)
        if self._running(names) != 1:
            text = f"a pod with {options} for which room is kept does not run"
            found.append(Finding("holds_are_kept", text))
        await asked_to_fit(
            self.lab, running, {"pod": document, "hold": {"name": "later", "seconds": 0}}
        )
        await self._delete([*others, *names])
        return [*found, *await self.lab.found_at_rest(self.asked)]

    async def asked(self) -> list[Finding]:
        """Ask all oracles."""
        return [finding async for finding in asked(self.lab)]

    async def kept(
        self, promise: Finding, names: Collection[str], *, least: int, most: int
    ) -> list[Finding]:
        """Return what does not hold at rest, the *promise* of so many pods that run included.

        Whoever knows amounts alone may promise what a kubelet then rejects.
        """

        async def ask() -> list[Finding]:
            found = await self.asked()
            if not least <= (run := self._running(names)) <= most and not self.lab.unsettled:
                found.append(Finding(promise.oracle, f"{promise.text}, {run} run"))
            return found

        return await self.lab.found_at_rest(ask)

    async def _tried(
        self, promise: Finding, pods: list[dict[str, Any]], *, least: int, most: int
    ) -> list[Finding]:
        self.lab.told[promise.oracle] += 1
        names = await self._created(pods)
        bound = most if self._is_certain else len(pods)
        found = await self.kept(promise, names, least=least, most=bound)
        await self._deleted(names)
        return found

    @property
    def _is_certain(self) -> bool:
        """Whether no more can run than was promised."""
        return self.lab.all_exact and not self.lab.rebalances

    async def _created(self, pods: list[dict[str, Any]], of: str = "probe") -> list[str]:
        names = [f"{of}-{number}" for number in range(len(pods))]
        for name, one in zip(names, pods, strict=True):
            document = json.loads(json.dumps(one["document"]))
            document["metadata"]["name"] = name
            await self.lab.client.create(PODS.raw, document, namespace=_SPACE)
        return names

    async def _deleted(self, names: Collection[str]) -> None:
        await self._delete(names)
        await self.lab.pass_time(10)

    async def _delete(self, names: Collection[str]) -> None:
        for name in names:
            await self.lab.client.delete(PODS.raw, name, namespace=_SPACE)

    def _running(self, names: Collection[str]) -> int:
        return sum(
            pod.metadata.name in names and bool(pod.spec.node_name) and not has_ended(pod)
            for pod in self.lab.pods
        )


def _fits_by_shape(facts: ClusterFacts, shape: str) -> tuple[int, int] | None:
    """Return how many pods of a shape fit, and how many may; ``None`` if it is not understood."""
    try:
        pod = pod_of(in_full(parse_shape(shape), facts))
    except InvalidValue:
        return None
    subject = manifest_subject(pod, namespace=_SPACE, classes=facts.priority_classes)
    answer = how_many_more(facts, engine_of, subject)
    return answer.fits, answer.unknown


def _named(document: dict[str, Any], name: str) -> dict[str, Any]:
    metadata = {**document["metadata"], "name": name, "namespace": _SPACE, "uid": name}
    return {**document, "metadata": metadata}


def _as_created(document: dict[str, Any], facts: ClusterFacts) -> Pod:
    """Return a pod as the API server completes it: with what its priority class says."""
    pod = convert(Pod, document, "pod")
    return manifest_subject(pod, namespace=_SPACE, classes=facts.priority_classes).pod


def _copies(options: Mapping[str, str], count: int) -> list[dict[str, Any]]:
    return [{"document": pod_document("probe", options, of="probe")}] * count


def _with_limits_only(document: dict[str, Any]) -> dict[str, Any]:
    """Return a pod as users write it: the API server copies limits into requests."""
    made: dict[str, Any] = json.loads(json.dumps(document))
    for container in (*made["spec"]["containers"], *made["spec"].get("initContainers", ())):
        resources = container["resources"]
        if resources.get("limits") == resources.get("requests"):
            resources.pop("requests", None)
    return made


def _is_of_pod(change: Change) -> bool:
    return change.kind in _ON_PODS and all(map(_is_of_pod, change.parts))
