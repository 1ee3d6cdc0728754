"""One grammar for all commands, which is kubectl's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from tests.cli.test_explain import bundle as waiting
from tests.cli.test_explain import live, quiet
from tests.cli.test_top import bundle

from numakube.cli.completion import kubectl_candidates
from numakube.cli.main import cli
from numakube.cli.shared.kubectl_names import split_words

pytestmark = pytest.mark.timeout(240)

__all__ = ["bundle", "live", "quiet", "waiting"]  # fixtures

THREE = ("node", "zone", "pod")


@pytest.mark.parametrize(
    ("words", "kinds", "found"),
    [
        ("", THREE, ("node", ())),
        ("no", THREE, ("node", ())),
        ("zones a", THREE, ("zone", ("a",))),
        ("po a b", THREE, ("pod", ("a", "b"))),
        ("pod/a pods/b c", THREE, ("pod", ("a", "b", "c"))),
        ("Nodes a", THREE, ("node", ("a",))),
        ("a b", ("node",), ("node", ("a", "b"))),
        ("node a", ("node",), ("node", ("a",))),
        ("node/node", ("node",), ("node", ("node",))),
        ("team/web", ("pod",), ("pod", ("team/web",))),
    ],
)
def test_kinds_and_names_are_told_apart(
    words: str, kinds: tuple[str, ...], found: tuple[str, tuple[str, ...]]
) -> None:
    """The kind may be left out where there is only one."""
    assert split_words(words.split(), kinds) == found


@pytest.mark.parametrize(
    ("words", "kinds", "message"),
    [
        ("podz a", THREE, "'podz' is not one of nodes, zones, pods; did you mean pods?"),
        ("x", THREE, "'x' is not one of nodes, zones, pods."),
        ("pod/a", ("node",), "'pod/a' is a pod; a node is wanted."),
        ("pod a deploy/b", ("pod",), "'deploy/b' is a deployment; a pod is wanted."),
        ("node/a pod/b", THREE, "'pod/b' is a pod; a node is wanted."),
    ],
)
def test_another_kind_is_refused(words: str, kinds: tuple[str, ...], message: str) -> None:
    """With the kinds that there are, and the one that was meant."""
    with pytest.raises(click.UsageError) as error:
        split_words(words.split(), kinds)
    assert error.value.message == message


@pytest.mark.parametrize(
    "words",
    ["pod waits", "pods waits", "po waits", "pod/waits", "po/waits", "waits", "default/waits"],
)
def test_explain_takes_a_pod_in_every_spelling(numakube: Any, waiting: Path, words: str) -> None:
    """And answers the same."""
    ended = numakube("explain", *words.split(), "--no-changes", "--from", waiting)
    assert (ended.code, ended.err) == (1, "")
    assert "waits" in ended.out


@pytest.mark.parametrize("line", ["top node a-1", "top no/a-1", "map node/a-1", "map no a-1"])
def test_nodes_are_named_as_kubectl_names_them(numakube: Any, bundle: Path, line: str) -> None:
    """Wherever a node is named."""
    ended = numakube(*line.split(), "--from", bundle)
    assert (ended.code, ended.err) == (0, "")
    assert "a-1" in ended.out


@pytest.mark.parametrize("what", ["nodes", "zones"])
def test_names_that_are_printed_can_be_passed_on(numakube: Any, bundle: Path, what: str) -> None:
    """``top -o name | xargs map``."""
    names = numakube("top", what, "-o", "name", "--from", bundle).out.split()
    assert names[:2] == ["node/a-1", "node/a-2"]
    assert numakube("map", *names[:2], "--from", bundle).code == 0
    pods = numakube("top", "pods", "-A", "-o", "name", "--from", bundle).out.split()
    assert "pod/web" in pods
    assert numakube("top", *pods, "--from", bundle).code == 0


def candidates(*words: object) -> list[str]:
    """Return what kubectl would offer."""
    return list(kubectl_candidates(cli, [str(word) for word in words]))[:-1]


def test_names_are_completed_from_a_bundle(bundle: Path) -> None:
    """If the line says that it is about one."""
    taken = ("--from", bundle)
    assert candidates("map", *taken, "a") == ["a-1", "a-2"]
    assert candidates("top", *taken, "nodes", "") == ["a-1", "a-2", "b-1"]
    assert candidates("map", *taken, "node/b") == ["node/b-1"]
    assert candidates("explain", "pod", *taken, "-n", "team", "w") == ["waiting", "web"]
    assert candidates("doctor", *taken, "--node", "a") == ["a-1", "a-2"]


def test_kinds_are_completed_before_names() -> None:
    """No cluster is asked for them."""
    assert candidates("top", "") == ["nodes", "zones", "pods", "namespaces"]
    assert candidates("top", "z") == ["zones"]


def test_names_are_completed_from_the_cluster(live: str) -> None:
    """Whether the kubeconfig stands before the command or after it; silence if there is none."""
    assert candidates("--kubeconfig", live, "map", "") == ["node-0"]
    assert candidates("map", "--kubeconfig", live, "n") == ["node-0"]
    found = candidates("top", "pods", "--kubeconfig", live, "-n", "kube-")
    assert found == ["kube-node-lease", "kube-public", "kube-system"]
    assert candidates("map", "--server", "http://127.0.0.1:1", "node-") == []
