"""Plays a scenario: does what its commands say in a virtual lab, and returns what they print.

Every ``wait`` lets the cluster come to rest and then asks all oracles. What they find is printed,
so a scenario that prints nothing for it is one in which everything holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from tests.apps.scheduler.gang_trials import groups_of
from tests.worlds.deployed import Trial
from tests.worlds.enforced import still_set
from tests.worlds.manifests import GROUPS, KINDS, objects, pod_document
from tests.worlds.operated import Operation
from tests.worlds.oracles import Finding
from tests.worlds.oracles.leftovers import grown, holding_on, left_over
from tests.worlds.probes import Prober
from tests.worlds.script import Block, Command, Scenario
from tests.worlds.virtual_lab import EXPORTERS, QUIET_SECONDS, Lab, virtual_lab

from numakube.api.codec import convert
from numakube.api.pod import Pod, has_ended
from numakube.errors import ApiError, NotFound
from numakube.insight.doctor.all_checks import diagnose
from numakube.insight.doctor.findings import Severity
from numakube.insight.explain import explain, in_its_gang, manifest_subject, pod_subject
from numakube.insight.explain.pod_explanation import ExplainOptions
from numakube.insight.facts import ClusterFacts
from numakube.insight.how_many_fit import copies
from numakube.insight.scheduler_engine import engine_of
from numakube.kube.catalog import NODES, PODS
from numakube.kube.client import merge_patch, strategic_patch
from numakube.kube.resource_types import ObjectKey
from numakube.kube.subresources import evict_pod
from numakube_planning.defrag.defrag_plan import MovePlan, on_known_zones
from numakube_planning.defrag.plan_making import plan_moves
from numakube_planning.fits_answer import how_many_more
from numakube_planning.rebalancer.pod_moving import Mover, PlanFollower

_SPACE: Final = "default"
_FILLING: Final = 4
_PATIENCE_SECONDS: Final = 120.0
"""How long one pod may take to move."""


@dataclass
class Play:
    """A scenario being played.

    Attributes:
        findings: what oracles have found so far.
    """

    lab: Lab
    findings: list[Finding] = field(default_factory=list)

    async def do(self, command: Command) -> list[str]:
        """Do what a command says; return what it prints."""
        verb, *words = command.words
        act: Callable[..., Awaitable[list[str] | None]] = getattr(self, f"_{verb}")
        return await act(*words, **command.options) or []

    async def _node(
        self, name: str, machine: str, claims: str = "", measured: str = "", **more: str
    ) -> None:
        has, told = bool(claims), bool(measured)
        await self.lab.add_node(name, machine, claims=has, measured=told, **more)

    async def _remove(self, name: str) -> None:
        await self.lab.remove_node(name)

    async def _producer(self, node: str, name: str) -> None:
        await self.lab.produce(node, name)

    async def _scheduler(self, act: str, name: str = "one", shard: str = "") -> None:
        match act:
            case "start" if name not in self.lab.schedulers:
                await self.lab.start_scheduler(name, shard=shard)
            case "stop" if name in self.lab.schedulers:
                await self.lab.stop_scheduler(name)
            case "kill" if name in self.lab.schedulers:
                await self.lab.kill_scheduler(name)
            case _:
                pass

    async def _create(self, kind: str, name: str, **options: str) -> None:
        for resource, document in objects(kind, name, options):
            await self.lab.client.create(resource, document, namespace=_SPACE)

    async def _delete(self, kind: str, name: str, force: str = "") -> None:
        with suppress(NotFound):
            grace = 0 if force else None
            await self.lab.client.delete(KINDS[kind], name, namespace=_SPACE, grace_seconds=grace)

    async def _scale(self, kind: str, name: str, pods: str) -> None:
        change = merge_patch({"spec": {"replicas": int(pods)}})
        with suppress(NotFound):
            await self.lab.client.patch(KINDS[kind], name, change, namespace=_SPACE)

    async def _raise(self, name: str, least: str, api: str) -> None:
        """Let a group ask for more members."""
        change = merge_patch({"spec": {"minMember": int(least)}})
        await self.lab.client.patch(groups_of(GROUPS[api]), name, change, namespace=_SPACE)

    async def _ungate(self, name: str) -> None:
        with suppress(NotFound):
            change = merge_patch({"spec": {"schedulingGates": None}})
            await self.lab.client.patch(PODS, name, change, namespace=_SPACE)

    async def _cordon(self, node: str) -> None:
        await self._change_node(node, {"spec": {"unschedulable": True}})

    async def _uncordon(self, node: str) -> None:
        await self._change_node(node, {"spec": {"unschedulable": None}})

    async def _label(self, node: str, **labels: str) -> None:
        await self._change_node(
            node, {"metadata": {"labels": {k: v or None for k, v in labels.items()}}}
        )

    async def _taint(self, node: str, key: str, effect: str = "NoSchedule") -> None:
        await self._change_node(node, {"spec": {"taints": [{"key": key, "effect": effect}]}})

    async def _untaint(self, node: str) -> None:
        await self._change_node(node, {"spec": {"taints": None}})

    async def _resize(self, name: str, cpu: str) -> None:
        """Change the CPUs of the first container of a pod in place, as kubectl does."""
        found = next((pod for pod in self.lab.pods if pod.metadata.name == name), None)
        if found is None:
            return
        container = found.spec.containers[0]
        limited = container.resources is not None and "cpu" in container.resources.limits
        new = {"requests": {"cpu": cpu}} | ({"limits": {"cpu": cpu}} if limited else {})
        change = strategic_patch(
            {"spec": {"containers": [{"name": container.name, "resources": new}]}}
        )
        with suppress(ApiError):
            await self.lab.client.patch(PODS, name, change, namespace=_SPACE, subresource="resize")

    async def _device(self, act: str, node: str) -> None:
        if node in self.lab.pool.kubelets:
            await self.lab.break_device(node, healthy=act == "mend")

    async def _server(self, act: str, seconds: str = "5") -> None:
        assert act == "restart", act
        await self.lab.restart_server(float(seconds))

    async def _extender(self, act: str) -> None:
        await (self.lab.start_extender() if act == "start" else self.lab.kill_extender())

    async def _disks(self, act: str) -> None:
        assert act == "start", act
        await self.lab.start_disks()

    async def _enforcers(self, act: str) -> list[str]:
        """Start enforcers on all nodes, kill them, or stop them as SIGTERM does."""
        match act:
            case "start":
                await self.lab.through(self.lab.enforcers.start())
                return []
            case "kill":
                await self.lab.enforcers.kill()
                return []
            case _:
                groups = await self.lab.through(self.lab.enforcers.stop())
                found = [Finding("nothing_is_left", text) for text in still_set(groups)]
                self.findings += found
                return [str(finding) for finding in found]

    async def _drivers(self, act: str, node: str = "") -> None:
        """Start drivers for CPUs of claims on all nodes, or kill that of one and start another."""
        lab = self.lab
        if act == "start":
            await lab.through(lab.claim_drivers.start(lab.pool))
        elif node in lab.pool.kubelets:
            await lab.through(lab.claim_drivers.restart(node, lab.pool))

    async def _components(self, *names: str) -> list[str]:
        """Deploy components, and remove them again."""
        found = await Trial(self.lab).of(names)
        self.findings += found
        return [str(finding) for finding in found]

    async def _operator(self) -> list[str]:
        """Install an operator, and let it do and undo its work."""
        found = await Operation(self.lab).tried()
        self.findings += found
        return [str(finding) for finding in found]

    async def _rebalancer(self, act: str) -> None:
        assert act == "start", act
        await self.lab.start_rebalancer()

    async def _change_node(self, node: str, change: dict[str, object]) -> None:
        with suppress(NotFound):
            await self.lab.client.patch(NODES, node, merge_patch(change))

    async def _drain(self, node: str) -> None:
        """Cordon a node and evict its pods, as kubectl does; those of DaemonSets stay."""
        await self._cordon(node)
        for pod in self.lab.pods:
            owners = {reference.kind for reference in pod.metadata.owner_references}
            stays = "DaemonSet" in owners or pod.metadata.namespace != _SPACE
            if pod.spec.node_name == node and not stays:
                with suppress(ApiError):
                    await evict_pod(self.lab.client, ObjectKey(_SPACE, pod.metadata.name))

    async def _kubelet(self, act: str, node: str, kubelet: str = "", version: str = "") -> None:
        if node not in self.lab.pool.kubelets:
            return
        match act:
            case "restart":
                await self.lab.through(self.lab.pool.restart(node))
            case "pause":
                self.lab.pool.pause(node)
            case "resume":
                self.lab.pool.resume(node)
            case _:
                await self.lab.reconfigure(node, kubelet, version)

    async def _watches(self, act: str) -> None:
        """Have watches broken off, or the past forgotten as well."""
        await self.lab.break_watches(forget=act == "expire")

    async def _pass(self, seconds: str) -> None:
        await self.lab.pass_time(float(seconds))

    async def _wait(self) -> list[str]:
        found = await self.lab.found_at_rest(Prober(self.lab).asked)
        self.findings += found
        return [str(finding) for finding in found]

    async def _probe(self, tool: str, **options: str) -> list[str]:
        """Ask a tool for a promise about pods that are not there yet, and create them."""
        found = await Prober(self.lab).ask(tool, options)
        self.findings += found
        return [str(finding) for finding in found]

    async def _clear(self) -> list[str]:
        """Delete all that was created; fill and clear the cluster again, and look what is left.

        Twice: much is made when it is needed for the first time, and kept.
        """
        await self._delete_all()
        told = await self.lab.found_in_the_end(self._held)
        before = None
        for _ in range(2):
            await self._fill()
            await self._delete_all()
            told += await self.lab.found_in_the_end(self._held)
            told += await self.lab.found_in_the_end(partial(self._grown, before))
            before = left_over(self.lab)
        found = [Finding("nothing_is_left", text) for text in told]
        self.findings += found
        return [str(finding) for finding in found]

    async def _held(self) -> list[str]:
        return list(holding_on(self.lab))

    async def _grown(self, before: Counter[str] | None) -> list[str]:
        return grown(before, left_over(self.lab)) if before is not None else []

    async def _fill(self) -> None:
        for number in range(_FILLING):
            await self._create("pod", f"filling-{number}", cpu="1", memory="64Mi")
        await self._create("deployment", "filling", pods="2", cpu="1", memory="64Mi")
        await self._create("gang", "fillings", pods="2", cpu="1", memory="64Mi")
        await self._create("pod", "filling-more", cpu="500", memory="64Mi")
        await self.lab.pass_time(20)

    async def _delete_all(self) -> None:
        kinds = ("deployment", "statefulset", "daemonset", "job", "pod", "claim", "disk")
        for resource in map(KINDS.__getitem__, kinds):
            for item in (await self.lab.through(self.lab.client.list(resource))).items:
                with suppress(NotFound):
                    metadata = item["metadata"]
                    if metadata["namespace"] == EXPORTERS:
                        continue
                    await self.lab.client.delete(
                        resource, metadata["name"], namespace=metadata["namespace"]
                    )
        await self.lab.pass_time(QUIET_SECONDS)

    async def _defrag(self, cpu: str, count: str) -> list[str]:
        """Plan room for so many pods, move others as planned, and create them."""
        document = pod_document("room", {"cpu": cpu, "priority": "never"})
        pod = convert(Pod, document, "pod")

        def plan_for(facts: ClusterFacts, most: int) -> MovePlan:
            del most
            subject = manifest_subject(pod, namespace=_SPACE, classes=facts.priority_classes)
            waiting = [pod for pod in facts.pods if not pod.spec.node_name and not has_ended(pod)]

            def make(known: ClusterFacts) -> MovePlan:
                wanted = copies(subject.pod, int(count))
                return plan_moves(engine_of(known), wanted, waiting=waiting)

            return on_known_zones(facts, [subject.pod], make)

        facts = await self.lab.facts()
        plan = plan_for(facts, 0)
        if not plan.steps or plan.takers or not self.lab.all_exact or self.lab.unsettled:
            return []
        mover = Mover(self.lab.client, patience=_PATIENCE_SECONDS, tell=lambda _: None)
        follower = PlanFollower(mover=mover, look=self.lab.facts_now, plan=plan_for)
        departure = await self.lab.through(follower.follow(plan, facts))
        found = [Finding("defrag_is_true", departure)] if departure else []
        names = [f"room-{number}" for number in range(len(plan.nodes))]
        for name in names:
            document = pod_document(name, {"cpu": cpu, "priority": "never"})
            await self.lab.client.create(PODS.raw, document, namespace=_SPACE)
        text = f"{plan.moves} moves were to make room for {len(names)} pods"
        promise = Finding("defrag_is_true", text)
        found += await Prober(self.lab).kept(promise, names, least=len(names), most=len(names))
        self.findings += found
        return [str(finding) for finding in found]

    async def _get(self, what: str) -> list[str]:
        assert what == "pods", what
        rows = sorted(_row(pod) for pod in self.lab.pods if pod.metadata.namespace == _SPACE)
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]

    async def _count(self, what: str) -> list[str]:
        """Say how many pods there ever were, and how many of them run."""
        assert what == "pods", what
        run = sum(pod.status is not None and pod.status.phase == "Running" for pod in self.lab.pods)
        return [f"{len(self.lab.seen.ever)} pods were created, {run} run"]

    async def _explain(self, kind: str, name: str, **options: str) -> list[str]:
        """Say what explain says of a pod, or of one that is not created yet."""
        facts = await self.lab.facts()
        found = facts.pod(_SPACE, name)
        if found is not None and not options:
            subject = pod_subject(found)
        else:
            pod = convert(Pod, pod_document(name, options), "pod")
            subject = manifest_subject(pod, namespace=_SPACE, classes=facts.priority_classes)
        told = explain(facts, engine_of(facts), subject, ExplainOptions(changes=False))
        return [in_its_gang(told, facts, engine_of, subject).summary]

    async def _doctor(self) -> list[str]:
        """Say what the doctor finds, without what is for information."""
        entries = diagnose(await self.lab.facts()).entries
        worse = [entry for entry in entries if entry.rule.severity is not Severity.INFO]
        subjects = [(entry.rule.id, entry.findings[0].subject) for entry in worse]
        return [f"{rule} {subject.kind} {subject.name}" for rule, subject in subjects]

    async def _fits(self, **options: str) -> list[str]:
        facts = await self.lab.facts()
        pod = convert(Pod, pod_document("more", options), "pod")
        subject = manifest_subject(pod, namespace=_SPACE, classes=facts.priority_classes)
        answer = how_many_more(facts, engine_of, subject)
        return [f"{answer.fits} more, {answer.unknown} unknown"]


def _row(pod: Pod) -> tuple[str, str, str]:
    """Return what is shown of a pod; of a name that was generated, the part that is not random."""
    status, name = pod.status, pod.metadata.name
    phase = status.phase if status is not None else ""
    return (
        f"{pod.metadata.generate_name}*" if pod.metadata.generate_name else name,
        status.reason if status and status.reason else phase,
        pod.spec.node_name or "-",
    )


async def played(commands: Iterable[Command], *, seed: object = 0) -> list[Finding]:
    """Play commands in a lab of their own, up to the first that finds something."""
    async with virtual_lab(seed) as lab:
        play = Play(lab)
        for command in commands:
            await play.do(command)
            if play.findings:
                break
        return play.findings


async def told(scenario: Scenario) -> Scenario:
    """Play a scenario; return it with what was really printed."""
    async with virtual_lab() as lab:
        play = Play(lab)
        blocks = [
            Block(
                block.commands,
                tuple([line for command in block.commands for line in await play.do(command)]),
            )
            for block in scenario.blocks
        ]
        return Scenario(scenario.title, tuple(blocks))
