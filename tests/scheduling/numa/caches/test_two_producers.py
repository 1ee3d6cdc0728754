"""Our exporter and another producer write one object, one after the other or in turn."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from tests.scheduling.numa.caches.reported_node import ReportedNode, ended, machine, pod, taken

from numakube.api.nrt import NodeResourceTopology
from numakube.api.pod import Pod
from numakube.scheduling.numa.caches.counts_belief import CountsBelief
from numakube.scheduling.numa.caches.model_belief import ExactBelief
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import bound
from numakube.values.resources import Amounts


def free(cache: Predict) -> tuple[Amounts, ...]:
    """What the cache believes to be free."""
    belief = cache.belief("n1")
    assert belief is not None
    return belief.available


def run(cache: Predict, site: ReportedNode, one: Pod) -> Pod | None:
    """Let a pod of another scheduler come, if the kubelet takes it."""
    one = bound(one, "n1")
    if not site.admit(one):
        return None
    cache.pod_seen(PodInfo(taken(one)))
    return taken(one)


def ours(site: ReportedNode, last: NodeResourceTopology) -> NodeResourceTopology:
    """Our exporter writes the object, on top of what others have left."""
    report = site.report()
    annotations = {**last.metadata.annotations, **report.metadata.annotations}
    metadata = msgspec.structs.replace(report.metadata, annotations=annotations)
    return msgspec.structs.replace(report, metadata=metadata)


def test_what_was_exact_is_forgotten_when_another_producer_takes_over() -> None:
    """Its pods left long ago; those that came since are in the zones of the other."""
    site, cache = ReportedNode.make(on=machine(zones=4, cores=4)), Predict()
    early = [run(cache, site, pod(f"early-{number}", cpus=4)) for number in range(3)]
    last = site.report()
    cache.set_report(last)
    for one in early:
        assert one is not None
        cache.pod_seen(PodInfo(ended(one)))
        cache.pod_gone(one.metadata.uid)
        site.remove(one.metadata.uid)
    for number in range(6):
        assert run(cache, site, pod(f"late-{number}", cpus=2)) is not None
    for number in (0, 3):
        cache.pod_gone(f"late-{number}")
        site.remove(f"late-{number}")
    cache.set_report(site.overwrite(last))
    assert isinstance(cache.belief("n1"), CountsBelief)
    assert free(cache) == site.free


def test_a_scheduler_that_starts_after_the_change_believes_the_zones() -> None:
    """It lists what is there: an object with marks of both, and the pods."""
    site = ReportedNode.make()
    last = site.report()
    cache = Predict()
    for number in range(3):
        assert run(cache, site, pod(f"p{number}")) is not None
    cache.set_report(site.overwrite(last))
    assert free(cache) == site.free


@pytest.mark.parametrize("seed", range(12))
def test_two_producers_that_write_in_turn_never_make_us_believe_too_much(seed: int) -> None:
    """Whoever wrote last, we believe the kubelet's state, or less while pods are on their way."""
    rng = Random(seed)
    site, cache = ReportedNode.make(on=machine(zones=2, cores=6, gpus=4)), Predict()
    last = site.report()
    cache.set_report(last)
    running: list[Pod] = []
    kinds = set()
    for number in range(40):
        if running and rng.random() < 0.45:
            gone = running.pop(rng.randrange(len(running)))
            site.remove(gone.metadata.uid)
            cache.pod_seen(PodInfo(ended(gone)))
            cache.pod_gone(gone.metadata.uid)
        else:
            wanted = pod(f"p{number}", cpus=rng.choice([1, 2, 3]), gpus=rng.choice([0, 1]))
            came = run(cache, site, wanted)
            running += [] if came is None else [came]
        if rng.random() < 0.7:
            last = site.overwrite(last) if rng.random() < 0.5 else ours(site, last)
            cache.set_report(last)
            assert free(cache) == site.free
        believed, true = free(cache), site.free
        assert all(
            amount <= true[zone][name]
            for zone, amounts in enumerate(believed)
            for name, amount in amounts.items()
        )
        kinds.add(type(cache.belief("n1")))
    assert kinds == {ExactBelief, CountsBelief}
