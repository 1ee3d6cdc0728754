"""Whatever objects say, pods that have nothing to do with them are placed."""

from __future__ import annotations

import contextlib
import json
import random
from typing import TYPE_CHECKING, Any

import structlog
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.hostile.pieces import (
    EXAMPLES,
    damaged,
    device_tree,
    exact,
    honest_report,
    marked,
    node_tree,
    pod_tree,
)

from numakube.api.codec import convert, decode, to_tree
from numakube.api.koordinator.devices import DeviceCr
from numakube.api.nodes import Node
from numakube.api.nrt import convert_nrt
from numakube.api.pod import Pod
from numakube.apps.scheduler.process import SchedulerProcess
from numakube.errors import NumakubeError
from numakube.kube.client import Client
from numakube.kube.clock import SystemClock
from numakube.kube.resource_types import key_of
from numakube.scheduling.cycle import Chosen, Cycle, Failed, Refused
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology.nrt_names import EXACT_ANNOTATION
from numakube_lab.testing import without_election

if TYPE_CHECKING:
    from numakube.kube.resource_types import KubeObject
    from numakube.kube.store import Store

REPORT = to_tree(honest_report("odd-0"))
NAMES = ("odd-0", "odd-1", "odd-2")
KINDS = ("report", "node", "bound", "waiting", "device", "removal")


class Offline(Client):
    """Nobody is asked: the test is the API server."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.rng = random.Random(1)


class Site:
    """A scheduler with three good nodes, and others."""

    def __init__(self, rng: random.Random) -> None:
        process = SchedulerProcess(without_election(), Offline())
        self.rng = rng
        self.mirror = process.mirror
        self.runtime = process.parts.engine.runtimes["numakube-scheduler"]
        self.cycle: Cycle = process.parts.cycle
        self.scheduler = process.scheduler
        self.version = 0
        for name in ("good-0", "good-1", "good-2"):
            self.put(self.mirror.nodes.store, node_tree(name), Node)
            self.put(self.mirror.topologies.store, {**REPORT, "metadata": {"name": name}}, None)

    def put(self, store: Store[Any], tree: dict[str, Any], kind: type[KubeObject] | None) -> None:
        """Let the API server tell of an object, unless it cannot be read."""
        self.version += 1
        meta = tree.get("metadata")
        if isinstance(meta, dict):
            meta["resourceVersion"] = str(self.version)
        try:
            data = json.dumps(tree).encode()
            found = convert_nrt(json.loads(data)) if kind is None else decode(kind, data)
        except NumakubeError:
            return
        store.put(found)

    def say(self, kind: str) -> None:
        """Let an object of *kind* say something hostile."""
        rng, mirror, name = self.rng, self.mirror, self.rng.choice(NAMES)
        match kind:
            case "report":
                tree = {**REPORT, "metadata": {"name": name}}
                honest = REPORT["metadata"]["annotations"][EXACT_ANNOTATION]
                tree["metadata"]["annotations"] = {EXACT_ANNOTATION: exact(rng, honest)}
                self.put(mirror.topologies.store, self._spoiled(tree), None)
            case "node":
                self.put(mirror.nodes.store, self._spoiled(node_tree(name)), Node)
            case "device":
                store = next(other.store for other in mirror._others if "devices" in str(other))
                self.put(store, self._spoiled(device_tree(name)), DeviceCr)
            case "removal":
                store = rng.choice((mirror.pods, mirror.nodes, mirror.topologies)).store
                keys = [key_of(one) for one in store if not one.metadata.name.startswith("good")]
                if keys:
                    store.remove(rng.choice(keys))
            case _:
                where = rng.choice((*NAMES, "good-0")) if kind == "bound" else ""
                pod = pod_tree(f"{kind}-{rng.randrange(9)}", "1", nodeName=where)
                pod["status"] = {"phase": rng.choice(("Pending", "Running", "Failed", "Succeeded"))}
                self.put(mirror.pods.store, self._spoiled(pod), Pod)

    def _spoiled(self, tree: dict[str, Any]) -> dict[str, Any]:
        spoiled: dict[str, Any] = marked(self.rng, tree)
        if self.rng.random() < 0.7:
            spoiled = damaged(self.rng, spoiled)
        # Who it is, the API server says.
        meta = spoiled.get("metadata")
        own = tree["metadata"]
        if isinstance(meta, dict):
            meta |= {key: own[key] for key in ("name", "namespace", "uid") if key in own}
        return spoiled

    def decide(self, tree: dict[str, Any]) -> Chosen | Refused | Failed:
        """Run a cycle, and reserve what it chooses."""
        info = PodInfo(convert(Pod, tree))
        decision = self.cycle.decide(info, self.runtime)
        if isinstance(decision, Chosen):
            node = self.mirror.cluster.node(decision.node)
            assert node is not None
            self.mirror.apply(self.runtime.reserve(decision.state, info, node).changes)
            self.mirror.apply(self.runtime.unreserve(decision.state, info, node.name))
        return decision


@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 2**32))
def test_a_plain_pod_is_placed_whatever_others_say(seed: int) -> None:
    """One good node with room is enough."""
    with structlog.testing.capture_logs():
        site = Site(random.Random(seed))
        for number in range(25):
            site.say(site.rng.choice(KINDS))
            if number % 5 == 4:
                site.mirror.apply(site.mirror.cache.resync(1000.0 * number))
                decision = site.decide(pod_tree(f"plain-{number}", "2"))
                assert isinstance(decision, Chosen), decision
        stores = (site.mirror.pods, site.mirror.nodes, site.mirror.topologies)
        assert [one.store.failures for one in stores] == [0, 0, 0]


@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 2**32))
def test_a_hostile_pod_gets_an_answer_of_its_own(seed: int) -> None:
    """It is placed, refused or fails, and the next one is none the worse for it."""
    with structlog.testing.capture_logs():
        site = Site(random.Random(seed))
        site.say("report")
        site.say("node")
        for number in range(10):
            tree = site._spoiled(pod_tree(f"odd-{number}", "2"))
            # An object that cannot be read does not come this far.
            with contextlib.suppress(NumakubeError):
                assert site.decide(tree) is not None
        assert isinstance(site.decide(pod_tree("plain", "2")), Chosen)
