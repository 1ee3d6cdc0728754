"""What of a pod decisions look at, worked out once."""

from __future__ import annotations

from typing import Any

import pytest

from numakube.api.codec import convert
from numakube.api.koordinator.keys import POD_HOLDING
from numakube.api.pod import Pod
from numakube.scheduling.snapshot.pods import NO_TERMS, PodInfo, terms_of

MIB, GIB = 1 << 20, 1 << 30
BOTH = {"cpu": "1", "memory": "1Gi"}


def pod(
    *containers: dict[str, str],
    init: tuple[dict[str, str], ...] = (),
    level: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> PodInfo:
    """A pod whose containers ask for so much."""

    def made(each: tuple[dict[str, str], ...]) -> list[dict[str, Any]]:
        return [{"name": f"c{at}", "resources": {"requests": one}} for at, one in enumerate(each)]

    meta = {"name": "p", "namespace": "d", "uid": "u", "annotations": annotations or {}}
    whole = {} if level is None else {"resources": {"requests": level}}
    tree = {"containers": made(containers), "initContainers": made(init), **whole, **spec}
    return PodInfo(convert(Pod, {"metadata": meta, "spec": tree}))


@pytest.mark.parametrize(
    ("one", "cpu", "memory"),
    [
        (pod({}), 100, 200 * MIB),
        (pod(BOTH), 1000, GIB),
        (pod({"cpu": "1"}), 1000, 200 * MIB),
        (pod({"memory": "1Gi"}), 100, GIB),
        (pod(BOTH, {}), 1100, GIB + 200 * MIB),
        (pod({}, BOTH), 1100, GIB + 200 * MIB),
        (pod(BOTH, BOTH), 2000, 2 * GIB),
        (pod(BOTH, init=({},)), 1000, GIB),
        (pod({}, init=(BOTH,)), 1000, GIB),
        (pod({"cpu": "0", "memory": "0"}), 0, 0),
        (pod({}, {}, level={"cpu": "3"}), 3000, 400 * MIB),
        (pod({}, level={"cpu": "3", "memory": "2Gi"}), 3000, 2 * GIB),
        (pod({}, level={"vendor.example/gpu": "3"}), 100, 200 * MIB),
    ],
)
def test_containers_without_a_request_count_with_a_little(
    one: PodInfo, cpu: int, memory: int
) -> None:
    """Each of them; nothing that the pod asks for as a whole is made up."""
    assert (one.nonzero_cpu_milli, one.nonzero_memory_bytes) == (cpu, memory)


def test_what_is_asked_for_is_counted_in_thousandths_and_bytes() -> None:
    """Overhead included, and nothing made up."""
    one = pod({"cpu": "250m", "vendor.example/gpu": "2"}, overhead={"cpu": "50m"})
    assert one.requests == {"cpu": 300, "vendor.example/gpu": 2}
    assert pod({}).requests == {}


@pytest.mark.parametrize(
    ("before", "after", "less"),
    [
        (pod(BOTH), pod(BOTH), False),
        (pod(BOTH), pod({"cpu": "2", "memory": "1Gi"}), False),
        (pod(BOTH), pod({"cpu": "900m", "memory": "1Gi"}), True),
        (pod(BOTH), pod({"cpu": "1"}), True),
        (pod(BOTH), pod(BOTH, annotations={POD_HOLDING[0]: "x"}), False),
        (pod(BOTH, annotations={POD_HOLDING[0]: "x"}), pod(BOTH), True),
        (
            pod(BOTH, annotations={POD_HOLDING[0]: "x"}),
            pod(BOTH, annotations={POD_HOLDING[0]: "y"}),
            True,
        ),
        (
            pod(BOTH, annotations={POD_HOLDING[0]: "x", "a": "1"}),
            pod(BOTH, annotations={POD_HOLDING[0]: "x", "a": "2"}),
            False,
        ),
    ],
)
def test_others_may_find_room_if_a_pod_holds_less_or_something_else(
    before: PodInfo, after: PodInfo, *, less: bool
) -> None:
    """By its requests, or by what a scheduler gave it."""
    assert after.may_hold_less_than(before) is less


def test_versions_share_what_was_worked_out_unless_it_may_differ() -> None:
    """A replica does; one with other annotations does not."""
    one, made = pod(BOTH), list[str]()

    def make(made_of: Pod) -> str:
        made.append(made_of.metadata.name)
        return made_of.metadata.name

    assert one.memo("key", make) == one.memo("key", make) == "p"
    meta = {"name": "q", "namespace": "d", "uid": "v"}
    other = one.sibling(convert(Pod, {"metadata": meta, "spec": {"containers": []}}))
    assert (other.uid, other.name, other.key, str(other)) == ("v", "q", "d/q", "PodInfo(d/q)")
    assert other.memo("key", make) == "p"
    assert other.requests == one.requests
    annotated = one.annotated({"a": "1"})
    assert annotated.memo("key", make) == "p"
    assert made == ["p", "p"]
    assert annotated.pod.metadata.annotations == {"a": "1"}
    assert one.pod.metadata.annotations == {}


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
GOOD = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}
BAD = {
    "topologyKey": "zone",
    "labelSelector": {"matchExpressions": [{"key": "a", "operator": "X"}]},
}


def test_terms_have_weights_and_namespaces_of_their_own() -> None:
    """Without any, the pod's own counts."""
    near = {
        REQUIRED: [GOOD, {**GOOD, "namespaces": ["x", "y"]}],
        PREFERRED: [{"weight": 3, "podAffinityTerm": {**GOOD, "namespaceSelector": {}}}],
    }
    far = {REQUIRED: [GOOD], PREFERRED: [{"weight": 5, "podAffinityTerm": GOOD}]}
    terms = terms_of(pod(affinity={"podAffinity": near, "podAntiAffinity": far}))
    assert [sorted(term.namespaces) for term in terms.affinity] == [["d"], ["x", "y"]]
    assert [weight for _, weight in terms.preferences] == [3, -5]
    assert [sorted(term.namespaces) for term, _ in terms.preferences] == [[], ["d"]]
    assert len(terms.anti_affinity) == 1
    assert terms.problem == ""
    assert terms_of(pod()) is NO_TERMS
    assert terms_of(pod(affinity={"nodeAffinity": {}})) is NO_TERMS


@pytest.mark.parametrize(
    ("kind", "field", "what"),
    [
        ("podAffinity", REQUIRED, "required affinity: "),
        ("podAntiAffinity", REQUIRED, "required anti-affinity: "),
        ("podAffinity", PREFERRED, "preferred affinity: "),
        ("podAntiAffinity", PREFERRED, "preferred affinity: "),
    ],
)
def test_a_term_that_cannot_be_read_is_told_and_left_out(kind: str, field: str, what: str) -> None:
    """The others of other kinds stay."""
    term: dict[str, Any] = BAD if field == REQUIRED else {"weight": 1, "podAffinityTerm": BAD}
    other = "podAntiAffinity" if kind == "podAffinity" else "podAffinity"
    terms = terms_of(pod(affinity={kind: {field: [term]}, other: {REQUIRED: [GOOD]}}))
    assert terms.problem.startswith(what)
    assert "X" in terms.problem
    assert len(terms.affinity) + len(terms.anti_affinity) == 1
    assert terms.preferences == ()
