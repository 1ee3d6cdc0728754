"""JSON paths of printer columns."""

from __future__ import annotations

from typing import Any

import pytest

from kube_lab_server.catalogue.tables import MalformedPath, find

DOCUMENT = {
    "spec": {
        "size": 3,
        "a.b": "dotted",
        "items": [{"name": "a", "n": 1}, {"name": "b", "n": 2}],
    }
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (".spec.size", [3]),
        (".spec.none", []),
        (".spec.items[0].name", ["a"]),
        (".spec.items[-1].name", ["b"]),
        (".spec.items[*].name", ["a", "b"]),
        (".spec.items[0:1].name", ["a"]),
        ('.spec.items[?(@.name=="b")].n', [2]),
        (".spec.items[?(@.n>1)].name", ["b"]),
        (".spec.items[?(@.none)].name", []),
        (".spec['a.b']", ["dotted"]),
        (r".spec.a\.b", ["dotted"]),
        (".spec.size.deeper", []),
    ],
)
def test_a_path_finds_its_values(path: str, values: list[Any]) -> None:
    """What is not there is not found."""
    assert find(path, DOCUMENT) == values


def test_a_malformed_path_is_refused() -> None:
    """It is not guessed at."""
    with pytest.raises(MalformedPath):
        find(".spec[", DOCUMENT)
