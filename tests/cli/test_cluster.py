"""The options of commands that look at a cluster."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from numakube.apps.bundle import pack
from numakube.cli.shared.cluster_options import cluster_options, facts_for, namespace_for
from numakube.cli.shared.connection_options import ClusterOptions
from numakube.errors import ClusterUnreachable, MalformedObject
from numakube.insight.collected import Collected

KUBECONFIG = """
current-context: here
contexts: [{name: here, context: {cluster: c, user: u, namespace: team}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
"""


@click.command()
@cluster_options
def looking(cluster: ClusterOptions) -> None:
    """Print what it got."""
    click.echo(f"{cluster.kubeconfig} {cluster.context} {cluster.bundle} {cluster.live}")


def test_options_arrive_as_one_value() -> None:
    """Of any command."""
    result = CliRunner().invoke(looking, ["--kubeconfig", "k", "--context", "c"])
    assert result.output == "k c None True\n"
    assert CliRunner().invoke(looking, ["--from", "b"]).output == "None None b False\n"


def test_a_file_has_no_context() -> None:
    """Who gives both has something wrong in mind."""
    assert CliRunner().invoke(looking, ["--from", "b", "--context", "c"]).exit_code == 2


def test_facts_come_from_a_bundle(tmp_path: Path) -> None:
    """And a file of another kind is named."""
    bundle = tmp_path / "bundle.tgz"
    bundle.write_bytes(pack(Collected("2026-01-01T00:00:00Z")))
    assert facts_for(ClusterOptions(bundle=str(bundle))).taken_at == "2026-01-01T00:00:00Z"
    bundle.write_bytes(b"?")
    sentence = r"bundle\.tgz: has no objects of kind Node$"
    with pytest.raises(MalformedObject, match=sentence):
        facts_for(ClusterOptions(bundle=str(bundle)))


def test_the_namespace_is_that_of_the_context_unless_one_is_given(tmp_path: Path) -> None:
    """As kubectl does it; a bundle has no context."""
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(KUBECONFIG)
    live = ClusterOptions(kubeconfig=str(kubeconfig))
    assert namespace_for(live, "") == "team"
    assert namespace_for(live, "mine") == "mine"
    assert namespace_for(ClusterOptions(bundle="b"), "") == "default"


def test_a_cluster_that_does_not_answer_is_unreachable(tmp_path: Path) -> None:
    """Which ends a command with exit code 3."""
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(KUBECONFIG)
    with pytest.raises(ClusterUnreachable):
        facts_for(ClusterOptions(kubeconfig=str(kubeconfig)))
