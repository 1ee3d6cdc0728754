"""What older versions left in a cluster, recorded as bundles: this version reads it as its own.

`recorded/VERSION.tar.gz` is what `numakube bundle` of that version wrote of a lab: its reports,
Deployments and pods, a gang that waits, and a claim that is held. docs/contribute/make-a-release.md
says how the next one is made.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from numakube.apps.bundle import unpack
from numakube.cli.main import cli, run
from numakube.insight.deployed_programs import is_ours
from numakube.insight.facts import ClusterFacts, facts_of
from numakube.insight.version_skew import Standing, versions_in
from numakube.topology.model_report import node_of, nrt_of
from numakube.topology.nrt_names import EXACT_ANNOTATION
from numakube.topology.numa_zones import Unusable
from numakube.topology.topology_view import NodeTopology
from numakube.version import VERSION

RECORDED = sorted((Path(__file__).parent / "recorded").glob("*.tar.gz"))
OF_PODS = ("pods", "checksum")
"""What of exact data is about pods, which are named by hashes there."""


@pytest.fixture(params=RECORDED, ids=lambda file: file.name.removesuffix(".tar.gz"))
def bundle(request: pytest.FixtureRequest) -> Path:
    """A cluster as an older version left it."""
    file: Path = request.param
    return file


@pytest.fixture
def facts(bundle: Path) -> ClusterFacts:
    """What is known of it."""
    return facts_of(unpack(bundle.read_bytes(), name=bundle.name))


def exact(annotations: Any) -> dict[str, Any]:
    """Return the exact data of a report."""
    found: dict[str, Any] = json.loads(annotations[EXACT_ANNOTATION])
    return found


def test_reports_are_read_and_would_be_written_alike(facts: ClusterFacts) -> None:
    """To the last CPU; so the older version reads what this one writes, after a rollback too."""
    assert facts.topologies
    for name, report in facts.topologies.items():
        view = facts.view(name)
        assert isinstance(view, NodeTopology)
        assert view.report is not None, f"{name} is judged by counts"
        model = node_of(view.report)
        assert not isinstance(model, Unusable)
        older = exact(report.metadata.annotations)
        ours = exact(nrt_of(name, model).metadata.annotations)
        assert sorted(older["pods"].values()) == sorted(ours["pods"].values())
        for key in OF_PODS:
            del older[key], ours[key]
        assert ours == older


def test_programs_take_the_command_lines_that_stand_in_manifests(facts: ClusterFacts) -> None:
    """So an older manifest can name a newer image, while a cluster is upgraded."""
    context = click.Context(cli)
    found = 0
    for workload in (*facts.daemon_sets, *facts.deployments):
        for container in workload.spec.template.spec.containers:
            if is_ours(container):
                name, *words = container.args
                command = cli.get_command(context, name)
                assert command is not None
                command.make_parser(click.Context(command)).parse_args(words)
                found += 1
    assert found >= 2


def test_its_pods_wait_and_run_as_they_did(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The gang is one place short, the claim is held, and the doctor has nothing to say."""
    for words, code, told in (
        (("explain", "pod", "packets"), 0, "everything exclusive is in zone"),
        (("explain", "claim", "nic"), 0, "(allocated)"),
        (("explain", "podgroup", "train"), 1, "5 of the 6 pods fit"),
        (("doctor",), 0, "Nothing wrong in 3 nodes"),
    ):
        assert run([*words, "--from", str(bundle)], program="numakube") == code
        assert told in capsys.readouterr().out


def test_its_versions_go_together_with_this_one(facts: ClusterFacts) -> None:
    """Two neighbouring minor versions are upgraded in any order."""
    standing = {one.what: one.supported for one in versions_in(facts, VERSION)}
    assert set(standing.values()) == {Standing.YES}, standing
