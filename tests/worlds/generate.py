"""Worlds from rows of the covering array: the commands that a row stands for.

    commands = world(row, Random(7))

A world has a few nodes, schedulers, and pods of several kinds. Then something happens and something
breaks, more pods come, and a tool is asked for a promise that is tried at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Final

from tests.apps.scheduler.gang_trials import RACK
from tests.worlds.covering import Row
from tests.worlds.deployed import DEPLOYABLE
from tests.worlds.features import BY_NAME, MACHINES
from tests.worlds.manifests import APP
from tests.worlds.oracles.placement import WRONG
from tests.worlds.script import Command
from tests.worlds.stock import STOCK
from tests.worlds.virtual_lab import PRODUCERS

from numakube.kubelet.config_from_words import UNALIGNED

NODES: Final = 3
HOST: Final = "kubernetes.io/hostname"
_POLICIES: Final = BY_NAME["policy"].values[:-1]
_TIED: Final = f"{APP} in (tied-0,tied-1,tied-2)"
_VERSIONS: Final = BY_NAME["kubelet"].values[:-1]


def world(row: Row, rng: Random) -> list[Command]:
    """Return the commands of a world."""
    return list(_World(row, rng).commands())


class _World:
    """A world in the making."""

    def __init__(self, row: Row, rng: Random) -> None:
        self.row = row
        self.rng = rng
        self.names: list[str] = []

    def commands(self) -> Iterator[Command]:
        """Yield everything that happens, in order."""
        for number in range(NODES):
            yield self._node(number)
        # Both write the same groups, so a node has one of them.
        if self.row["claimed-cpus"] != "none":
            yield Command.of("drivers", "start")
        elif self.row["aligned-by"] != "kubelet":
            yield Command.of("enforcers", "start")
        yield from self._schedulers()
        yield from self._first_pods()
        yield Command.of("wait")
        yield from self._happens("event")
        yield from self._happens("fault")
        yield from self._more_pods("late", self.rng.randint(1, 4))
        yield Command.of("wait")
        yield from self._probe()
        if self.row["end"] == "cleared":
            yield Command.of("clear")

    def _node(self, number: int) -> Command:
        rng, row = self.rng, self.row
        machine = row["machine"]
        if machine == "mixed":
            machine = rng.choice(list(MACHINES))
        producer = row["producer"]
        if producer == "mixed":
            producer = rng.choice(PRODUCERS)
        version = row["kubelet"]
        # No kubelet comes to an end with all sets of so many NUMA nodes.
        unaligned = machine == "superchip" or row["claimed-cpus"] != "none"
        words = UNALIGNED if unaligned else self._kubelet(number)
        return Command.of(
            "node",
            f"n{number}",
            machine=MACHINES[machine],
            kubelet=words,
            version=rng.choice(_VERSIONS) if version == "mixed" else version,
            rack=f"r{number % 2}",
            claims="gpu" if row["devices"] == "claims" else "",
            producer=producer,
            measured="yes" if row["measured"] == "yes" else "",
        )

    def _kubelet(self, number: int) -> str:
        """Return the words of a kubelet; one of them aligns nothing if a scheduler is to."""
        row = self.row
        if row["aligned-by"] != "kubelet" and number != 0:
            return UNALIGNED
        policy = row["policy"]
        if policy == "mixed":
            policy = self.rng.choice(_POLICIES)
        words = [f"policy={policy}", f"scope={row['scope']}", row["option"]]
        return ",".join(filter(None, words))

    def _schedulers(self) -> Iterator[Command]:
        match self.row["schedulers"]:
            case "two":
                yield Command.of("scheduler", "start", "one")
                yield Command.of("scheduler", "start", "two")
            case "shards":
                yield Command.of("scheduler", "start", "a", shard="a")
                yield Command.of("scheduler", "start", "b", shard="b")
            case _:
                yield Command.of("scheduler", "start", "one")
        if self.row["schedulers"] == "extender":
            yield Command.of("extender", "start")

    def _first_pods(self) -> Iterator[Command]:
        row, rng = self.row, self.rng
        yield from self._more_pods("p", rng.randint(2, 5))
        if row["claims"] != "none":
            yield from self._claims()
        if row["claimed-cpus"] != "none":
            yield from self._claimed_cpus()
        if row["gang"] != "none":
            yield self._gang("gang")
        if row["owner"] != "none":
            yield Command.of("create", row["owner"], "app", pods=rng.randint(1, 4), **self._sizes())
        if row["probe"] == "defrag":
            yield from self._scattered("filler", 3, 6)
        if row["disks"] != "none":
            yield from self._disks()
        if row["constraint"] != "none":
            yield from self._tied()
        if row["aligned-by"] != "kubelet" and row["claimed-cpus"] == "none":
            yield from self._wishes()

    def _scattered(self, name: str, least: int, most: int) -> Iterator[Command]:
        """Yield small pods that can move, and lie about."""
        for number in range(2):
            pods, cpu = self.rng.randint(least, most), self.rng.choice("123")
            yield Command.of("create", "deployment", f"{name}-{number}", pods=pods, cpu=cpu)

    def _tied(self) -> Iterator[Command]:
        for number in range(self.rng.randint(1, 3)):
            told = {**self._sizes(), **self._constraint(number)}
            yield Command.of("create", "pod", f"tied-{number}", **told)

    def _wishes(self) -> Iterator[Command]:
        """Yield pods whose zones a scheduler is to choose, where no kubelet does."""
        rng = self.rng
        scope = "/container" if self.row["aligned-by"] == "annotation-by-container" else ""
        policies = ("SingleNUMANode", "Restricted", "BestEffort")
        for number in range(rng.randint(1, 3)):
            align = f"{rng.choice(policies)}{scope}"
            yield Command.of("create", "pod", f"wish-{number}", align=align, cpu=rng.randint(1, 4))
        yield Command.of("create", "pod", f"{WRONG}wish", align="SingelNUMANode", cpu=1)

    def _more_pods(self, prefix: str, count: int) -> Iterator[Command]:
        row, rng = self.row, self.rng
        for number in range(count):
            options = {**self._sizes(), **self._kind()}
            if row["priority"] == "low" and rng.random() < 0.5:
                options["priority"] = "low"
            if row["priority"].startswith("preempting") and prefix == "late":
                options["priority"] = "high"
            elif row["priority"] == "preempting-at-once":
                options["grace"] = "0"
            if row["schedulers"] == "beside-default" and rng.random() < 0.3:
                options["scheduler"] = "default-scheduler"
            if row["schedulers"] == "extender" and rng.random() < 0.6:
                options["scheduler"] = STOCK
            name = f"{prefix}-{number}"
            self.names.append(name)
            yield Command.of("create", "pod", name, **options)

    def _sizes(self) -> dict[str, str]:
        rng = self.rng
        sizes = {"cpu": rng.choice(("1", "1", "2", "2", "3", "4", "6", "500m"))}
        sizes["memory"] = rng.choice(("256Mi", "512Mi", "1Gi", "3Gi"))
        if self.row["devices"] == "plugin" and rng.random() < 0.25:
            sizes["gpu"] = rng.choice(("1", "1", "2"))
        return sizes

    def _kind(self) -> dict[str, str]:
        rng = self.rng
        if (machine := self.row["virtual-machines"]) != "none" and rng.random() < 0.4:
            return {"vm": machine}
        match self.row["pods"]:
            case "burstable" | "besteffort" as qos if rng.random() < 0.6:
                return {"qos": qos}
            case "containers":
                return {"containers": rng.choice("123")}
            case "init":
                return {"init": rng.choice("1246")}
            case "sidecar":
                return {"sidecar": rng.choice("12")}
            case "pod-level" if rng.random() < 0.6:
                return {"level": "pod"}
            case "hugepages" if rng.random() < 0.6:
                return {"hugepages-2Mi": rng.choice(("64Mi", "128Mi", "512Mi"))}
            case _:
                return {}

    def _claims(self) -> Iterator[Command]:
        rng = self.rng
        match self.row["claims"]:
            case "template":
                for number in range(rng.randint(1, 3)):
                    yield Command.of(
                        "create",
                        "pod",
                        f"dra-{number}",
                        cpu=rng.randint(1, 3),
                        claim="template",
                        near=rng.choice(("", "Required", "Preferred")),
                        devices=rng.choice("112"),
                    )
            case "shared":
                yield Command.of("create", "claim", "shared", devices=rng.choice("12"))
                for number in range(rng.randint(1, 3)):
                    yield Command.of("create", "pod", f"dra-{number}", cpu=1, claim="shared")
            case _:
                for number in range(rng.randint(1, 3)):
                    yield Command.of("create", "pod", f"dra-{number}", cpu=rng.randint(1, 3), gpu=1)

    def _claimed_cpus(self) -> Iterator[Command]:
        """Yield pods that have CPUs by claims; a driver may die and begin again meanwhile."""
        rng = self.rng
        for number in range(rng.randint(1, 3)):
            yield Command.of(
                "create", "pod", f"owner-{number}", **{"claimed-cpus": rng.choice("1234")}
            )
        if self.row["claimed-cpus"] == "gang":
            size = {"pods": rng.choice((2, 3, 4)), "claimed-cpus": rng.choice("24")}
            yield Command.of("create", "gang", "owners", **size)
        if rng.random() < 0.5:
            yield Command.of("drivers", "restart", self._a_node())

    def _disks(self) -> Iterator[Command]:
        """Yield pods with disks, some of which end so that others use their disks."""
        rng, of_class = self.rng, self.row["disks"]
        yield Command.of("disks", "start")
        if of_class == "stateful":
            pods, disk = rng.randint(1, 4), rng.choice(("local", "rack", "offered"))
            yield Command.of("create", "statefulset", "db", pods=pods, disk=disk, **self._sizes())
            return
        for number in range(rng.randint(1, 4)):
            name = f"disk-{number}"
            yield Command.of("create", "pod", name, **self._sizes(), disk=of_class)
        yield Command.of("pass", "20")
        yield Command.of("delete", "pod", "disk-0")
        options: dict[str, object] = {**self._sizes(), "disk-of": "disk-0"}
        yield Command.of("create", "pod", "again", **options)

    def _gang(self, name: str) -> Command:
        row, rng = self.row, self.rng
        size = rng.choice((2, 3, 4, 8))
        options: dict[str, object] = {"pods": size, "cpu": rng.choice("112")}
        match row["gang"]:
            case "coscheduling" | "volcano" as api:
                options["api"] = api
            case "elastic":
                options["least"] = rng.randint(1, size)
            case "required-rack":
                options["required"] = RACK
            case "kueue-rack":
                options["kueue"] = RACK
            case "preferred-rack":
                options["preferred"] = RACK
            case "slices":
                options["pods"], options["slices"] = rng.choice((2, 4, 8)), f"{RACK}=2"
            case "balanced":
                balance = rng.choice(("Fewest", "Even"))
                options |= {"preferred": RACK, "balance": balance}
            case _:
                pass
        if row["gang-claims"] == "yes":
            options["claim"] = "template"
        return Command.of("create", "gang", name, **options)

    def _constraint(self, number: int) -> Mapping[str, str]:
        match self.row["constraint"]:
            case "spread":
                return {"spread": self.rng.choice((HOST, RACK))}
            case "apart":
                return {"apart": HOST}
            case "together":
                return {"together": RACK}
            case "selector":
                return {"selector": f"{RACK}=r{number % 2}"}
            case "zones-apart":
                return {"zone-anti-affinity": _TIED, "zone-mode": "Required"}
            case "zones-spread":
                mode = self.rng.choice(("Required", "Preferred"))
                return {"zone-spread": _TIED, "zone-mode": mode}
            case "linked":
                return {"linked": self.rng.choice(("Required", "Preferred")), "gpu": "2"}
            case _:
                return {"gate": "example.com/later"}

    def _happens(self, feature: str) -> Iterator[Command]:
        """Yield what the value of a feature that changes state stands for."""
        value = self.row[feature]
        if value != "none":
            yield from getattr(self, f"_{value.replace('-', '_')}")()

    def _a_node(self) -> str:
        return f"n{self.rng.randrange(NODES)}"

    def _some(self) -> list[str]:
        return self.rng.sample(self.names, min(len(self.names), 2))

    def _a_while(self, *seconds: int) -> Command:
        return Command.of("pass", str(self.rng.choice(seconds)))

    def _pods_end(self) -> Iterator[Command]:
        yield from (Command.of("delete", "pod", name) for name in self._some())

    def _force_delete(self) -> Iterator[Command]:
        yield from (Command.of("delete", "pod", name, force="yes") for name in self._some())

    def _drain(self) -> Iterator[Command]:
        node = self._a_node()
        yield Command.of("drain", node)
        yield self._a_while(*range(1, 21))
        yield Command.of("uncordon", node)

    def _cordon(self) -> Iterator[Command]:
        yield Command.of("cordon", self._a_node())

    def _node_joins(self) -> Iterator[Command]:
        yield self._node(NODES)

    def _node_leaves(self) -> Iterator[Command]:
        yield Command.of("remove", self._a_node())

    def _scale(self) -> Iterator[Command]:
        owner = self.row["owner"]
        if owner in ("deployment", "statefulset"):
            yield Command.of("scale", owner, "app", pods=self.rng.randint(1, 6))

    def _ungate(self) -> Iterator[Command]:
        yield from (Command.of("ungate", f"tied-{number}") for number in range(3))

    def _resize(self) -> Iterator[Command]:
        for name in self._some():
            yield Command.of("resize", name, cpu=self.rng.choice(("1", "2", "3", "5", "700m")))

    def _device_breaks(self) -> Iterator[Command]:
        node = self._a_node()
        yield Command.of("device", "break", node)
        yield self._a_while(0, 5, 30)
        if self.rng.random() < 0.5:
            yield Command.of("device", "mend", node)

    def _taint(self) -> Iterator[Command]:
        node = self._a_node()
        yield Command.of("taint", node, "example.com/worn")
        yield self._a_while(0, 5, 30)
        if self.rng.random() < 0.5:
            yield Command.of("untaint", node)

    def _rebalancer(self) -> Iterator[Command]:
        """Yield pods that lie about, and one that fits once some of them have moved."""
        yield from self._scattered("scattered", 2, 5)
        yield self._a_while(20)
        yield Command.of("create", "pod", "large", cpu=self.rng.choice("4678"), priority="never")
        yield Command.of("rebalancer", "start")
        yield self._a_while(30, 60)

    def _minimum_raised(self) -> Iterator[Command]:
        """Yield a group that asks for more than there are, for longer than gangs may lack some."""
        if self.row["gang"] in ("coscheduling", "volcano"):
            yield Command.of("raise", "gang", least=self.rng.choice((9, 12)), api=self.row["gang"])
            yield self._a_while(700)

    def _extender_killed(self) -> Iterator[Command]:
        if self.row["schedulers"] == "extender":
            yield from self._more_pods("sooner", 2)
            yield Command.of("extender", "kill")
            yield self._a_while(0, 3, 30)
            yield Command.of("extender", "start")

    def _kubelet_restart(self) -> Iterator[Command]:
        yield Command.of("kubelet", "restart", self._a_node())

    def _kubelet_pause(self) -> Iterator[Command]:
        node = self._a_node()
        yield Command.of("kubelet", "pause", node)
        yield self._a_while(5, 20, 60)
        yield Command.of("kubelet", "resume", node)

    def _reconfigure(self) -> Iterator[Command]:
        node, words = self._a_node(), f"policy={self.rng.choice(_POLICIES)}"
        if self.row["machine"] in ("superchip", "mixed") or self.row["claimed-cpus"] != "none":
            words = UNALIGNED
        yield Command.of("drain", node)
        yield Command.of("pass", "15")
        yield Command.of("kubelet", "configure", node, kubelet=words)
        yield Command.of("uncordon", node)

    def _upgrade(self) -> Iterator[Command]:
        node, version = self._a_node(), self.rng.choice(_VERSIONS)
        yield Command.of("drain", node)
        yield Command.of("pass", "15")
        yield Command.of("kubelet", "upgrade", node, version=version)
        yield Command.of("uncordon", node)

    def _exporter_dies(self) -> Iterator[Command]:
        yield Command.of("producer", self._a_node(), "none")

    def _takeover(self) -> Iterator[Command]:
        """Yield another producer, and pods that come and go since then."""
        yield Command.of("producer", self._a_node(), self.rng.choice(PRODUCERS[:-1]))
        yield self._a_while(0, 20)
        yield from self._more_pods("since", 2)
        yield from (Command.of("delete", "pod", name) for name in self._some())

    def _scheduler_killed(self) -> Iterator[Command]:
        yield from self._scheduler_ends("kill")

    def _scheduler_stopped(self) -> Iterator[Command]:
        yield from self._scheduler_ends("stop")

    def _schedulers_gone(self) -> Iterator[Command]:
        """Yield minutes without a scheduler, in which pods end and others come."""
        names = {"two": ("one", "two"), "shards": ("a", "b")}.get(self.row["schedulers"], ("one",))
        yield from (Command.of("scheduler", "kill", name) for name in names)
        yield from (Command.of("delete", "pod", name) for name in self._some())
        yield Command.of("pass", "400")
        yield Command.of("wait")
        for name in names:
            shard = name if self.row["schedulers"] == "shards" else ""
            yield Command.of("scheduler", "start", name, shard=shard)

    def _scheduler_ends(self, how: str) -> Iterator[Command]:
        sharded = self.row["schedulers"] == "shards"
        name, shard = ("a", "a") if sharded else ("one", "")
        yield Command.of("scheduler", how, name)
        yield self._a_while(0, 3, 30)
        yield Command.of("scheduler", "start", name, shard=shard)

    def _watches_dropped(self) -> Iterator[Command]:
        yield Command.of("watches", "drop")

    def _history_expired(self) -> Iterator[Command]:
        yield Command.of("watches", "expire")

    def _server_killed(self) -> Iterator[Command]:
        # In the middle of something: pods come just before.
        yield from self._more_pods("sooner", 2)
        yield Command.of("server", "restart", seconds=self.rng.choice((2, 20, 60)))

    def _probe(self) -> Iterator[Command]:
        options = {key: text for key, text in self._sizes().items() if key != "gpu"}
        match self.row["probe"]:
            case "components":
                yield Command.of("components", *self._some_components())
                yield Command.of("wait")
            case "operator":
                yield Command.of("operator")
                yield Command.of("wait")
            case _:
                yield from self._probe_tool(options)

    def _some_components(self) -> list[str]:
        return self.rng.sample(DEPLOYABLE, self.rng.randint(1, 4))

    def _probe_tool(self, options: dict[str, str]) -> Iterator[Command]:
        """Yield a question to a tool whose answer is tried."""
        rng = self.rng
        match self.row["probe"]:
            case "fits" | "simulate" as tool:
                plugin = self.row["devices"] == "plugin"
                device = {"gpu": "1"} if plugin and rng.random() < 0.3 else {}
                yield Command.of("probe", tool, **options, **device)
            case "defrag":
                yield Command.of("defrag", cpu=rng.choice("3468"), count=rng.choice("123"))
            case "changes":
                yield Command.of("probe", "changes", **self._odd(options), pick=rng.randint(1, 6))
            case "advise":
                size = {**options, "cpu": rng.choice(("2", "3", "4", "5", "7"))}
                yield Command.of("probe", "advise", **size, pick=rng.randint(1, 6))
            case "hold":
                yield Command.of("probe", "hold", **options)
            case "explain":
                # A name that no scheduler serves is a frequent mistake.
                nobody = {"scheduler": "numa-scheduler"} if rng.random() < 0.2 else {}
                yield Command.of("probe", "explain", **options, **self._kind(), **nobody)
            case "explain-device":
                if self.row["devices"] == "claims":
                    yield Command.of("probe", "explain", **options, claim="template")
                else:
                    yield Command.of("probe", "explain", **options, gpu="1")
            case _:
                pass

    def _odd(self, options: dict[str, str]) -> dict[str, str]:
        """Return a pod that may fit nowhere."""
        rng = self.rng
        sizes = {"cpu": rng.choice(("3", "5", "7", "9", "11", "15", "19", "40", "2500m"))}
        sizes["memory"] = rng.choice(("256Mi", "3Gi", "9Gi", "20Gi"))
        wishes: tuple[dict[str, str], ...] = (
            {},
            {},
            {"selector": f"{RACK}=r7"},
            {"together": RACK},
            {"gpu": rng.choice(("1", "3", "9"))},
            {"hugepages-2Mi": "4Gi"},
        )
        odd = {**options, **sizes, **rng.choice(wishes), **self._kind()}
        if "hugepages-2Mi" in odd and odd.get("qos") == "besteffort":
            del odd["qos"]  # The API server wants CPUs or memory beside huge pages.
        return odd
