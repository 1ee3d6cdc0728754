"""Checking manifests: what is read, what is printed, and the exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Ended

GOOD = """
apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: shop
  annotations:
    scheduling.koordinator.sh/numa-topology-spec: '{"numaTopologyPolicy": "SingleNUMANode"}'
spec:
  containers: [{name: main}]
"""
BAD = GOOD.replace("SingleNUMANode", "Single")
LINE = (
    "Pod shop/web: metadata.annotations[scheduling.koordinator.sh/numa-topology-spec]"
    ".numaTopologyPolicy: unknown word 'Single': "
    "use one of BestEffort, Restricted, SingleNUMANode, None\n"
)


def test_manifests_without_mistakes_end_with_zero(
    numakube: Callable[..., Ended], tmp_path: Path
) -> None:
    """Kinds that are not looked at do not count."""
    file = tmp_path / "web.yaml"
    file.write_text(f"{GOOD}---\nkind: Service\nmetadata: {{name: web}}\n")
    ended = numakube("check", "manifests", file)
    assert (ended.code, ended.out, ended.err) == (0, "nothing is wrong with 1 object\n", "")


def test_a_mistake_is_a_line_with_object_key_and_field(
    numakube: Callable[..., Ended], tmp_path: Path
) -> None:
    """And the exit code is 1."""
    file = tmp_path / "web.yaml"
    file.write_text(BAD)
    ended = numakube("check", "manifests", file)
    assert (ended.code, ended.out, ended.err) == (1, LINE, "")


def test_directories_are_read_to_the_bottom(numakube: Callable[..., Ended], tmp_path: Path) -> None:
    """Only files that look like manifests."""
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    (below / "web.yml").write_text(BAD)
    (tmp_path / "README.md").write_text("{{ no manifest")
    ended = numakube("check", "manifests", tmp_path)
    assert (ended.code, ended.out) == (1, LINE)


def test_standard_input_is_a_dash(
    numakube: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for other commands."""
    file = tmp_path / "in"
    file.write_text(json.dumps({"kind": "List", "items": [{"kind": "Node"}, {"kind": "Pod"}]}))
    with file.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        ended = numakube("check", "manifests", "-")
    assert (ended.code, ended.out) == (0, "nothing is wrong with 2 objects\n")


@pytest.mark.parametrize("content", ["{", "3", "kind: List\nitems: [3]", b"\xff\xfe\xff"])
def test_what_is_no_manifest_ends_with_two_and_hides_nothing(
    numakube: Callable[..., Ended], tmp_path: Path, content: str | bytes
) -> None:
    """The other files are checked all the same."""
    (tmp_path / "a.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
    (tmp_path / "b.yaml").write_text(BAD)
    ended = numakube("check", "manifests", tmp_path)
    assert (ended.code, ended.out) == (2, LINE)
    assert ended.err.startswith(f"error: {tmp_path / 'a.yaml'}: ")


def test_a_file_that_is_missing_and_an_empty_directory_end_with_two(
    numakube: Callable[..., Ended], tmp_path: Path
) -> None:
    """Probably they are misspelled."""
    ended = numakube("check", "manifests", tmp_path, tmp_path / "missing.yaml")
    assert ended.code == 2
    assert ended.err.splitlines() == [
        f"error: {tmp_path}: no .json, .yaml, .yml file below",
        f"error: {tmp_path / 'missing.yaml'}: No such file or directory",
    ]
    assert numakube("check", "manifests").code == 2


def test_programs_read_the_findings_as_json(numakube: Callable[..., Ended], tmp_path: Path) -> None:
    """With the file of each."""
    file = tmp_path / "web.yaml"
    file.write_text(BAD)
    ended = numakube("check", "manifests", file, "-o", "json")
    assert ended.code == 1
    found = json.loads(ended.out)
    assert found["objects"] == 1
    assert found["findings"][0]["file"] == str(file)
    assert found["findings"][0]["object"] == "Pod shop/web"
