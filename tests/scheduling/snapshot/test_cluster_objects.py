"""A mapping whose objects are also found by group."""

from __future__ import annotations

from numakube.scheduling.snapshot.cluster_objects import Grouped


def test_objects_are_found_by_key_and_by_group() -> None:
    """An object that changes its group leaves the old one."""
    words: Grouped[str] = Grouped(lambda word: word[0])
    words.update({"1": "apple", "2": "ant", "3": "bee"})
    assert words["1"] == "apple"
    assert words.group("a") == {"1": "apple", "2": "ant"}
    words["1"] = "bear"
    assert words.group("a") == {"2": "ant"}
    assert words.group("b") == {"3": "bee", "1": "bear"}
    assert words.pop("2") == "ant"
    assert words.pop("2", None) is None
    assert words.group("a") == {}
    assert sorted(words) == ["1", "3"]
