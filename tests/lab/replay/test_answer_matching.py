"""Comparison with recorded answers."""

from __future__ import annotations

from typing import Any

import pytest

from numakube_lab.replay.recorded_cases import Matcher

UID = "0b5c2b7e-1a4f-4a58-9c0e-6a7a4f4a0c11"
OTHER = "1b5c2b7e-1a4f-4a58-9c0e-6a7a4f4a0c22"


def differences(wanted: object, got: object, **options: Any) -> list[str]:
    """The differences as text."""
    matcher = Matcher(options.pop("own", frozenset()), options.pop("managed_fields", False))
    return [str(difference) for difference in matcher.differences(wanted, got, **options)]


@pytest.mark.parametrize(
    ("wanted", "got"),
    [
        ("<time>", "2026-01-02T03:04:05Z"),
        ("<microtime>", "2026-01-02T03:04:05.000006Z"),
        ("<name:web->", "web-b2c4d"),
        ("<rv>", "17"),
        ("too old: <rv> (<rv>)", "too old: 1 (22)"),
        ("<port>", 30123),
        ("<none>", "<none>"),
        ("Invalid value: <dump>: bad", 'Invalid value: {"a":\n1}: bad'),
    ],
)
def test_a_value_of_the_recorded_form_matches(wanted: object, got: object) -> None:
    """The value itself does not matter."""
    assert differences({"x": wanted}, {"x": got}) == []


@pytest.mark.parametrize(
    ("wanted", "got"),
    [
        ("<time>", "2020-01-02T03:04:05Z"),
        ("<time>", None),
        ("<name:web->", "web-aeiou"),
        ("<rv:1>", "x"),
        (1, True),
        ([1], [1, 2]),
        ({}, None),
    ],
)
def test_a_value_of_another_form_does_not(wanted: object, got: object) -> None:
    """Years of the past are input; vowels are never generated; true is not one."""
    assert differences({"x": wanted}, {"x": got}) != []


def test_a_label_stands_for_one_value_and_a_value_for_one_label() -> None:
    """So that "the same object" and "another version" can be told."""
    same = {"a": "<uid:1>", "b": "<uid:1>"}
    two = {"a": "<uid:1>", "b": "<uid:2>"}

    assert differences(same, {"a": UID, "b": UID}) == []
    assert differences(same, {"a": UID, "b": OTHER}) != []
    assert differences(two, {"a": UID, "b": UID}) != []


def test_a_failed_comparison_binds_no_label() -> None:
    """An attempt that is repeated starts afresh."""
    matcher = Matcher(frozenset(), managed_fields=False)
    wanted = {"metadata": {"uid": "<uid:1>"}, "ready": True}

    assert matcher.differences(wanted, {"metadata": {"uid": UID}, "ready": False})
    assert not matcher.differences(wanted, {"metadata": {"uid": OTHER}, "ready": True})


def test_a_uid_that_the_case_sent_itself_is_not_a_generated_one() -> None:
    """A server that keeps a client's uid is wrong."""
    assert differences({"uid": "<uid:1>"}, {"uid": UID}, own=frozenset({UID})) != []


def test_managed_fields_count_only_where_they_were_recorded() -> None:
    """Their order does not."""
    one = {"manager": "a", "operation": "Apply"}
    two = {"manager": "b", "operation": "Update"}
    got = {"metadata": {"managedFields": [two, one]}}

    assert differences({"metadata": {}}, got) == []
    wanted = {"metadata": {"managedFields": [one, two]}}
    assert differences(wanted, got, managed_fields=True) == []


def test_more_than_was_recorded_is_fine_where_the_case_says_so() -> None:
    """Otherwise it is a difference."""
    assert differences({"a": 1}, {"a": 1, "b": 2}, contains=True) == []
    assert differences({"a": 1}, {"a": 1, "b": 2}) == ["/b: wanted nothing, got 2"]
