"""Random pods with claims and CPUs of their own, on kubelets of every kind: is every promise kept?

Nodes differ in policy, scope, CPU and memory manager, options and NUMA nodes; on some the
scheduler gives CPUs itself. Each has devices of two DRA drivers, of which one says only PCI
addresses, and devices of a device plugin. Pods come and go; some share claims. The kubelet models
decide for themselves, and what they decide is compared with what the scheduler promised, with none
of its code. ``python -m benchmarks.mixed_pods 10000`` plays so many placements.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.api.codec import convert
from numakube.api.koordinator import keys
from numakube.api.pod import Container, Pod, PodResourceClaim, ResourceClaimUse
from numakube.api.resource_claims import ResourceClaim, ResourceClaimStatus
from numakube.api.resource_slices import DeviceClass, ResourceSlice
from numakube.kubelet.admission_outcome import Rejected
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.scheduling.cycle import Chosen
from numakube.scheduling.framework.cycle_state import as_bound
from numakube.scheduling.plugins.dynamic_resources import DynamicResources
from numakube.scheduling.plugins.dynamic_resources.claim_tracker import CYCLE_CLAIMS
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, kubelet_settings, pod, resources, running
from numakube.testing.claim_api import ReplayedApi, finished
from numakube.topology import nrt_names
from numakube.topology.pci_places import write_places
from numakube.values.cpuset import CpuSet
from numakube.values.numamask import nodes_of
from numakube_placement.koordinator.allotments import allotment_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.api.nrt import NodeResourceTopology
    from numakube.kubelet.admission_outcome import Admitted
    from numakube.kubelet.machine import Machine
    from numakube.scheduling.framework.registry import Handle

PLACEMENTS: Final = 1000
SHAPES: Final = (
    "2 sockets, 6 cores, smt 2, 24Gi, gpu 2",
    "2 sockets, 2 numa each, 4 cores, smt 2, 12Gi, gpu 1",
    "1 socket, 4 numa each, 6 cores, 12Gi, gpu 2",
)
POLICIES: Final = ("single-numa-node", "restricted", "best-effort", "none")
SCHEDULERS_OWN: Final = ("SingleNUMANode", "Restricted", "BestEffort", "")
WISHES: Final = (None, None, None, "Required", "Preferred", "None")
CPU_OPTIONS: Final[tuple[dict[str, str], ...]] = (
    {},
    {"full-pcpus-only": "true"},
    {"distribute-cpus-across-numa": "true"},
)
DRIVERS: Final = ("gpu.example", "nic.example")
PCI: Final = "resource.kubernetes.io/pciBusID"
NUMA: Final = "resource.kubernetes.io/numaNode"
MOST_PODS: Final = 40
GIB: Final = 1 << 30


class Campaign:
    """A cluster that fills up and empties.

    Attributes:
        tally: how many placements ended how.
        wrong: those that should not be.
    """

    def __init__(self, seed: int, nodes: int = 12, **args: str) -> None:
        """Start with *nodes* nodes; *args* are arguments of the plugin DynamicResources."""
        self._args = args
        self.random = random.Random(seed)
        self.tally: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._numbers = count()
        self._world = World()
        self._machines: dict[str, Machine] = {}
        self._places: dict[tuple[str, str, str], int] = {}
        self._running: dict[str, tuple[Pod, str]] = {}
        for number in range(nodes):
            self._add_node(f"n{number}", own=number % 4 == 0)
        self._scheduler = self._world.scheduler(plugins={"DynamicResources": self._plugin})
        self._cluster = self._scheduler.engine.cluster
        for name in self._machines:
            self._scheduler.set_report(self._report(name))

    def _plugin(self, args: Mapping[str, object], handle: Handle) -> DynamicResources:
        objects = handle.cluster.objects
        self.plugin = DynamicResources.from_args(
            {**args, **self._args}, objects=objects, actions=ReplayedApi(objects)
        )
        return self.plugin

    def _add_node(self, name: str, *, own: bool) -> None:
        """Add a node; the scheduler's own ones have kubelets that align nothing."""
        settings = KubeletSettings() if own else self._settings()
        shape = self.random.choice(SHAPES)
        model = self._world.add_node(name, machine=shape, settings=settings)
        self._machines[name] = model.machine
        zones = [node.id for node in model.machine.nodes]
        for driver in DRIVERS:
            places = [zone for zone in zones for _ in range(self.random.randint(0, 3))]
            self._offer(name, driver, places)

    def _settings(self) -> KubeletSettings:
        choose = self.random.choice
        policy, scope = choose(POLICIES), choose(("container", "pod"))
        options = choose(CPU_OPTIONS)
        more: dict[str, Any] = {"cpu_options": options}
        if choose((True, False)):
            more |= {"memory_policy": "None", "reserved_memory": {}}
        if choose((True, False)) and policy not in ("none", "single-numa-node"):
            more["topology_options"] = {"prefer-closest-numa-nodes": "true"}
        reserved = "0,12" if options.get("full-pcpus-only") else "0"
        return kubelet_settings(policy, scope, reserved=reserved, **more)

    def _offer(self, node: str, driver: str, places: list[int]) -> None:
        devices = []
        for number, zone in enumerate(places):
            self._places[driver, node, f"d{number}"] = zone
            address = {PCI: {"string": f"0000:{0x20 * zone + number:02x}:00.0"}}
            told = address if driver == "nic.example" else {NUMA: {"int": zone}}
            devices.append({"name": f"d{number}", "attributes": told})
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": devices}
        name = f"{node}-{driver}"
        objects = self._world.objects
        tree = {"metadata": {"name": name}, "spec": spec}
        objects.resource_slices[name] = convert(ResourceSlice, tree)
        rule = {"cel": {"expression": f"device.driver == '{driver}'"}}
        kind = {"metadata": {"name": driver}, "spec": {"selectors": [rule]}}
        objects.device_classes[driver] = convert(DeviceClass, kind)

    def _report(self, name: str) -> NodeResourceTopology:
        """Return what the exporter of a node publishes where DRA drivers run."""
        report = self._world.report(name)
        zones = self._machines[name].nodes
        functions: dict[str, int | None] = {
            f"0000:{0x20 * zone.id + number:02x}:00.0": zone.id
            for zone in zones
            for number in range(0x20)
        }
        told = {nrt_names.PCI_ANNOTATION: write_places(functions)}
        meta = report.metadata
        meta = msgspec.structs.replace(meta, annotations={**meta.annotations, **told})
        return msgspec.structs.replace(report, metadata=meta)

    def play(self, placements: int) -> None:
        """Place so many pods, and let others go when it gets tight."""
        while self.tally["placed"] < placements:
            one, refused = self._pod(), 0
            while not self._place(one):
                refused += 1
                if not self._running or refused > 3:
                    break
                self._end(self.random.choice(list(self._running)))
            if len(self._running) > MOST_PODS:
                for uid in self.random.sample(list(self._running), MOST_PODS // 2):
                    self._end(uid)

    def _pod(self) -> Pod:
        name, choose = f"p{next(self._numbers)}", self.random.choice
        own = self.random.random() < 0.3
        annotations: dict[str, str] = {}
        wish = choose(WISHES)
        if wish is not None:
            annotations["numakube.dev/claim-alignment"] = wish
        labels: dict[str, str] = {}
        if own:
            labels = {keys.QOS_CLASS: "LSR", keys.PRIORITY_CLASS: "koord-prod"}
            scope = choose(("container", "pod"))
            if policy := choose(SCHEDULERS_OWN):
                spec = {"numaTopologyPolicy": policy, "numaTopologyScope": scope}
                annotations[keys.NUMA_TOPOLOGY_SPEC] = json.dumps(spec)
        claims = self._claims(name)
        containers = tuple(self._containers(claims, own=own))
        named = tuple(PodResourceClaim(name=claim, resource_claim_name=claim) for claim in claims)
        return pod(
            name,
            annotations=annotations,
            labels=labels,
            containers=containers,
            resource_claims=named,
        )

    def _containers(self, claims: list[str], *, own: bool) -> Iterator[Container]:
        many = self.random.choice((1, 1, 2))
        for number in range(many):
            cpus = self.random.choice((2, 4)) if own else self.random.randint(1, 5)
            wanted = {"cpu": str(cpus), "memory": f"{self.random.randint(1, 4)}Gi"}
            if not own and self.random.random() < 0.2:
                wanted["vendor.example/gpu"] = "1"
            uses = [one for index, one in enumerate(claims) if index % many == number]
            needs = msgspec.structs.replace(
                resources(wanted), claims=tuple(ResourceClaimUse(name=one) for one in uses)
            )
            yield Container(name=f"c{number}", image="i", resources=needs)

    def _claims(self, name: str) -> list[str]:
        """Return claims of the pod: new ones, and at times one that another pod has."""
        found = []
        for number in range(self.random.choice((1, 1, 2))):
            claim = f"{name}-{number}"
            driver, many = self.random.choice(DRIVERS), self.random.choice((1, 1, 2))
            request = {"name": "r", "exactly": {"deviceClassName": driver, "count": many}}
            meta = {"name": claim, "namespace": "default", "uid": claim, "resourceVersion": "1"}
            tree = {"metadata": meta, "spec": {"devices": {"requests": [request]}}}
            self._cluster.objects.resource_claims[f"default/{claim}"] = convert(ResourceClaim, tree)
            found.append(claim)
        if self._running and self.random.random() < 0.15:
            other, _ = self._running[self.random.choice(list(self._running))]
            found.append(other.spec.resource_claims[0].resource_claim_name or "")
        self._cluster.objects_changed()
        return found

    def _place(self, one: Pod) -> bool:
        """Decide, reserve and bind, and let the kubelet decide; tell whether a node was found."""
        decision = self._scheduler.decide(one)
        if not isinstance(decision, Chosen):
            self.tally["refusals"] += 1
            return False
        info, node = PodInfo(one), self._cluster.node(decision.node)
        assert node is not None
        runtime = self._scheduler.engine.runtime_for(one.spec.scheduler_name)
        booking = runtime.reserve(decision.state, info, node)
        assert booking.ok
        self._cluster.take(booking.changes, self._scheduler.engine.cache)
        assumed = as_bound(decision.state, info)
        self._cluster.place(assumed, node.name)
        known = decision.state.read(CYCLE_CLAIMS)
        assert known is not None
        status = finished(self.plugin.pre_bind(decision.state, info, node.name))
        assert status.ok, status
        self.tally["placed"] += 1
        outcome = self._world.kubelets[node.name].admit(assumed.pod)
        there = running(assumed.pod, node.name)
        self._running[one.metadata.uid] = there, node.name
        if isinstance(outcome, Rejected):
            self._complain("rejected", one, node.name, outcome.message)
            self._end(one.metadata.uid)
            return True
        self._scheduler.see(there)
        self._judge(there, node.name, outcome, told=node.name in known.far)
        if self.random.random() < 0.7:
            self._scheduler.set_report(self._report(node.name))
        return True

    def _end(self, uid: str) -> None:
        """Let a pod go, and its claims if no other pod uses them."""
        one, node = self._running.pop(uid)
        self._world.kubelets[node].remove(uid)
        self._scheduler.forget(uid)
        claims = self._cluster.objects.resource_claims
        for entry in one.spec.resource_claims:
            key = f"default/{entry.resource_claim_name}"
            claim = claims[key]
            users = tuple(user for user in claim.status.reserved_for if user.uid != uid)
            status = msgspec.structs.replace(claim.status, reserved_for=users)
            left = status if users else ResourceClaimStatus()
            version = f"{claim.metadata.resource_version}0"
            meta = msgspec.structs.replace(claim.metadata, resource_version=version)
            claims[key] = msgspec.structs.replace(claim, metadata=meta, status=left)
        self._cluster.objects_changed()
        self._scheduler.set_report(self._report(node))

    def _judge(self, one: Pod, node: str, outcome: Admitted, *, told: bool) -> None:
        """Compare the devices of the pod with where it is."""
        allotment = allotment_of(one, [])
        policy = self._policy(one, node, is_allotted=allotment is not None)
        wish = one.metadata.annotations.get("numakube.dev/claim-alignment")
        promised = wish == "Required" or (
            wish is None and policy in ("single-numa-node", "restricted")
        )
        zones = self._zones(one, node, outcome)
        if not any(zones.values()):
            self.tally["nowhere in particular"] += 1
            return
        far = [name for name, at in self._devices(one) if not at <= self._near(one, name, zones)]
        if not far:
            self.tally["aligned" if promised else "aligned without promise"] += 1
        elif promised:
            self._complain("misaligned", one, node, f"{far} {zones}")
        elif not told and wish != "None":
            self._complain("not told", one, node, f"{far} {zones}")
        else:
            self.tally["far, as told" if told else "far, as wished"] += 1

    def _policy(self, one: Pod, node: str, *, is_allotted: bool) -> str:
        if not is_allotted:
            return self._world.kubelets[node].settings.topology_policy
        spec = json.loads(one.metadata.annotations.get(keys.NUMA_TOPOLOGY_SPEC, "{}"))
        words = {"SingleNUMANode": "single-numa-node", "Restricted": "restricted"}
        return words.get(spec.get("numaTopologyPolicy", ""), "")

    def _zones(self, one: Pod, node: str, outcome: Admitted) -> dict[str, frozenset[int]]:
        """Return the NUMA nodes of each container: of CPUs and memory, or what it is aligned to."""
        allotment = allotment_of(one, [])
        if allotment is not None:
            shares = allotment.containers or {
                each.name: allotment.total for each in one.spec.containers
            }
            return {
                name: self._of_cpus(node, CpuSet(share.cpus)) | frozenset(share.zones)
                for name, share in shares.items()
            }
        found = {}
        for name, placed in outcome.containers.items():
            memory = frozenset(zone for block in placed.memory for zone in block.numa_nodes)
            at = self._of_cpus(node, placed.cpus) | memory
            found[name] = at or frozenset(nodes_of(placed.hint.mask or 0))
        return found

    def _of_cpus(self, node: str, cpus: CpuSet) -> frozenset[int]:
        return frozenset(
            zone.id
            for zone in self._machines[node].nodes
            if any(cpu in cpus for core in zone.cores for cpu in core.threads)
        )

    def _devices(self, one: Pod) -> Iterator[tuple[str, frozenset[int]]]:
        """Yield the NUMA nodes of the devices of each claim."""
        for entry in one.spec.resource_claims:
            claim = self._cluster.objects.resource_claims[f"default/{entry.resource_claim_name}"]
            assert claim.status.allocation is not None
            results = claim.status.allocation.devices.results
            places = (self._places[each.driver, each.pool, each.device] for each in results)
            yield entry.name, frozenset(places)

    def _near(self, one: Pod, claim: str, zones: Mapping[str, frozenset[int]]) -> frozenset[int]:
        """Return where the containers are that use *claim*, or else where the pod is."""
        users = [
            each.name
            for each in one.spec.containers
            if each.resources and any(use.name == claim for use in each.resources.claims)
        ]
        own = frozenset[int]().union(*(zones.get(name, frozenset()) for name in users))
        return own or frozenset[int]().union(*zones.values())

    def _complain(self, what: str, one: Pod, node: str, detail: str) -> None:
        self.tally[what] += 1
        settings = self._world.kubelets[node].settings
        self.wrong.append(f"{what}: {one.metadata.name} on {node} {settings}: {detail}")


def run(placements: int = PLACEMENTS, seed: int = 1) -> Iterator[dict[str, object]]:
    """Play, one cluster after the other, and say what came of it."""
    tally: Counter[str] = Counter()
    start = time.perf_counter()
    while tally["placed"] < placements:
        campaign = Campaign(seed)
        campaign.play(min(500, placements - tally["placed"]))
        tally += campaign.tally
        seed += 1
        for text in campaign.wrong:
            print(text, file=sys.stderr)
    for what in ("misaligned", "rejected", "not told"):
        yield {"metric": f"mixed pods {what}", "value": tally[what], "unit": "pods"}
    for what, value in sorted(tally.items()):
        if what not in ("misaligned", "rejected", "not told"):
            yield {"metric": f"mixed pods {what}", "value": value, "unit": "pods"}
    yield {"metric": "time", "value": round(time.perf_counter() - start, 1), "unit": "s"}


if __name__ == "__main__":
    for line in run(int(sys.argv[1]) if len(sys.argv) > 1 else PLACEMENTS):
        print(json.dumps(line))
