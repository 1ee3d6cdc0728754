"""Asking what a kubelet would do with pods, from files to verdicts and drawings."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Ended

MACHINE = "2 sockets, 4 cores, smt 2, 16Gi, hugepages-2Mi 0/8, gpu 2 1@-"
CONFIG = {
    "kind": "KubeletConfiguration",
    "topologyManagerPolicy": "single-numa-node",
    "cpuManagerPolicy": "static",
    "reservedSystemCPUs": "0,8",
}


def pod(name: str, **limits: object) -> dict[str, Any]:
    """Return a pod with one container that has *limits*."""
    limits = {key.replace("gpu", "vendor.example/gpu"): value for key, value in limits.items()}
    container = {"name": "main", "resources": {"limits": limits}}
    return {"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


@pytest.fixture
def admit(tmp_path: Path, numakube: Callable[..., Ended]) -> Callable[..., Ended]:
    """Return a function that writes the files and runs ``numakube plan admit``."""

    def call(
        *options: str,
        pods: object,
        config: object = CONFIG,
        machine: str = MACHINE,
    ) -> Ended:
        for name, content in (("pods.yaml", pods), ("kubelet.yaml", config)):
            text = content if isinstance(content, str) else yaml.safe_dump(content)
            (tmp_path / name).write_text(text)
        return numakube(
            "plan", "admit", "--machine", machine, "--kubelet-config", tmp_path / "kubelet.yaml",
            "--pods", tmp_path / "pods.yaml", *options,
        )  # fmt: skip

    return call


def documents(*pods: dict[str, Any]) -> str:
    """Return pods as YAML documents."""
    return yaml.safe_dump_all(pods)


def test_admitted_pods_end_with_0(admit: Callable[..., Ended]) -> None:
    """Verdict, NUMA node, exclusive CPUs and devices of every container."""
    result = admit(pods=documents(pod("web", cpu=2, memory="1Gi", gpu=1)))

    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[1].split() == [
        "default/web", "admitted", "main", "0", "1,9", "-", "1", "gpu",
    ]  # fmt: skip


def test_a_rejected_pod_ends_with_1_and_the_reason(admit: Callable[..., Ended]) -> None:
    """The kubelet's words, and what was short in ours."""
    result = admit(pods=documents(pod("big", cpu=10, memory="1Gi")))

    assert result.code == 1
    assert (
        "default/big: TopologyAffinityError: Resources cannot be allocated with Topology locality"
        in result.out
    )
    assert "cpu: 10 wanted, the best NUMA node (1) has 8 free" in result.out


def test_requests_must_fit_as_well(admit: Callable[..., Ended]) -> None:
    """A pod that needs no alignment is refused when the node has not got enough in all."""
    result = admit(pods=documents(pod("a", cpu=10), pod("b", cpu=5), pod("c", cpu=4)))

    assert result.code == 1
    assert "default/b: OutOfcpu: Node didn't have enough resource: cpu, requested: 5000" in (
        result.out
    )
    verdicts = [line.split()[1] for line in result.out.splitlines()[1:4]]
    assert verdicts == ["admitted", "rejected", "admitted"]


def test_a_pod_that_does_not_fit_leaves_nothing_behind(admit: Callable[..., Ended]) -> None:
    """It had been aligned already; the drawing shows what it held as free again."""
    document = json.loads(
        admit("-o", "json", pods=documents(pod("a", cpu=12), pod("b", cpu=4, memory="1Gi"))).out
    )

    assert [entry["admit"] for entry in document["pods"]] == [True, False]
    assert document["zones"][0]["exclusiveCPUs"] == {}
    assert document["sharedCPUs"] == "0-15"


def test_json_has_everything(admit: Callable[..., Ended]) -> None:
    """Verdicts with placements, and the zones afterwards; the exit code stays."""
    result = admit(
        "-o", "json", pods=documents(pod("a", cpu=2, memory="1Gi", gpu=2), pod("b", gpu=9))
    )

    assert result.code == 1
    document = json.loads(result.out)
    assert document["kubernetes"] == "1.35"
    assert document["sharedCPUs"] == "0,2-8,10-15"
    assert document["pods"][0]["containers"]["main"] == {
        "cpus": "1,9",
        "devices": {"vendor.example/gpu": ["gpu-0", "gpu-1"]},
        "affinity": [0],
        "preferred": True,
    }
    assert document["pods"][1]["admit"] is False
    assert document["pods"][1]["reason"] == "TopologyAffinityError"
    zones = {zone["node"]: zone for zone in document["zones"]}
    assert zones[0]["exclusiveCPUs"] == {"default/a": "1,9"}
    assert zones[0]["reservedCPUs"] == "0,8"
    assert zones[0]["devices"] == {
        "vendor.example/gpu": {"gpu-0": "default/a", "gpu-1": "default/a"}
    }
    assert zones[0]["memory"] == {"memory": {"total": 16 << 30}}
    assert zones[None]["devices"] == {"vendor.example/gpu": {"gpu-4": None}}


def test_yaml_is_the_same_document(admit: Callable[..., Ended]) -> None:
    """Both are made of the same data."""
    pods = documents(pod("a", cpu=2, memory="1Gi"))

    assert yaml.safe_load(admit("-o", "yaml", pods=pods).out) == json.loads(
        admit("-o", "json", pods=pods).out
    )


def test_names_of_admitted_pods(admit: Callable[..., Ended]) -> None:
    """For scripts: the pods that may run."""
    result = admit("-o", "name", pods=documents(pod("a", cpu=2, memory="1Gi"), pod("b", cpu=99)))

    assert result.out == "pod/a\n"


def test_wide_names_devices(admit: Callable[..., Ended]) -> None:
    """Instead of counting them."""
    assert "gpu-0 gpu-1" in admit("-o", "wide", pods=documents(pod("a", gpu=2))).out


@pytest.mark.parametrize("form", ["List", "PodList", "JSON"])
def test_lists_and_json_are_read(form: str, admit: Callable[..., Ended]) -> None:
    """What kubectl prints can be fed back."""
    pods = [pod("a", gpu=1), pod("b", gpu=1)]
    content: object = {"kind": form, "items": pods}
    if form == "JSON":
        content = json.dumps({"kind": "List", "items": pods})

    assert admit("-o", "name", pods=content).out == "pod/a\npod/b\n"


def test_the_version_of_the_kubelet_can_be_chosen(admit: Callable[..., Ended]) -> None:
    """Its number is in the answer; one that is not known is refused."""
    pods = documents(pod("a", gpu=1))

    assert json.loads(admit("--kubernetes", "1.32", "-o", "json", pods=pods).out)["kubernetes"] == (
        "1.32"
    )
    assert admit("--kubernetes", "1.2", pods=pods).code == 1


def test_the_drawing_shows_owners(
    admit: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Letters for CPUs and devices, a bar for memory, r for reserved CPUs."""
    monkeypatch.setenv("COLUMNS", "120")
    config = CONFIG | {
        "memoryManagerPolicy": "Static",
        "evictionHard": {"memory.available": "2Gi"},
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "2Gi"}}],
    }
    result = admit(
        "--ascii",
        config=config,
        pods=documents(
            pod("a", cpu=2, memory="4Gi", gpu=1),
            pod("b", cpu=8, memory="2Gi", **{"hugepages-2Mi": "4Mi"}),
        ),
    )

    drawn = [line.split("|") for line in result.out.splitlines() if line.startswith("|")]
    left = [" ".join(cells[1].split()) for cells in drawn]
    right = [" ".join(cells[3].split()) for cells in drawn]
    assert left[0] == "CPUs rr AA .. .. 4 of 6 free"
    assert re.fullmatch(r"memory r+A+[.]+ 10Gi of 16Gi free", left[1])
    assert "gpu A . 1 of 2 free" in left
    assert right[0] == "CPUs BB BB BB BB 0 of 8 free"
    assert any(re.fullmatch(r"hugepages-2Mi B+[.]+ 12Mi of 16Mi free", line) for line in right)
    assert "A default/a  zone 0" in result.out


def test_a_machine_with_many_cpus_is_folded(admit: Callable[..., Ended]) -> None:
    """Ninety-six cores do not fit into one line of a box."""
    result = admit("--ascii", machine="epyc-9654-2s-nps1", pods=documents(pod("a", cpu=1)))

    assert max(map(len, result.out.splitlines())) < 200


def test_more_pods_than_letters(admit: Callable[..., Ended]) -> None:
    """After small letters, of which "r" is taken, the others share a sign."""
    pods = [pod(f"p{n}", cpu=1, memory="1Mi") for n in range(53)]

    result = admit("--ascii", machine="64 cores, 8Gi", config={
        "cpuManagerPolicy": "static", "reservedSystemCPUs": "0",
    }, pods=documents(*pods))  # fmt: skip

    assert "Z default/p25  zone 0" in result.out
    assert "z default/p50  zone 0" in result.out
    assert "# default/p51  zone 0" in result.out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [", "pods.yaml: line 2: not YAML"),
        ("", "pods.yaml: there is no pod in it"),
        ("- 1", "pods.yaml: each document must be an object"),
        ({"kind": "Service"}, "pods.yaml: kind: a kubelet admits pods, not a Service"),
        ({"kind": "Deployment"}, "pods.yaml: Deployment: spec.template: is required"),
        ({"kind": "Pod"}, "pods.yaml: Pod: metadata.name: is required"),
        (
            {"kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": 1}]}},
            "Pod a: spec.containers[0].name: expected a string, got an integer",
        ),
        (
            {"kind": "Pod", "metadata": {"name": "a"}},
            "Pod a: spec.containers: a pod needs a container",
        ),
        (
            documents(pod("a", cpu=1), pod("a", cpu=1)),
            "pods.yaml: two pods are called default/a",
        ),
        (
            pod("a", cpu="much"),
            "Pod a: spec.containers[0].resources.limits[cpu]: quantity 'much': quantities must",
        ),
        (
            pod("a", gpu="1.5"),
            'spec.containers[0].resources.limits[vendor.example/gpu]: Invalid value: "1500m": must'
            " be an integer",
        ),
    ],
)
def test_bad_pods_are_named_with_file_and_field(
    content: object, message: str, admit: Callable[..., Ended]
) -> None:
    """File, object, field and what is wrong; exit code 1."""
    result = admit(pods=content)

    assert result.code == 1
    assert message in result.err


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"cpuManagerPolicy": 1}, "kubelet.yaml: cpuManagerPolicy: expected a string"),
        (
            {"cpuManagerPolicy": "static"},
            "kubelet.yaml: the kubelet would not start on this machine: [cpumanager] unable to"
            " determine reserved CPU resources for static policy",
        ),
        (
            CONFIG | {"reservedSystemCPUs": "99"},
            "reserved-cpus: 99 is not a subset of online-cpus: 0-15",
        ),
    ],
)
def test_a_configuration_that_cannot_be_used(
    config: object, message: str, admit: Callable[..., Ended]
) -> None:
    """Also one with which the kubelet would not start."""
    result = admit(config=config, pods=documents(pod("a", cpu=1)))

    assert result.code == 1
    assert message in result.err


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (pod("a"), "kubelet.yaml: kind: a Pod, not a KubeletConfiguration"),
        ([1], "kubelet.yaml: not a KubeletConfiguration"),
        (
            {"topologyManagerPolcy": "restricted"},
            "kubelet.yaml: topologyManagerPolcy: unknown field;"
            " did you mean topologyManagerPolicy?",
        ),
        (
            {"kubeletconfig": {"cpumanagerPolicy": "static"}},
            "kubelet.yaml: cpumanagerPolicy: unknown field; did you mean cpuManagerPolicy?",
        ),
    ],
)
def test_a_field_that_no_kubelet_knows_is_not_passed_over(
    config: object, message: str, admit: Callable[..., Ended]
) -> None:
    """The answer would be for another kubelet than the one that is meant."""
    result = admit(pods=pod("a", cpu=1, memory="1Gi"), config=config)

    assert (result.code, result.out) == (1, "")
    assert message in result.err


def test_fields_that_no_resource_manager_reads_are_fine(admit: Callable[..., Ended]) -> None:
    """An unknown one is reported, since versions to come may have it."""
    pods = pod("a", cpu=1, memory="1Gi")
    known = admit(pods=pods, config={**CONFIG, "serializeImagePulls": False})
    assert (known.code, known.err) == (0, "")
    new = admit(pods=pods, config={**CONFIG, "quantumDrive": True})
    assert new.code == 0
    assert new.err.endswith("kubelet.yaml: the field quantumDrive is not known and has no effect\n")


def test_a_few_words_are_enough_of_a_configuration(
    numakube: Callable[..., Ended], tmp_path: Path
) -> None:
    """Those of the lab; a workload stands for one of its pods."""
    template = {"spec": pod("a", cpu=6, memory="1Gi")["spec"]}
    job = {"kind": "Job", "metadata": {"name": "train"}, "spec": {"template": template}}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    line = (
        "plan",
        "admit",
        "-m",
        "2 sockets, 4 cores, 16Gi",
        "-f",
        tmp_path / "job.yaml",
        "--kubelet",
    )

    alone = numakube(*line, "policy=single-numa-node", "-o", "json")
    assert alone.code == 1
    assert json.loads(alone.out)["pods"][0]["reason"] == "TopologyAffinityError"
    assert numakube(*line, "policy=best-effort", "-o", "name").out == "pod/train\n"
    assert numakube(*line, "policy=none", "-k", "kubelet.yaml").code == 2
    assert "'polcy' is unknown; did you mean policy?" in numakube(*line, "polcy=none").err


def test_missing_options_are_wrong_usage(numakube: Callable[..., Ended]) -> None:
    """All three files, or the example."""
    result = numakube("plan", "admit", "--machine", "1 core, 1Gi")

    assert result.code == 2
    assert "Give --machine, --pods, and --kubelet-config or --kubelet; or --example." in result.err


def test_a_missing_file_is_an_error(numakube: Callable[..., Ended]) -> None:
    """The name of the file, without a traceback."""
    result = numakube("plan", "admit", "-m", "laptop", "-k", "nope.yaml", "-f", "nope.yaml")

    assert (result.code, result.err) == (1, "error: nope.yaml: No such file or directory\n")


def test_pods_from_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, numakube: Callable[..., Ended]
) -> None:
    """A dash reads standard input, such as what kubectl prints."""
    config, pods = tmp_path / "kubelet.yaml", tmp_path / "pods.yaml"
    config.write_text(yaml.safe_dump(CONFIG))
    pods.write_text(documents(pod("a", gpu=1)))
    with pods.open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        result = numakube("plan", "admit", "-m", MACHINE, "-k", config, "-f", "-", "-o", "name")

    assert result.out == "pod/a\n"


def test_the_example_tells_its_story(numakube: Callable[..., Ended]) -> None:
    """One pod fits, one fits elsewhere, one is refused; and it ends with 0 all the same."""
    result = numakube("plan", "admit", "--example")

    assert (result.code, result.err) == (0, "")
    rows = {line.split()[0]: line.split()[1:] for line in result.out.splitlines() if line.strip()}
    assert rows["default/inference"][:3] == ["admitted", "server", "0"]
    assert rows["default/database"][:3] == ["admitted", "postgres", "1"]
    assert rows["default/training"] == ["rejected"]
    assert "TopologyAffinityError" in result.out
    assert rows["default/log-shipper"][:4] == ["admitted", "agent", "any", "shared"]


def test_the_example_as_data(numakube: Callable[..., Ended]) -> None:
    """Without the story around it."""
    pods = json.loads(numakube("plan", "admit", "--example", "-o", "json").out)["pods"]

    assert [pod["admit"] for pod in pods] == [True, True, False, True]
