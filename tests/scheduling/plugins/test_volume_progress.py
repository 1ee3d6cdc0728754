"""Volumes are waited for until they are bound, or cannot be any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.scheduling.plugins.test_volume_binding import booked
from tests.scheduling.plugins.volume_clusters import BOUND, claim, cluster, pod, volume

from numakube.api.storage_objects import (
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
)
from numakube.scheduling.framework.status import Status, failure
from numakube.scheduling.plugins.volumes.volume_binding import VolumeBinding
from numakube.scheduling.snapshot.cluster import Cluster

LATE = failure("timed out")


class Patient:
    """Writes nothing; lets things happen one by one while somebody waits."""

    def __init__(self, *happens: Callable[[], None]) -> None:
        self.happens = happens
        self.answers: list[Status | None] = []

    async def bind_volume(self, volume: PersistentVolume) -> None:
        """Take it."""

    async def select_node(self, claim: PersistentVolumeClaim) -> None:
        """Take it."""

    async def until(self, done: Callable[[], Status | None], *, timeout_seconds: float) -> Status:
        """Ask after each thing that happens."""
        del timeout_seconds
        for happens in (lambda: None, *self.happens):
            happens()
            self.answers.append(done())
            if self.answers[-1] is not None:
                return self.answers[-1]
        return LATE


def changed(made: Cluster, *, annotations: dict[str, str], **spec: Any) -> None:
    """Let the claim get another version."""
    known = made.objects.claims["default/data"]
    meta = msgspec.structs.replace(known.metadata, resource_version="9", annotations=annotations)
    spec_now = msgspec.structs.replace(known.spec, **spec)
    now = msgspec.structs.replace(known, metadata=meta, spec=spec_now)
    made.objects.claims["default/data"] = now


HERE = {SELECTED_NODE: "a"}


def made_in(zone: str, **annotations: str) -> Callable[[Cluster], None]:
    """Let a volume come, and the claim name it."""

    def happens(made: Cluster) -> None:
        volume(made.objects, "v", zone=zone)
        changed(made, annotations={**HERE, **annotations}, volume_name="v")

    return happens


def gone(made: Cluster) -> None:
    """Let somebody delete the claim."""
    del made.objects.claims["default/data"]


CASES: dict[str, tuple[Callable[[Cluster], None], str | None]] = {
    "nothing": (lambda _: None, None),
    "the claim is gone": (gone, 'persistentvolumeclaim "data" is gone'),
    "another node is selected": (
        lambda made: changed(made, annotations={}),
        'provisioning failed for PVC "data"',
    ),
    "a version that says nothing new": (lambda made: changed(made, annotations=HERE), None),
    "bound to a volume that is not seen yet": (
        lambda made: changed(made, annotations={**HERE, **BOUND}, volume_name="v"),
        None,
    ),
    "a volume that is not bound yet": (made_in("a"), None),
    "a volume out of reach": (
        made_in("b", **BOUND),
        'pv "v" node affinity doesn\'t match node "a"',
    ),
    "bound": (made_in("a", **BOUND), ""),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_volume_that_is_made_is_waited_for(name: str) -> None:
    """Until claim and volume are bound to each other, where the pod is to run."""
    happens, problem = CASES[name]
    made, new = cluster("ab"), pod("data")
    claim(made.objects, "data", storageClassName="late")
    actions = Patient(lambda: happens(made))
    plugin = VolumeBinding(actions=actions)
    status = await plugin.pre_bind(booked(plugin, made, new), new, "a")
    assert actions.answers[0] is None
    if problem is None:
        assert status is LATE
    else:
        assert status.message == (f"binding volumes: {problem}" if problem else "")
        assert status.ok is not bool(problem)


def reset(made: Cluster, *, uid: str, version: str = "9", zone: str = "a") -> None:
    """Let the volume get another version, with a reference to the claim."""
    ref: dict[str, Any] = {"namespace": "default", "name": "data", "uid": uid} if uid else {}
    more: dict[str, Any] = {"claimRef": ref} if ref else {}
    volume(made.objects, "v", zone=zone, storageClassName="late", **more)
    known = made.objects.volumes["v"]
    meta = msgspec.structs.replace(known.metadata, resource_version=version)
    made.objects.volumes["v"] = msgspec.structs.replace(known, metadata=meta)


def bound_to_each_other(made: Cluster) -> None:
    """Let the volume controller do its work."""
    reset(made, uid="data")
    changed(made, annotations=BOUND, volume_name="v")


def without_volume(made: Cluster) -> None:
    """Let somebody delete the volume."""
    del made.objects.volumes["v"]


MATCHED: dict[str, tuple[Callable[[Cluster], None], str | None]] = {
    "nothing": (lambda _: None, None),
    "the volume is gone": (without_volume, 'persistentvolume "v" is gone'),
    "out of reach": (
        lambda made: reset(made, uid="data", zone="b"),
        'pv "v" node affinity doesn\'t match node "a"',
    ),
    "its reference was reset": (
        lambda made: reset(made, uid=""),
        'ClaimRef got reset for pv "v"',
    ),
    "set aside": (lambda made: reset(made, uid="data"), None),
    "the claim is not there": (gone, None),
    "bound": (bound_to_each_other, ""),
}


@pytest.mark.parametrize("name", MATCHED)
async def test_a_volume_that_was_found_is_waited_for(name: str) -> None:
    """Until the claim is bound to it."""
    happens, problem = MATCHED[name]
    made, new = cluster("ab"), pod("data")
    volume(made.objects, "v", zone="a", storageClassName="late")
    claim(made.objects, "data", storageClassName="late")
    actions = Patient(lambda: happens(made))
    plugin = VolumeBinding(actions=actions)
    status = await plugin.pre_bind(booked(plugin, made, new), new, "a")
    assert actions.answers[0] is None
    if problem is None:
        assert status is LATE
    else:
        assert status.message == (f"binding volumes: {problem}" if problem else "")
        assert status.ok is not bool(problem)
