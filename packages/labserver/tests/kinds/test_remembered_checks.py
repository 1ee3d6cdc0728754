"""Checks with a memory answer as they did the first time, and only of what is equal."""

from __future__ import annotations

from kube_lab_server.kinds.value_checks import remembered


def test_an_equal_part_is_looked_at_once() -> None:
    """Replicas have equal parts."""
    looked: list[str] = []

    @remembered
    def check(part: dict[str, str], path: str) -> list[str]:
        looked.append(path)
        return [f"{path}.{name}: too short" for name, text in part.items() if not text]

    assert check({"image": ""}, "spec") == ["spec.image: too short"]
    assert check({"image": ""}, "spec") == ["spec.image: too short"]
    assert check({"image": "app"}, "spec") == []
    assert check({"image": ""}, "template") == ["template.image: too short"]
    assert looked == ["spec", "spec", "template"]


def test_what_is_added_to_an_answer_is_not_remembered() -> None:
    """Callers collect problems in the list that they get."""

    @remembered
    def check(part: dict[str, str]) -> list[str]:
        return [*part]

    check({"a": ""}).append("mine")
    assert check({"a": ""}) == ["a"]
