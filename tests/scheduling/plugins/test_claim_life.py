"""The life of claims under schedulers that fail, restart and race: nothing twice, nothing lost."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from msgspec.structs import replace

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.api.resource_claims import FINALIZER, ResourceClaim, ResourceClaimStatus
from numakube.api.resource_slices import DeviceClass, ResourceSlice
from numakube.errors import NumakubeError
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.plugins.dynamic_resources import DynamicResources
from numakube.scheduling.plugins.dynamic_resources.claim_binding import ClaimConflict
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing.claim_api import ChangeRefused, ReplayedApi, finished

DEVICES: Final = 3
CLAIMS: Final = ("a", "b", "c", "d")
WRITES: Final = ("set_finalizers", "set_status")


class Killed(BaseException):
    """The process ends here."""


class FaultyApi(ReplayedApi):
    """An API server that fails, or whose client is killed, before or after a write."""

    fault: tuple[str, str] | None = None

    def created(self, claim: ResourceClaim) -> None:
        """Let a user create *claim*; each object has a version of its own."""
        self._stored(claim)

    async def set_finalizers(self, claim: ResourceClaim) -> ResourceClaim:
        """Write, or fail."""
        self._strike("before", "set_finalizers")
        written = await super().set_finalizers(claim)
        self._strike("after", "set_finalizers")
        return written

    async def set_status(self, claim: ResourceClaim, *, allocation: bool) -> ResourceClaim:
        """Write, or fail."""
        self._strike("before", "set_status")
        written = await super().set_status(claim, allocation=allocation)
        self._strike("after", "set_status")
        return written

    def _strike(self, when: str, what: str) -> None:
        if self.fault is None or self.fault[1] != f"{when} {what}":
            return
        kind, self.fault = self.fault[0], None
        if kind == "killed":
            raise Killed
        if kind == "conflict" and when == "before":
            raise ClaimConflict("the object has been modified")
        raise ChangeRefused("the server is on fire")


class ClaimLife(RuleBasedStateMachine):
    """Pods come and go, claims are shared, deleted and given back, and the scheduler restarts."""

    @initialize()
    def prepare(self) -> None:
        """One node with a few devices."""
        self.cluster = Cluster()
        self.cluster.set_node(convert(Node, {"metadata": {"name": "n"}}))
        objects = self.cluster.objects
        objects.device_classes["gpu"] = convert(DeviceClass, {"metadata": {"name": "gpu"}})
        spec = {
            "driver": "d",
            "nodeName": "n",
            "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"d{index}"} for index in range(DEVICES)],
        }
        tree: dict[str, Any] = {"metadata": {"name": "s"}, "spec": spec}
        objects.resource_slices["s"] = convert(ResourceSlice, tree)
        self.api = FaultyApi(objects)
        self.reserved: dict[str, tuple[PodInfo, CycleState]] = {}
        self.bound: dict[str, set[str]] = {}
        self.count = 0
        self.restart()
        for name in CLAIMS:
            self.create(name, 1)

    @precondition(lambda self: len(self.reserved) > 1)
    @rule()
    def restart(self) -> None:
        """A new process knows only what the server has."""
        self.plugin = DynamicResources(objects=self.cluster.objects, actions=self.api)
        self.reserved.clear()

    def create(self, name: str, size: int) -> None:
        """A user creates a claim."""
        self.count += 1
        request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": size}}
        tree = {
            "metadata": {"name": name, "namespace": "ns", "uid": f"{name}-{self.count}"},
            "spec": {"devices": {"requests": [request]}},
        }
        self.api.created(convert(ResourceClaim, tree))

    @rule(names=st.sets(st.sampled_from(CLAIMS), min_size=1, max_size=2))
    def reserve(self, names: set[str]) -> None:
        """A pod is decided on."""
        self.count += 1
        entries = [{"name": name, "resourceClaimName": name} for name in sorted(names)]
        uid = f"p{self.count}"
        tree = {
            "metadata": {"name": uid, "namespace": "ns", "uid": uid},
            "spec": {"containers": [], "resourceClaims": entries},
        }
        pod, state = PodInfo(convert(Pod, tree)), CycleState()
        snapshot = self.cluster.snapshot()
        if not self.plugin.pre_enqueue(pod).ok:
            return
        if not self.plugin.pre_filter(state, pod, snapshot).status.ok:
            return
        node = self.cluster.node("n")
        assert node is not None
        if not self.plugin.filter(state, pod, node).ok:
            self.plugin.post_filter(state, pod, snapshot, {})
            return
        assert self.plugin.reserve(state, pod, node).ok
        self.reserved[uid] = (pod, state)

    @precondition(lambda self: self.reserved)
    @rule(
        data=st.data(),
        kind=st.sampled_from(("none", "none", "conflict", "error", "killed")),
        when=st.sampled_from(("before", "after")),
        what=st.sampled_from(WRITES),
    )
    def bind(self, data: st.DataObject, kind: str, when: str, what: str) -> None:
        """A pod's claims are written down, unless something happens on the way."""
        uid = data.draw(st.sampled_from(sorted(self.reserved)))
        pod, state = self.reserved.pop(uid)
        self.api.fault = None if kind == "none" else (kind, f"{when} {what}")
        try:
            status = finished(self.plugin.pre_bind(state, pod, "n"))
        except Killed:
            self.restart()
            return
        finally:
            self.api.fault = None
        if status.ok:
            self.bound[uid] = {claim.name for claim in pod.pod.spec.resource_claims}
        else:
            self.plugin.unreserve(state, pod, "n")

    @precondition(lambda self: self.reserved)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        """A reservation is undone."""
        uid = data.draw(st.sampled_from(sorted(self.reserved)))
        pod, state = self.reserved.pop(uid)
        self.plugin.unreserve(state, pod, "n")

    def _allocated(self) -> list[str]:
        claims = self.cluster.objects.resource_claims
        return [key for key, one in claims.items() if one.status.allocation is not None]

    @precondition(lambda self: len(self._allocated()) > 1)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        """The pods of a claim end, and the claim controller gives the devices back."""
        key = data.draw(st.sampled_from(sorted(self._allocated())))
        claim = self.cluster.objects.resource_claims[key]
        name = claim.metadata.name
        self.bound = {uid: names for uid, names in self.bound.items() if name not in names}
        freed = replace(claim, status=ResourceClaimStatus())
        finished(self.api.set_status(freed, allocation=True))

    @precondition(lambda self: len(self._allocated()) > 1)
    @rule(data=st.data())
    def replace_claim(self, data: st.DataObject) -> None:
        """A user deletes a claim that nothing protects, and makes another one of that name."""
        known = self.cluster.objects.resource_claims
        free = sorted(set(known) - set(self._allocated()))
        if free:
            key = data.draw(st.sampled_from(free))
            del known[key]
            self.create(key.removeprefix("ns/"), data.draw(st.integers(1, 2)))

    def _held(self) -> list[str]:
        return [
            result.device
            for claim in self.cluster.objects.resource_claims.values()
            if claim.status.allocation is not None
            for result in claim.status.allocation.devices.results
        ]

    @invariant()
    def no_device_is_allocated_twice(self) -> None:
        """Whatever failed."""
        held = self._held()
        assert len(held) == len(set(held))

    @invariant()
    def pods_that_were_let_through_have_their_devices(self) -> None:
        """Allocated, reserved for them and protected."""
        for uid, names in self.bound.items():
            for name in names:
                claim = self.cluster.objects.resource_claims[f"ns/{name}"]
                assert claim.status.allocation is not None
                assert FINALIZER in claim.metadata.finalizers
                assert uid in {consumer.uid for consumer in claim.status.reserved_for}

    @invariant()
    def nothing_is_leaked(self) -> None:
        """Without reservations, what is taken is what claims hold; a new process agrees."""
        if self.reserved:
            return
        fresh = DynamicResources(objects=self.cluster.objects, actions=self.api)
        tracked = [one._tracker.state(self.cluster.objects) for one in (self.plugin, fresh)]
        assert tracked[0].devices.keys() == tracked[1].devices.keys() == set(tracked[1].devices)
        assert {device.device for device in tracked[0].devices} == set(self._held())


TestClaimLife = ClaimLife.TestCase
TestClaimLife.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


def test_the_faults_are_errors_of_ours() -> None:
    """So that the plugin meets what a client raises."""
    assert issubclass(ChangeRefused, NumakubeError)
    assert issubclass(ClaimConflict, NumakubeError)
