"""Whether a report is of the pods that the API server knows."""

from __future__ import annotations

from packages.pages.tests.world import kubelet, pod_object, report_of

from numakube.api.pod import Pod
from numakube.topology import nrt_names
from numakube.topology.exact_report import uid_hash
from numakube.topology.fingerprint import fingerprint_of
from numakube.topology.topology_view import Unusable, view_of
from numakube_pages.node_view import Agreement, sides_of


def admitted(*pods: Pod, exact: bool = True, told: tuple[Pod, ...] | None = None) -> object:
    """Return the view of a node that holds *pods*, with the fingerprint of those *told*."""
    model = kubelet()
    for pod in pods:
        model.admit(pod)
    counted = pods if told is None else told
    fingerprint = fingerprint_of([(pod.metadata.namespace, pod.metadata.name) for pod in counted])
    return view_of(
        report_of("a", model, exact=exact, attributes={nrt_names.FINGERPRINT: fingerprint})
    )


ONE = pod_object("one", node="a")
TWO = pod_object("two", node="a")


def test_the_same_pods_agree() -> None:
    """In any order."""
    sides = sides_of(admitted(ONE, TWO), [TWO, ONE])  # type: ignore[arg-type]
    assert sides.agreement is Agreement.SAME
    assert sides.fingerprint == sides.expected


def test_an_exact_report_says_which_pods_are_on_one_side_only() -> None:
    """It knows pods by the hash of their uid."""
    sides = sides_of(admitted(ONE), [TWO])  # type: ignore[arg-type]
    assert sides.agreement is Agreement.DIFFERENT
    assert sides.only_in_report == (uid_hash(ONE.metadata.uid),)
    assert sides.only_in_cluster == (TWO,)


def test_a_fingerprint_says_only_that_they_differ() -> None:
    """It cannot be taken apart."""
    sides = sides_of(admitted(ONE, exact=False), [ONE, TWO])  # type: ignore[arg-type]
    assert sides.agreement is Agreement.DIFFERENT
    assert (sides.only_in_report, sides.only_in_cluster) == ((), ())
    assert sides.expected != sides.fingerprint


def test_without_a_usable_report_nothing_is_claimed() -> None:
    """Neither agreement nor disagreement."""
    assert sides_of(None, [ONE]).agreement is Agreement.UNKNOWN
    assert sides_of(Unusable("no zones"), [ONE]).agreement is Agreement.UNKNOWN
