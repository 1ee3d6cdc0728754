"""Faults to order."""

from random import Random

import pytest

from kube_lab_server import Fault, FaultKind, FaultRule, Faults
from numakube.errors import ConfigError


def faults(*rules: FaultRule) -> Faults:
    """Return faults with *rules* in force."""
    result = Faults(Random(1))
    for rule in rules:
        result.add(rule)
    return result


def test_only_matching_requests_are_hit() -> None:
    """By method and by a part of the path or query."""
    struck = faults(FaultRule(kind=FaultKind.FAIL, methods=("POST",), path="/pods", code=503))
    assert struck.strike("POST", "/api/v1/namespaces/a/pods") == Fault(code=503)
    assert struck.strike("GET", "/api/v1/pods") == Fault()
    assert struck.strike("POST", "/api/v1/nodes") == Fault()
    watches = faults(FaultRule(kind=FaultKind.DROP, path="watch=true"))
    assert watches.strike("GET", "/api/v1/pods?watch=true").drop


def test_a_rule_is_spent_after_its_times() -> None:
    """And is then no longer listed."""
    struck = faults(FaultRule(kind=FaultKind.DROP, times=2))
    assert [struck.strike("GET", "/").drop for _ in range(3)] == [True, True, False]
    assert struck.rules() == {}


def test_delays_add_up_until_a_failure() -> None:
    """The order of the rules is the order of their arrival."""
    struck = faults(
        FaultRule(kind=FaultKind.DELAY, seconds=1),
        FaultRule(kind=FaultKind.DELAY, seconds=2),
        FaultRule(kind=FaultKind.FAIL, code=409),
        FaultRule(kind=FaultKind.DELAY, seconds=4),
    )
    assert struck.strike("GET", "/") == Fault(delay=3, code=409)


def test_a_share_hits_some_requests() -> None:
    """Neither all nor none of many."""
    struck = faults(FaultRule(kind=FaultKind.FAIL, share=0.25))
    hits = sum(struck.strike("GET", "/").code is not None for _ in range(400))
    assert 60 < hits < 140


def test_rules_can_be_lifted() -> None:
    """One by one, or all at once; a spent one does not matter."""
    struck = faults(FaultRule(kind=FaultKind.DROP), FaultRule(kind=FaultKind.DROP))
    struck.remove(1)
    struck.remove(77)
    assert list(struck.rules()) == [2]
    struck.clear()
    assert struck.strike("GET", "/") == Fault()


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ({"path": "("}, "no regular expression"),
        ({"share": 2.0}, "between 0 and 1"),
        ({"code": 200}, "between 400 and 599"),
    ],
)
def test_rules_that_make_no_sense_are_refused(rule: dict[str, object], text: str) -> None:
    """With the field that is wrong."""
    with pytest.raises(ConfigError, match=text):
        FaultRule(kind=FaultKind.FAIL, **rule)  # type: ignore[arg-type]
