"""D17: ``kubectl numa check reports`` on files and bundles: what is printed, and the exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Ended
from tests.insight.node_map import nodes
from tests.topology.producers import document

from numakube.api.yaml_text import dump_yaml

Run = Callable[..., Ended]


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """A file with an object without fault, and another kind."""
    file = tmp_path / "good.yaml"
    file.write_text(dump_yaml(document("rte")) + "---\nkind: Service\n")
    return file


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    """A file with an object that says too much."""
    text = dump_yaml(document("rte")).replace("available: '2'", "available: '5'", 1)
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    return file


def test_an_object_without_fault_ends_with_zero(numakube: Run, good: Path) -> None:
    """Other kinds are passed over."""
    ended = numakube("check", "reports", "-f", good)
    assert (ended.code, ended.out, ended.err) == (0, "1 object: 0 errors, 0 warnings\n", "")


def test_an_error_is_a_line_with_object_field_and_rule(numakube: Run, bad: Path) -> None:
    """And the exit code is 1."""
    ended = numakube("check", "reports", "-f", bad)
    assert (ended.code, ended.err) == (1, "")
    assert ended.out == (
        "worker-0: zones[0].resources[0].available: error: 5 is more than allocatable, 4"
        " [NRT-AMOUNT]\n1 object: 1 error, 0 warnings\n"
    )


def test_the_same_is_to_be_had_as_data(numakube: Run, bad: Path) -> None:
    """With the same exit code."""
    ended = numakube("check", "reports", "-f", bad, "-o", "json")
    (item,) = json.loads(ended.out)["items"]
    assert (ended.code, item["name"], item["conformant"]) == (1, "worker-0", False)
    assert item["findings"] == [
        {
            "rule": "NRT-AMOUNT",
            "severity": "error",
            "field": "zones[0].resources[0].available",
            "message": "5 is more than allocatable, 4",
        }
    ]


def test_warnings_count_only_if_asked_for(numakube: Run, tmp_path: Path) -> None:
    """``--strict`` is for the continuous integration of a producer."""
    file = tmp_path / "koordlet.yaml"
    file.write_text(dump_yaml(document("koordlet")))
    assert numakube("check", "reports", "-f", file).code == 0
    assert numakube("check", "reports", "-f", file, "--strict").code == 1


def test_the_objects_of_a_cluster_are_checked_by_node(numakube: Run, tmp_path: Path) -> None:
    """All of them, or those that are named."""
    empty = nodes.kubelet(nodes.SMALL)
    bundle = nodes.bundle(tmp_path / "bundle.tar.gz", nodes.facts({"a-1": empty, "a-2": empty}))
    assert "2 objects: 0 errors" in numakube("check", "reports", "--from", bundle).out
    ended = numakube("check", "reports", "node/a-2", "--from", bundle)
    assert (ended.code, "1 object: 0 errors" in ended.out) == (0, True)
    ended = numakube("check", "reports", "a-9", "--from", bundle)
    assert (ended.code, ended.err) == (1, "error: there is no NodeResourceTopology a-9\n")


def test_a_file_without_such_objects_is_an_error(numakube: Run, tmp_path: Path) -> None:
    """Rather than a clean bill of health; so is one that cannot be read."""
    file = tmp_path / "service.yaml"
    file.write_text("kind: Service\n")
    ended = numakube("check", "reports", "-f", file)
    assert (ended.code, ended.err) == (1, "error: there is no NodeResourceTopology to check\n")
    file.write_text("kind: NodeResourceTopologyList\nitems: [1]\n")
    ended = numakube("check", "reports", "-f", file)
    assert (ended.code, "must be an object" in ended.err) == (1, True)


def test_the_rules_can_be_listed(numakube: Run) -> None:
    """Without a cluster."""
    ended = numakube("check", "reports", "--list-rules")
    assert ended.code == 0
    assert "NRT-COST" in ended.out
