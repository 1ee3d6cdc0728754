"""Pods that are not created yet are completed as the API server completes them."""

from __future__ import annotations

from msgspec.structs import replace

from numakube.api.meta import ObjectMeta
from numakube.api.pod import Pod
from numakube.api.workloads import PriorityClass
from numakube.insight.planned_pods import planned_pod
from numakube.testing import pod


def test_a_class_says_how_important_a_pod_is_and_whether_it_evicts() -> None:
    """Unless the pod says so itself."""
    classes = {"polite": _class("polite", 7, preemption_policy="Never")}
    polite = _of_class("polite")
    assert _completed(polite, classes) == (7, "Never")
    spec = replace(polite.spec, priority=3, preemption_policy="PreemptLowerPriority")
    assert _completed(replace(polite, spec=spec), classes) == (3, "PreemptLowerPriority")


def test_without_a_class_the_least_of_those_for_all_others_counts() -> None:
    """None that is for those alone who name it."""
    classes = {
        "named": _class("named", 1),
        "high": _class("high", 9, global_default=True),
        "usual": _class("usual", 5, preemption_policy="Never", global_default=True),
    }
    assert _completed(pod("web"), classes) == (5, "Never")
    assert _completed(pod("web"), {"named": classes["named"]}) == (0, None)


def test_a_class_that_is_not_known_says_nothing() -> None:
    """Those of the system are always known."""
    assert _completed(_of_class("gone"), {}) == (0, None)
    assert _completed(_of_class("system-node-critical"), {})[0] == 2_000_001_000


def _completed(of: Pod, classes: dict[str, PriorityClass]) -> tuple[int | None, str | None]:
    spec = planned_pod(of, classes=classes).spec
    return spec.priority, spec.preemption_policy


def _of_class(name: str) -> Pod:
    made = pod("web")
    spec = replace(made.spec, priority_class_name=name, priority=None)
    return replace(made, spec=spec)


def _class(
    name: str, value: int, *, preemption_policy: str | None = None, global_default: bool = False
) -> PriorityClass:
    return PriorityClass(
        metadata=ObjectMeta(name=name),
        value=value,
        preemption_policy=preemption_policy,
        global_default=global_default,
    )
