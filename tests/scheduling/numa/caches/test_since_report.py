"""Pods that are where the scheduler foresaw them, as their annotations say."""

from __future__ import annotations

import pytest
from tests.scheduling.numa.caches.reported_node import ReportedNode, of_surprises, pod, taken

from numakube.api.pod import Pod
from numakube.scheduling.numa.caches.known_pods import KnownPod, KnownPods
from numakube.scheduling.numa.caches.latest_reports import LatestReport, LatestReports
from numakube.scheduling.numa.caches.since_report import ForeseenPods
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import bound


class Scene:
    """A node whose exporter reports only surprises, and pods that came before and after that."""

    def __init__(self) -> None:
        self.site = ReportedNode.make()
        self.pods = KnownPods()
        assert self.site.admit(bound(pod("named"), "n1"))
        delivery = LatestReports().take(of_surprises(self.site.report()))
        assert delivery.report is not None
        self.report: LatestReport = delivery.report

    def known(self, name: str) -> KnownPod:
        """Return a pod that is what its name says."""
        one = bound(pod(name), "n1")
        if "foreseen" in name:
            one = self.site.admit_as_foreseen(one)
        return self.seen(one if name == "on its way" else taken(one))

    def seen(self, one: Pod) -> KnownPod:
        """Return what is known of a pod that was seen."""
        _, known = self.pods.see(PodInfo(one))
        assert known is not None
        return known


@pytest.mark.parametrize(
    ("others", "known"),
    [
        ((), True),
        (("named",), True),
        (("on its way",), True),
        (("foreseen 2",), True),
        (("by itself",), False),
        (("foreseen 2", "by itself"), False),
        (("named", "on its way", "by itself"), False),
        (("named", "on its way", "foreseen 2"), True),
    ],
)
def test_the_end_of_a_foreseen_pod_matters_if_where_others_are_is_to_be_worked_out(
    others: tuple[str, ...], known: bool
) -> None:
    """That is those that the kubelet has taken, and that neither the report nor they tell of."""
    scene, foreseen = Scene(), ForeseenPods()
    ended = scene.known("foreseen")
    rest = [scene.known(name) for name in others]
    assert foreseen.is_beside_the_point(ended, rest, scene.report) is known


def test_the_end_of_a_pod_of_which_nothing_was_foreseen_matters() -> None:
    """It was somewhere that only the model knows."""
    scene = Scene()
    assert not ForeseenPods().is_beside_the_point(scene.known("by itself"), (), scene.report)


@pytest.mark.parametrize(
    ("name", "told"),
    [("foreseen", True), ("by itself", False), ("named", False), ("on its way", False)],
)
def test_an_annotation_tells_of_a_taken_pod_that_the_report_does_not_name(
    name: str, told: bool
) -> None:
    """Nothing else is known of where such a pod is."""
    scene = Scene()
    one = scene.known(name)
    assert (ForeseenPods().holding(one, scene.report) is not None) is told
    assert set(ForeseenPods().placed(scene.report, [one])) == ({name} if told else set())


def test_an_exporter_that_reports_everything_needs_no_annotations() -> None:
    """What it does not name is not there."""
    scene = Scene()
    one = scene.known("foreseen")
    delivery = LatestReports().take(ReportedNode.make().report())
    assert delivery.report is not None
    assert ForeseenPods().holding(one, delivery.report) is None
    assert ForeseenPods().placed(delivery.report, [one]) == {}
    assert not ForeseenPods().keeps(one, delivery.report)


def test_a_deleted_pod_keeps_its_place_until_a_report_no_longer_names_it() -> None:
    """The kubelet may still be ending it."""
    scene, foreseen = Scene(), ForeseenPods()
    on_its_way, named = scene.known("on its way"), scene.known("named")
    assert not foreseen.keeps(on_its_way, scene.report)
    assert foreseen.keeps(named, scene.report)
    assert [one.uid for one in foreseen.deleted("n1")] == ["named"]
    foreseen.reported("n1", scene.report.topology.report)
    assert [one.uid for one in foreseen.deleted("n1")] == ["named"]
    without = LatestReports().take(of_surprises(ReportedNode.make().report())).report
    assert without is not None
    foreseen.reported("n1", without.topology.report)
    assert list(foreseen.deleted("n1")) == []
