"""A report whose exporter is gone is known for one, and pods that are gone hold nothing in it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from tests.scheduling.numa.caches.reported_node import (
    ReportedNode,
    ended,
    of_surprises,
    pod,
    taken,
)

from numakube.api.meta import OwnerReference
from numakube.api.pod import Pod, PodCondition, PodStatus
from numakube.testing import bound
from numakube.topology import nrt_names
from numakube.topology.exporter_presence import GRACE_SECONDS, current_state, trouble_with
from numakube.topology.topology_view import NodeTopology, view_of

EXPORTER = "default/exporter-x7k2p"
NOW = datetime(2026, 11, 18, 3, 0, tzinfo=UTC)


def exporter(name: str = "exporter-x7k2p", *, ready: str = "True", since: float = 3600) -> Pod:
    """The pod of an exporter, which has been as it is for *since* seconds."""
    time = (NOW - timedelta(seconds=since)).isoformat()
    made = pod(name, cpus=0.1, guaranteed=False)
    metadata = msgspec.structs.replace(made.metadata, creation_timestamp="2026-11-01T00:00:00Z")
    condition = PodCondition(type="Ready", status=ready, last_transition_time=time)
    status = PodStatus(phase="Running", conditions=(condition,))
    return msgspec.structs.replace(made, metadata=metadata, status=status)


@pytest.mark.parametrize(
    ("pods", "trouble"),
    [
        pytest.param([exporter()], "", id="at work"),
        pytest.param([], "its exporter, pod default/exporter-x7k2p, is gone", id="gone"),
        pytest.param([ended(exporter())], "is gone", id="ended"),
        pytest.param([exporter(ready="False")], "exporter-x7k2p, is not ready", id="not ready"),
        pytest.param([exporter(ready="False", since=GRACE_SECONDS - 1)], "", id="just now"),
        pytest.param([exporter(ready="False", since=GRACE_SECONDS)], "is not ready", id="overdue"),
        pytest.param([exporter("exporter-abcde")], "", id="replaced"),
        pytest.param([exporter("exporter-abcde", ready="False")], "abcde, is not", id="in vain"),
        pytest.param(
            [exporter("other-x7k2p"), exporter("exporter-2-abcde")], "is gone", id="others"
        ),
    ],
)
def test_the_pod_of_an_exporter_tells_whether_a_report_is_kept(
    pods: list[Pod], trouble: str
) -> None:
    """One of the same DaemonSet takes its place; one that is being replaced is no trouble."""
    found = trouble_with(EXPORTER, pods, now=NOW)
    assert trouble in found
    assert bool(trouble) == bool(found)


def test_without_a_clock_no_pod_is_young() -> None:
    """Whoever reads a dump does not know when it was made."""
    fresh = exporter(ready="False", since=1)
    assert not trouble_with(EXPORTER, [fresh], now=NOW)
    assert trouble_with(EXPORTER, [fresh], now=None).endswith("is not ready")


def test_nothing_is_said_of_exporters_that_do_not_tell_their_pod() -> None:
    """They may run without one, or be of another project."""
    assert not trouble_with("", [], now=NOW)


def seen(site: ReportedNode, *, silent: bool = False) -> NodeTopology:
    """Return what the report of *site* says, whose exporter names its pod."""
    report = site.report(**{nrt_names.EXPORTER: EXPORTER})
    view = view_of(of_surprises(report) if silent else report)
    assert isinstance(view, NodeTopology)
    return view


@pytest.mark.parametrize("silent", [False, True])
def test_pods_that_are_gone_hold_nothing_in_a_report_that_nobody_keeps(*, silent: bool) -> None:
    """Those that the API server knows hold what they held."""
    site = ReportedNode.make()
    pods = [taken(bound(pod(name), "n1")) for name in ("a", "b", "c")]
    assert all(map(site.admit, pods))
    view = seen(site, silent=silent)
    kept = current_state(view, [exporter(), *pods[:1]], now=NOW)
    assert (kept.zones, kept.orphaned) == (view.zones, "")
    site.remove("b")
    site.remove("c")
    left = current_state(view, pods[:1], now=NOW)
    assert left.orphaned.endswith("is gone; its report names 2 pods that are gone")
    assert left.why_old == left.orphaned
    assert tuple(zone.available for zone in left.zones) == site.free


def test_static_pods_are_not_taken_for_gone() -> None:
    """The API server has them under another uid."""
    site = ReportedNode.make()
    site.admit(pod("static-uid"))
    mirror = bound(pod("mirror"), "n1")
    annotations = {
        "kubernetes.io/config.mirror": "static-uid",
        "kubernetes.io/config.source": "file",
    }
    owner = OwnerReference(api_version="v1", kind="Node", name="n1", uid="n1", controller=True)
    metadata = msgspec.structs.replace(
        mirror.metadata, annotations=annotations, owner_references=(owner,)
    )
    view = seen(site)
    left = current_state(view, [msgspec.structs.replace(mirror, metadata=metadata)], now=NOW)
    assert left.orphaned.endswith("is gone")
    assert left.zones == view.zones
