"""Plays scenarios about levels: gangs on kubelet models and the scheduler's own engine.

    levels block rack                          coarse to fine; labels are example.com/NAME
    nodes A/r1=5 A/r2=3 machine="..."          so many nodes in each domain
    hold a-0 A-r1-0 cpu=6 gang=g whole=yes     a pod that runs
    gang train pods=8 required=block           is planned, and keeps its places
    more train pods=2                          members that come later
    fail A-r1-0                                a node is gone, with what ran there
    pod web cpu=6                              a single pod, protected domains or not
    states size=16 cpu=6                       what has become of the domains of the finest level
    ----
    A/r1=5 A/r2=3

A node takes one pod of a gang, unless a machine says otherwise.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np
from tests.worlds.manifests import WISHES
from tests.worlds.script import Block, Command, Scenario

from numakube.insight.how_many_fit import EngineBooks, book
from numakube.kubelet import PRESETS
from numakube.scheduling.assembly import Engine
from numakube.scheduling.cycle import Chosen, Cycle
from numakube.scheduling.gang_placements import GangRequest
from numakube.scheduling.gang_planning import GangPlanner
from numakube.scheduling.plugins.pod_gangs import (
    DISRUPTION_MODE,
    MIN_LABEL,
    NAME_LABEL,
    Gang,
    gang_of,
)
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, pod
from numakube_lab.testing import without_election
from numakube_levels.domain_protection import DomainProtection
from numakube_levels.domain_states import summary_of

_LABEL: Final = "example.com/"
_MACHINE: Final = "1 socket, 8 cores, smt 1, 16Gi"
_CPU: Final = "6"
_HIGH: Final = {"high": 1000, "low": -10}
_MORE_WISHES: Final = {
    **WISHES,
    "numakube.dev/gang-slices-rest": "rest",
    "numakube.dev/gang-max-count": "max",
    "numakube.dev/gang-sub-group": "sub-group",
}


@dataclass
class Play:
    """A cluster, and the gangs on it."""

    world: World = field(default_factory=World)
    levels: tuple[str, ...] = ("rack",)
    spare: int = 0
    protection: dict[str, Any] = field(default_factory=dict)
    gangs: dict[str, dict[str, str]] = field(default_factory=dict)
    made: Engine | None = None

    @property
    def engine(self) -> Engine:
        """The scheduler's engine, made when it is asked first."""
        if self.made is None:
            levels: list[dict[str, Any]] = [
                {"name": one, "label": f"{_LABEL}{one}"} for one in self.levels
            ]
            levels[-1]["spare"] = self.spare
            args: dict[str, dict[str, Any]] = {"TopologyLevels": {"levels": levels}}
            if self.protection:
                args["DomainProtection"] = self.protection
            self.made = self.world.scheduler(without_election(**args)).engine
        return self.made

    def do(self, command: Command) -> list[str]:
        """Do what a command says; return what it prints."""
        verb, *words = command.words
        said: list[str] | None = getattr(self, f"_{verb}")(*words, **command.options)
        return said or []

    def _levels(self, *names: str, spare: str = "0") -> None:
        self.levels, self.spare = names, int(spare)

    def _protect(self, strength: str, size: str, cpu: str = _CPU, **devices: str) -> None:
        shape = {"requests": {"cpu": cpu, "memory": "1Gi", **devices}, "count": int(size)}
        self.protection = {"level": self.levels[-1], "strength": strength, "shapes": [shape]}

    def _nodes(
        self, machine: str = _MACHINE, policy: str = "", kind: str = "", **domains: str
    ) -> None:
        for path, count in domains.items():
            values = path.split("/")
            labels = {
                f"{_LABEL}{level}": value
                for level, value in zip(self.levels, values, strict=True)
                if value != "none"
            }
            for number in range(int(count)):
                name = f"{path.replace('/', '-')}-{kind}{number:02}"
                shape = PRESETS.get(machine, machine)
                self.world.add_node(
                    name, policy or "single-numa-node", machine=shape, labels=labels
                )

    def _hold(self, name: str, node: str, cpu: str = _CPU, gang: str = "", **more: str) -> None:
        labels = {NAME_LABEL: gang, MIN_LABEL: "1"} if gang else {}
        mode = {DISRUPTION_MODE: "all"} if more.pop("whole", "") else {}
        priority = _HIGH.get(more.pop("priority", ""), 0)
        self.world.run(
            pod(name, cpu, "1Gi", labels=labels, annotations=mode, priority=priority, also=more),
            node,
        )

    def _gang(self, name: str, **options: str) -> list[str]:
        self.gangs[name] = {"least": options["pods"], **options}
        return self._planned(name, int(options["pods"]))

    def _free(self, name: str) -> None:
        """Delete a gang."""
        cluster, cache = self.engine.cluster, self.engine.cache
        for one in self._running():
            if one.labels.get(NAME_LABEL) == name:
                changes = cache.pod_gone(one.uid)
                cluster.remove_pod(one.uid)
                cluster.take(changes, cache)

    def _more(self, name: str, pods: str, least: str = "") -> list[str]:
        self.gangs[name] |= {"least": least} if least else {}
        return self._planned(name, int(pods))

    def _planned(self, name: str, count: int) -> list[str]:
        """Plan members that come, and keep what fits; say where, or what is short."""
        engine, told = self.engine, self.gangs[name]
        running = [one for one in self._running() if one.labels.get(NAME_LABEL) == name]
        groups = [part.partition(":")[0] for part in told.get("parts", "").split(",")]
        pods = [
            self._member(
                f"{name}-{len(running) + number}", told, group=groups[number % len(groups)]
            )
            for number in range(count)
        ]
        gang = gang_of(pods[0], engine.cluster.objects)
        assert isinstance(gang, Gang)
        nodes = [engine.cluster.node_of(one.uid) or "" for one in running]
        needed = max(gang.min_count - len(running), 1)
        request = GangRequest(gang, pods, needed, nodes, running)
        status = engine.runtime_for(pods[0].scheduler_name).pre_enqueue(pods[0])
        if not status.ok and "waiting for more pods" not in status.message:
            return [status.message]
        planner = GangPlanner(engine, EngineBooks(engine))
        plan = planner.plan(request)
        if plan.fitting < needed:
            return [plan.why_not(request)]
        evicted = Counter(
            victim.name.rpartition("-")[0] for _, one in plan.nominations for victim in one.victims
        )
        places = [one.node for _, one in plan.placements]
        places += [one.node for _, one in plan.nominations]
        where = Counter(map(self._path, places))
        lines = [" ".join(f"{path}={number}" for path, number in sorted(where.items()))]
        if plan.refused:
            lines.append(f"{len(plan.refused)} wait")
        if evicted:
            lines.append("evicts " + " ".join(f"{k}={v}" for k, v in sorted(evicted.items())))
            planner.undo(plan)
        return lines

    def _member(self, name: str, told: dict[str, str], group: str) -> PodInfo:
        labels = {NAME_LABEL: name.rpartition("-")[0], MIN_LABEL: told["least"]}
        told = {**told, "sub-group": group} if group else told
        if name.endswith("-0"):
            told = {**told, **_leader(told)}
        wishes = {key: told[option] for key, option in _MORE_WISHES.items() if option in told}
        if "parts" in told:
            wishes["numakube.dev/gang-sub-groups"] = _sub_groups(told["parts"])
        also = {key: amount for key, amount in told.items() if "/" in key and amount != "0"}
        priority = _HIGH.get(told.get("priority", ""), 0)
        made = pod(
            name,
            told.get("cpu", _CPU),
            told.get("memory", "1Gi"),
            labels=labels,
            annotations=wishes,
            priority=priority,
            also=also,
        )
        return PodInfo(made)

    def _running(self) -> list[PodInfo]:
        return [one for node in self.engine.cluster.nodes() for one in node.pods.values()]

    def _path(self, node: str) -> str:
        return node.rpartition("-")[0].replace("-", "/")

    def _label(self, node: str, **values: str) -> None:
        """Change the labels of a node."""
        cluster = self.engine.cluster
        there = cluster.by_row[cluster.row_of[node]]
        assert there is not None
        meta = there.node.metadata
        labels = {**meta.labels, **{f"{_LABEL}{level}": value for level, value in values.items()}}
        meta = msgspec.structs.replace(meta, labels=labels)
        cluster.set_node(msgspec.structs.replace(there.node, metadata=meta))

    def _fail(self, node: str) -> None:
        cluster, cache = self.engine.cluster, self.engine.cache
        there = cluster.by_row[cluster.row_of[node]]
        assert there is not None
        for one in list(there.pods.values()):
            changes = cache.pod_gone(one.uid)
            cluster.remove_pod(one.uid)
            cluster.take(changes, cache)
        cluster.take(cache.remove_report(node), cache)
        cluster.remove_node(node)

    def _pod(self, name: str, count: str = "1", cpu: str = _CPU, **also: str) -> list[str]:
        """Place single pods as the scheduler does; say how many each domain got."""
        engine = self.engine
        cycle = Cycle(engine.cluster, engine.nominations, np.random.default_rng(1))
        where: Counter[str] = Counter()
        for number in range(int(count)):
            info = PodInfo(pod(f"{name}-{number}", cpu, "1Gi", also=also))
            runtime = engine.runtime_for(info.scheduler_name)
            decision = cycle.decide(info, runtime)
            if not isinstance(decision, Chosen):
                return [decision.why]
            assert book(engine, runtime, decision.state, info, decision.node).ok
            where[self._path(decision.node)] += 1
        return [" ".join(f"{path}={number}" for path, number in sorted(where.items()))]

    def _states(self) -> list[str]:
        (runtime,) = self.engine.runtimes.values()
        plugin = runtime.profile.plugins()[DomainProtection.name]
        assert isinstance(plugin, DomainProtection)
        ((_, shape, found),) = plugin.states(self.engine.cluster.snapshot())
        total = summary_of(found)
        fit = sum(one.takes // shape.size for one in found)
        states = ", ".join(f"{count} {state}" for state, count in total.by_state.items() if count)
        return [
            f"{states}; {fit} gangs of {shape.size} fit; {total.unreachable} of {total.idle}"
            f" idle {shape.device} are unreachable"
        ]


def _sub_groups(text: str) -> str:
    """Return ``a:8:rack,b:8:rack`` as the annotation has it."""
    parts = (part.split(":") for part in text.split(","))
    return json.dumps([{"name": n, "min": int(least), "topology": it} for n, least, it in parts])


def _leader(told: dict[str, str]) -> dict[str, str]:
    """Return what the first pod of a gang asks for instead, ``leader=8``: so many CPUs alone."""
    if "leader" not in told:
        return {}
    return {"cpu": told["leader"], **{key: "0" for key in told if "/" in key}}


def told(scenario: Scenario) -> Scenario:
    """Play a scenario; return it with what was really printed."""
    play, blocks = Play(), []
    for block in scenario.blocks:
        lines = [line for command in block.commands for line in play.do(command)]
        blocks.append(Block(block.commands, tuple(lines)))
    return Scenario(scenario.title, tuple(blocks))
