"""Whatever happens to a scheduler, what it believes pods hold is what their annotations say.

Pods come and go, answers to bindings get lost with the binding carried out or not, and the
scheduler is restarted at any moment. The API server is the only thing that remembers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule
from packages.placement.tests.plugins.wishes import KoordinatorScheduler, pod

from numakube.api.koordinator import keys
from numakube.api.pod import Pod
from numakube.scheduling.cycle import Chosen
from numakube.testing import running
from numakube.topology.allotments import Allotment
from numakube_placement.koordinator.allotments import allotment_of
from numakube_placement.koordinator.node_ledger import NodeLedger

NODES = {
    "plain": {},
    "single": {keys.NODE_POLICY: "SingleNUMANode"},
    "containers": {keys.NODE_POLICY: "BestEffort", keys.NODE_SCOPE: "container"},
    "binds": {keys.NODE_BIND_POLICY: "SpreadByPCPUs"},
}
POLICIES = ("", "BestEffort", "Restricted", "SingleNUMANode")


@dataclass
class Server:
    """What the API server remembers."""

    pods: dict[str, Pod] = field(default_factory=dict)

    def bind(self, one: Pod, node: str) -> None:
        """Bind a pod, its annotations in the same step."""
        self.pods[one.metadata.uid] = running(one, node)


def holdings(pods: list[Pod]) -> dict[str, Allotment]:
    """Return what pods hold by their annotations."""
    found = {one.metadata.uid: allotment_of(one, []) for one in pods}
    return {uid: held for uid, held in found.items() if held is not None}


class Turmoil(RuleBasedStateMachine):
    """Schedules pods on four nodes, and is disturbed at it."""

    waiting = Bundle("waiting")
    assumed = Bundle("assumed")
    bound = Bundle("bound")

    def __init__(self) -> None:
        super().__init__()
        self.server = Server()
        self.scheduler = self.fresh()
        self.on_the_way: dict[str, tuple[Pod, str]] = {}
        self.count = 0

    def fresh(self) -> KoordinatorScheduler:
        """Return a scheduler that has just started: it lists everything there is."""
        scheduler = KoordinatorScheduler()
        for name, labels in NODES.items():
            scheduler.add_node(name, labels=labels)
        for one in self.server.pods.values():
            scheduler.see(one)
        return scheduler

    @rule(
        target=waiting,
        cpu=st.integers(1, 6),
        policy=st.sampled_from(POLICIES),
        scope=st.sampled_from(("", "pod", "container")),
        bound=st.booleans(),
        two=st.booleans(),
    )
    def create(self, cpu: int, policy: str, scope: str, *, bound: bool, two: bool) -> Pod:
        """Create a pod."""
        self.count += 1
        spec = {"numaTopologyPolicy": policy, "numaTopologyScope": scope}
        sizes = {"one": str(cpu), "two": "1"} if two else {"main": str(cpu)}
        return pod(
            f"p{self.count}",
            containers=sizes,
            bound=bound,
            spec={name: word for name, word in spec.items() if word} if policy else None,
        )

    @rule(target=assumed, one=consumes(waiting))
    def schedule(self, one: Pod) -> str | object:
        """Decide, and send the binding on its way."""
        if not isinstance(self.scheduler.decide(one), Chosen):
            return multiple()
        info = self.scheduler.assume(one)
        node = self.scheduler.cluster.node_of(info.uid)
        assert node is not None
        self.on_the_way[info.uid] = (info.pod, node)
        return info.uid

    @rule(target=bound, uid=consumes(assumed), told=st.booleans())
    def arrive(self, uid: str, *, told: bool) -> str | object:
        """The server binds the pod; the scheduler hears of it now or much later."""
        found = self.on_the_way.pop(uid, None)
        if found is None:
            return multiple()
        self.server.bind(*found)
        if told:
            self.scheduler.see(self.server.pods[uid])
        return uid

    @rule(target=waiting, uid=consumes(assumed))
    def fail(self, uid: str) -> Pod | object:
        """The server has not bound the pod, and the scheduler finds out."""
        found = self.on_the_way.pop(uid, None)
        if found is None:
            return multiple()
        self.scheduler.forget(uid)
        return pod(uid, containers={container.name: "1" for container in found[0].spec.containers})

    @rule(uid=bound)
    def hear(self, uid: str) -> None:
        """The server tells of a pod, perhaps once more."""
        if uid in self.server.pods:
            self.scheduler.see(self.server.pods[uid])

    @rule(uid=consumes(bound))
    def delete(self, uid: str) -> None:
        """A pod goes."""
        if self.server.pods.pop(uid, None) is not None:
            self.scheduler.forget(uid)

    @rule()
    def restart(self) -> None:
        """The scheduler forgets everything; bindings that are on their way never arrive."""
        self.on_the_way.clear()
        self.scheduler = self.fresh()

    @invariant()
    def the_ledger_equals_the_annotations(self) -> None:
        """On every node: of the pods that the server has there, and of those on their way."""
        for name in NODES:
            node = self.scheduler.cluster.node(name)
            assert node is not None
            there = [one for one in self.server.pods.values() if one.spec.node_name == name]
            coming = [one for one, where in self.on_the_way.values() if where == name]
            expected = holdings([*there, *coming])
            ledger = self.scheduler.numa.ledgers.of(node)
            assert ledger.allotments == expected
            assert ledger.key == NodeLedger.of(ledger.facts, expected).key

    @invariant()
    def no_cpu_is_given_twice_and_no_zone_gives_more_than_it_has(self) -> None:
        """By the annotations alone, as an agent on the node reads them."""
        for name in NODES:
            node = self.scheduler.cluster.node(name)
            assert node is not None
            ledger = self.scheduler.numa.ledgers.of(node)
            taken = 0
            sums: dict[int, dict[str, int]] = {}
            for held in ledger.allotments.values():
                assert not taken & held.total.cpus
                taken |= held.total.cpus
                for zone, amounts in held.total.zones.items():
                    mine = sums.setdefault(zone, {})
                    for resource, amount in amounts.items():
                        mine[resource] = mine.get(resource, 0) + amount
            for zone, amounts in sums.items():
                limits = ledger.capacity.totals[zone]
                assert all(amount <= limits[resource] for resource, amount in amounts.items())


def test_pods_that_come_together_are_all_in_the_ledger() -> None:
    """As they do when a scheduler starts."""
    earlier, started = KoordinatorScheduler(), KoordinatorScheduler()
    earlier.add_node("n")
    started.add_node("n")
    wish = {"numaTopologyPolicy": "SingleNUMANode"}
    pods = [earlier.run(pod(name, cpu="2", spec=wish)) for name in ("a", "b")]
    for one in pods:
        started.see(one)
    node = started.cluster.node("n")
    assert node is not None
    assert started.numa.ledgers.of(node).allotments == holdings(pods)


TestTurmoil = Turmoil.TestCase
TestTurmoil.settings = settings(
    max_examples=15,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
