"""``kubectl numa doctor`` on bundles and on a live lab."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.insight.doctor.documents import Documents, healthy, reported

from numakube.api.scheduler_config import SCHEDULER_NAME
from numakube.apps.bundle import pack
from numakube.cli.main import run
from numakube.insight.doctor.all_checks import RULES
from numakube.scheduling.assembly import default_configuration
from numakube.testing import pod_document
from numakube_lab.testing import Opener, lab_cluster

Doctor = Callable[..., tuple[int, str]]


@pytest.fixture
def doctor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """Return what asks the doctor about a cluster in a bundle."""

    def ask(world: Documents, *words: str) -> tuple[int, str]:
        bundle = tmp_path / "bundle.tar.gz"
        bundle.write_bytes(pack(world.collected()))
        code = run(["doctor", "--from", str(bundle), *words], program="numakube")
        return code, capsys.readouterr().out

    return ask


def broken() -> Documents:
    """Return a cluster with one error."""
    world = healthy()
    world.run("unseen", "node-2")
    return world


def test_a_healthy_cluster_ends_with_zero(doctor: Doctor) -> None:
    """And one line."""
    assert doctor(healthy()) == (0, "Nothing wrong in 4 nodes and 4 pods\n")


def test_a_finding_says_what_where_why_and_what_to_do(doctor: Doctor) -> None:
    """In a form that fits a screen."""
    code, text = doctor(broken())
    assert code == 1
    assert text == (
        "ERROR NUMA-NRT-FROZEN  A NodeResourceTopology is not updated any more\n"
        "  NodeResourceTopology node-2: it lacks default/unseen, which has run for 60 minutes\n"
        "  why: Pods have come or gone since: what those in it hold that are gone looks taken, and"
        " what those\n"
        "       hold that it lacks looks free, so the scheduler sends pods that the kubelet"
        " rejects.\n"
        "  fix: kubectl get pods -A -o wide --field-selector spec.nodeName=node-2   # does its"
        " exporter run? restart it, and read its log\n"
        "\n"
        "1 error in 4 nodes and 5 pods\n"
    )


def test_exit_codes(doctor: Doctor, capsys: pytest.CaptureFixture[str]) -> None:
    """1 with findings unless told otherwise, 0 with notes only, 2 for wrong words."""
    assert doctor(broken(), "--exit-zero")[0] == 0
    assert doctor(broken(), "--skip", "NUMA-NRT-FROZEN")[0] == 0
    assert doctor(broken(), "--only", "numa-pod,numa-clock")[0] == 0
    assert doctor(broken(), "--node", "node-1")[0] == 0
    assert doctor(broken(), "--node", "node-2", "-o", "wide")[0] == 1
    assert run(["doctor", "--only", "NUMA-NONE"], program="numakube") == 2
    assert "There is no check NUMA-NONE" in capsys.readouterr().err
    assert doctor(broken(), "--node", "nowhere")[0] == 1


def test_a_cluster_that_does_not_answer_is_three(tmp_path: Path) -> None:
    """As for every command."""
    config = tmp_path / "config"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]\n",
        encoding="utf-8",
    )
    assert run(["doctor", "--kubeconfig", str(config)], program="numakube") == 3


def test_json_and_yaml(doctor: Doctor) -> None:
    """With kind and version."""
    code, text = doctor(broken(), "-o", "json")
    document = json.loads(text)
    assert code == 1
    assert (document["kind"], document["takenAt"]) == ("Diagnosis", "2026-06-01T12:00:00Z")
    assert [finding["id"] for finding in document["findings"]] == ["NUMA-NRT-FROZEN"]
    assert "kind: Diagnosis" in doctor(broken(), "-o", "yaml")[1]


def test_names_of_strangers_command_neither_terminal_nor_shell(doctor: Doctor) -> None:
    """A bundle may come from anybody, and fixes are pasted into shells."""
    world = healthy()
    name = "x\x1b[2J; rm -rf ~\necho"
    world.nodes[name] = {"metadata": {"name": name}, "status": {}}
    _, text = doctor(world, "--only", "NUMA-NODE-NO-HOSTNAME")
    assert "\x1b" not in text
    quoted = "'x\ufffd[2J; rm -rf ~\ufffdecho'"
    assert f"kubectl label node {quoted} kubernetes.io/hostname={quoted}\n" in text


def test_checks_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a cluster."""
    assert run(["doctor", "--list-checks"], program="numakube") == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [rule.id for rule in RULES]


async def ask_live(kubeconfig: Path) -> tuple[int | None, dict[str, Any]]:
    """Run the program as a user does."""
    program = str(Path(sys.executable).with_name("numakube"))
    words = ("doctor", "--kubeconfig", str(kubeconfig), "-o", "json")
    process = await asyncio.create_subprocess_exec(program, *words, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    return process.returncode, json.loads(out)


@pytest.mark.timeout(300)
async def test_a_live_cluster_with_exporters_and_our_scheduler_is_well(sites: Opener) -> None:
    """Until a pod wants more than any zone has."""
    async with lab_cluster(3, "2 sockets, 8 cores, smt 2, 32Gi, gpu 2", on=sites) as world:
        await world.start(default_configuration(SCHEDULER_NAME))
        await world.create(*(pod_document(f"web-{n}") for n in range(6)))
        await world.until(lambda: len(world.by_phase("Running")) == 6)
        await reported(world)
        code, document = await ask_live(world.site.kubeconfig)
        assert (code, document["clean"], document["nodes"]) == (0, True, 3)
        # Behind a real API server there are no kubelets that it could ask. The scheduler is no pod.
        told = {finding["id"] for finding in document["findings"]}
        assert "NUMA-ACCESS-SCHEDULER" in told
        assert told <= {"NUMA-ACCESS-KUBELET", "NUMA-ACCESS-SCHEDULER"}

        await world.create(pod_document("giant", cpu="20"))
        await world.settled()
        code, document = await ask_live(world.site.kubeconfig)
        assert (code, document["clean"]) == (1, False)
        assert document["findings"][0]["id"] == "NUMA-POD-TOO-BIG"
