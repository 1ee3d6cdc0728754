"""What running pods ask of others near them, added up for each kind of pod that comes."""

from __future__ import annotations

from typing import Any

import pytest

from numakube.api.codec import convert
from numakube.api.pod import Pod
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.scheduling.snapshot.term_counts import MAX_VIEWS, TermCounts, TermKind

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def term(app: str, key: str = "zone") -> dict[str, Any]:
    """Return a term about pods of an app."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def pod(name: str, **affinity: Any) -> PodInfo:
    """Return a pod of the app *name* with these terms."""
    meta = {"name": name, "namespace": "default", "uid": name, "labels": {"app": name}}
    spec = {"containers": [{"name": "c"}], "affinity": affinity}
    return PodInfo(convert(Pod, {"metadata": meta, "spec": spec}))


def preferring(name: str, app: str, weight: int) -> PodInfo:
    """Return a pod that prefers to be near to an app."""
    return pod(name, podAffinity={PREFERRED: [{"weight": weight, "podAffinityTerm": term(app)}]})


def requiring(name: str, app: str, kind: str = "podAffinity") -> PodInfo:
    """Return a pod that has to be near to an app, or far from it."""
    return pod(name, **{kind: {REQUIRED: [term(app)]}})


def sums(counts: TermCounts, app: str, kind: TermKind) -> dict[int, tuple[int, int]]:
    """Return how many terms are about an app at each row, and their weight."""
    found = dict(counts.about(pod(app), {}).of(kind))
    assert set(found) <= {"zone"}
    if not found:
        return {}
    one = found["zone"]
    pairs = zip(one.hits.tolist(), one.weight.tolist(), strict=True)
    return {row: pair for row, pair in enumerate(pairs) if any(pair)}


@pytest.mark.parametrize("asked_before", [True, False])
def test_preferences_are_added_up_by_their_weight_and_the_rest_by_number(
    asked_before: bool,
) -> None:
    """Whether pods come before or after somebody asks; what goes is taken off again."""
    counts = TermCounts()
    if asked_before:
        assert sums(counts, "db", TermKind.PREFERENCE) == {}
    running = [
        (preferring("a", "db", 10), 1),
        (preferring("b", "db", 5), 1),
        (preferring("c", "db", 5), 2),
        (preferring("d", "web", 7), 2),
        (requiring("e", "db"), 2),
        (requiring("f", "db"), 2),
        (requiring("g", "db", "podAntiAffinity"), 3),
    ]
    for one, row in running:
        counts.add(one, row)
    assert sums(counts, "db", TermKind.PREFERENCE) == {1: (2, 15), 2: (1, 5)}
    assert sums(counts, "web", TermKind.PREFERENCE) == {2: (1, 7)}
    assert sums(counts, "db", TermKind.AFFINITY) == {2: (2, 2)}
    assert sums(counts, "db", TermKind.ANTI_AFFINITY) == {3: (1, 1)}
    assert sums(counts, "other", TermKind.AFFINITY) == {}
    for one, row in running[:2]:
        counts.remove(one, row)
    assert sums(counts, "db", TermKind.PREFERENCE) == {2: (1, 5)}
    assert not counts.is_empty
    for one, row in running[2:]:
        counts.remove(one, row)
    assert counts.is_empty
    assert sums(counts, "db", TermKind.PREFERENCE) == {}


def test_what_is_known_grows_with_the_nodes() -> None:
    """Of those before nothing is lost, and weights stay apart from numbers."""
    counts = TermCounts()
    counts.add(preferring("a", "db", 10), 0)
    counts.add(requiring("b", "db"), 1)
    assert sums(counts, "db", TermKind.PREFERENCE) == {0: (1, 10)}
    last = len(next(counts.about(pod("db"), {}).of(TermKind.PREFERENCE))[1].hits)
    counts.reserve(last - 1)
    assert len(next(counts.about(pod("db"), {}).of(TermKind.PREFERENCE))[1].hits) == last
    counts.reserve(5 * last)
    for row in (last, 5 * last):
        counts.add(preferring("c", "db", 3), row)
        counts.add(requiring("d", "db"), row)
    assert sums(counts, "db", TermKind.PREFERENCE) == {0: (1, 10), last: (1, 3), 5 * last: (1, 3)}
    assert sums(counts, "db", TermKind.AFFINITY) == {1: (1, 1), last: (1, 1), 5 * last: (1, 1)}


def test_the_kind_of_pods_that_was_asked_about_longest_ago_is_forgotten() -> None:
    """It is added up anew when it comes again."""
    counts = TermCounts()
    counts.add(requiring("a", "app-0"), 1)
    first, second = counts.about(pod("app-0"), {}), counts.about(pod("app-1"), {})
    for number in range(2, MAX_VIEWS):
        counts.about(pod(f"app-{number}"), {})
    assert counts.about(pod("app-0"), {}) is first
    counts.about(pod("one more"), {})
    assert counts.about(pod("app-0"), {}) is first
    assert counts.about(pod("app-1"), {}) is not second
    for number in range(MAX_VIEWS):
        counts.about(pod(f"new-{number}"), {})
    counts.add(requiring("b", "app-0"), 1)
    assert sums(counts, "app-0", TermKind.AFFINITY) == {1: (2, 2)}
