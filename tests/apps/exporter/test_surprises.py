"""An exporter that writes only what no scheduler foresaw, and what schedulers believe meanwhile."""

from __future__ import annotations

import pytest
from tests.apps.exporter.surprise_world import SILENCE, Walk

from numakube.apps.exporter.exporter_config_file import read_options
from numakube.apps.exporter.report import Report
from numakube.apps.exporter.surprises import WAIT_SECONDS
from numakube.errors import ConfigError
from numakube.scheduling.numa.caches.model_belief import annotations_for
from numakube.topology.foreseen_holdings import read_foreseen
from numakube.topology.model_report import report_of
from numakube.topology.nrt_names import FORESEEN


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("foreign", "force"), [(False, False), (True, True)])
def test_whatever_happens_the_belief_becomes_the_kubelets_state(
    seed: int, *, foreign: bool, force: bool
) -> None:
    """That of a scheduler which saw it all, and of one that has just started."""
    walk = Walk(seed, foreign=foreign, force=force)
    for _ in range(12):
        for _ in range(walk.rng.randrange(40)):
            walk.step()
        walk.settle()
        fresh = walk.new_scheduler()
        for cache in (walk.cache, fresh.cache):
            assert walk.wrong(cache) == "" or walk.is_unsettled(cache)
        if walk.wrong(fresh.cache) == "":
            assert walk.free_for_tools() == walk.site.free
        if walk.rng.random() < 0.3:
            walk.start_exporter()
        if walk.rng.random() < 0.3:
            walk.scheduler = fresh
    walk.clock.seconds += SILENCE
    walk.settle()
    for cache in (walk.cache, walk.new_scheduler().cache):
        assert walk.wrong(cache) == ""
    assert walk.updates


def test_a_quiet_node_is_written_before_its_silence_is_over() -> None:
    """So that silence is not taken for death."""
    walk = Walk(1)
    before = walk.writes
    walk.clock.seconds += 0.7 * SILENCE
    walk.look()
    assert walk.writes == before
    walk.clock.seconds += 0.3 * SILENCE
    walk.look()
    assert walk.writes == before + 1


def test_what_was_foreseen_for_another_pod_says_nothing() -> None:
    """Such as an annotation that was copied with the pod."""
    walk = Walk(1)
    walk.settle()
    while not walk.reserved:
        walk.reserve()
    original = walk.reserved[0]
    told = dict(annotations_for(walk.cache.belief("n1"), original.metadata.uid))
    exact = report_of(walk.site.node)
    assert read_foreseen(told, original.metadata.uid, exact) is not None
    assert read_foreseen(told, "another", exact) is None
    assert read_foreseen({FORESEEN: told[FORESEEN] + " x"}, original.metadata.uid, exact) is None


@pytest.mark.parametrize("missing", ["exact", "watch_pods"])
def test_silence_needs_exact_data_and_the_pods(missing: str) -> None:
    """Or it could not be known what was foreseen."""
    with pytest.raises(ConfigError, match="--max-silence needs --exact and --watch-pods"):
        read_options({"max_silence": 300.0, missing: False}, env={})


def test_an_end_that_the_api_is_about_to_tell_is_waited_for() -> None:
    """Of the only pod, for a moment; an end that it will never tell is written at once."""
    walk = Walk(1, foreign=True, force=True)
    while len(walk.site.pods) < 2:
        walk.bind_foreign()
        walk.admit()
    walk.settle()
    walk.end()
    walk.settle()
    walk.delete()
    walk.settle()
    ((uid, pod),) = walk.site.pods.items()
    assert walk.watched.keys() == {uid}

    before = walk.writes
    walk.site.remove(uid)
    walk.look()
    assert (walk.writes, walk.silence.waits) == (before, True)
    walk.clock.seconds += WAIT_SECONDS / 2
    walk.look()
    assert (walk.writes, walk.silence.waits) == (before, True)
    walk.clock.seconds += WAIT_SECONDS / 2
    walk.look()
    assert (walk.writes, walk.silence.waits) == (before + 1, False)

    assert walk.site.admit(pod)
    walk.look()
    walk.delete_by_force()
    walk.tell_exporter()
    walk.look()
    before = walk.writes
    walk.site.remove(uid)
    walk.look()
    assert (walk.writes, walk.silence.waits) == (before + 1, False)


def test_what_is_deleted_while_it_is_being_written_is_written_again() -> None:
    """The answer to the write comes after the news that its object is gone."""
    walk = Walk(1)
    walk.settle()
    walk.silence.end()
    wrote = walk.silence.wrote

    def lost_meanwhile(report: Report) -> None:
        walk.silence.end()
        wrote(report)

    walk.silence.wrote = lost_meanwhile  # type: ignore[method-assign]
    before = walk.writes
    walk.look()
    walk.silence.wrote = wrote  # type: ignore[method-assign]
    walk.look()
    walk.look()
    assert walk.writes == before + 2
