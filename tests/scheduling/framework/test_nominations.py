"""Who is nominated where is what was said last of each pod."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.scheduling.conftest import pod_of

from numakube.scheduling.framework.plugins import Nominations
from numakube.scheduling.framework.status import SUCCESS, unschedulable

PODS = {name: pod_of(name, priority=at // 2) for at, name in enumerate("abcdef")}
NODES = ("n0", "n1")
steps = st.lists(
    st.tuples(
        st.sampled_from(("nominate", "drop", "expect")),
        st.sampled_from(sorted(PODS)),
        st.sampled_from(NODES),
        st.frozensets(st.sampled_from("xy")),
    ),
    max_size=25,
)


@given(steps)
def test_every_question_is_answered_by_what_was_said_last(steps: list[Any]) -> None:
    """A pod is nominated to one node, and what it waits for ends with that."""
    told, there, leaving = Nominations(), dict[str, str](), dict[str, frozenset[str]]()
    for act, name, node, victims in steps:
        generation = told.generation
        if act == "nominate":
            told.nominate(PODS[name], node)
            there.pop(name, None)
            there[name] = node
            leaving.pop(name, None)
            assert told.generation > generation
        elif act == "drop":
            assert told.drop(name) == there.pop(name, None)
            leaving.pop(name, None)
        else:
            told.expect_to_leave(name, victims)
            leaving.pop(name, None)
            if victims and name in there:
                leaving[name] = victims
        assert len(told) == len(there)
        assert bool(told) == bool(there)
        assert told.nodes() == frozenset(there.values())
        for one in PODS:
            assert told.node_of(one) == there.get(one)
            assert told.leaving(one) == leaving.get(one, frozenset())
        for place in NODES:
            here = [PODS[one] for one, at in there.items() if at == place]
            for pod in PODS.values():
                ahead = [o for o in here if o.priority >= pod.priority and o is not pod]
                assert told.before(pod, place) == ahead
            for priority in range(4):
                below = [one for one in here if one.priority < priority]
                assert told.below(priority, place) == below


def test_a_drop_changes_the_generation_only_if_there_was_something() -> None:
    """What depends on nominations is worked out anew after each change."""
    told = Nominations()
    told.drop("a")
    assert told.generation == 0
    told.nominate(PODS["a"], "n0")
    before = told.generation
    told.drop("a")
    assert told.generation > before


def test_a_verdict_is_good_for_its_kind_node_and_state() -> None:
    """Another state of the node forgets it."""
    told, refusal = Nominations(), unschedulable("full")
    told.remember(b"kind", "n0", 1, refusal)
    told.remember(b"other", "n0", 1, SUCCESS)
    assert told.verdict(b"kind", "n0", 1) is refusal
    assert told.verdict(b"other", "n0", 1) is SUCCESS
    assert told.verdict(b"kind", "n0", 2) is None
    assert told.verdict(b"kind", "n1", 1) is None
    told.remember(b"kind", "n0", 2, SUCCESS)
    assert told.verdict(b"kind", "n0", 1) is None
    assert told.verdict(b"kind", "n0", 2) is SUCCESS
