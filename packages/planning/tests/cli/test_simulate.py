"""``numakube plan simulate``."""

from __future__ import annotations

import csv
import io
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Ended
from tests.insight.explain.bundling import collected_of

from numakube.api.yaml_text import load_yaml
from numakube.apps.bundle import pack
from numakube.testing import World, pod

Run = Callable[..., Ended]

NODES = ("--nodes", "2x 2 sockets, 4 cores, smt 2, 16Gi, gpu 2")
MIX = """\
workloads:
- name: web
  count: 4
  pods: 2
  requests: {cpu: {2: 1, 5: 1}, memory: 1Gi}
- name: train
  kind: Job
  arrivals: {every: 1s}
  lifetime: 1m
  count: 3
  requests: {cpu: 4, memory: 2Gi, vendor.example/gpu: 1}
"""


MANY = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: many}
spec:
  replicas: 4
  selector: {matchLabels: {app: many}}
  template:
    metadata: {labels: {app: many}}
    spec:
      containers: [{name: c, image: x, resources: {limits: {cpu: 7, memory: 1Gi}}}]
"""


@pytest.fixture
def mix(tmp_path: Path) -> Path:
    """Return a mix of workloads."""
    file = tmp_path / "mix.yaml"
    file.write_text(MIX)
    return file


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Return a bundle of a node with a pod on both of its zones, and one that waits."""
    world = World()
    world.add_node("node-a", "best-effort")
    world.run(pod("wide", cpu="10"), "node-a")
    world.pods.append(pod("waits", cpu="2"))
    file = tmp_path / "bundle.tgz"
    file.write_bytes(pack(collected_of(world.facts())))
    return file


def test_every_form_has_the_same_answers(numakube: Run, mix: Path, tmp_path: Path) -> None:
    """A table, JSON, YAML and CSV; finished runs are not repeated."""
    line = ("plan", "simulate", *NODES, "-f", mix, "--scheduler", "numakube", "--seeds", 2, "-j", 1)
    kept = ("--resume", tmp_path / "runs.jsonl")
    table = numakube(*line, *kept)
    assert (table.code, table.err) == (0, "")
    answer, _, head, row, *rest = table.out.splitlines()
    assert answer == "2.5 of 11 pods never run (means of 2 runs)."
    assert (head.split(), row.split()) == (["numakube"], ["PODS", "11"])
    assert "means of 2 seeds" in "\n".join(rest)
    lines = (tmp_path / "runs.jsonl").read_bytes()
    assert lines.count(b"\n") == 2
    found = json.loads(numakube(*line, *kept, "-o", "json").out)
    assert (tmp_path / "runs.jsonl").read_bytes() == lines
    assert found == load_yaml(numakube(*line, "-o", "yaml").out, "output")
    assert found["arms"][0]["pods"] == {"mean": 11.0, "halfWidth95": 0.0}
    assert found["assumptions"]["kubelet_seconds"] == 0.2
    rows = list(csv.DictReader(io.StringIO(numakube(*line, *kept, "-o", "csv").out)))
    assert [(row["arm"], row["seed"], row["pods"]) for row in rows] == [
        ("numakube", "1", "11"), ("numakube", "2", "11"),
    ]  # fmt: skip


def test_a_run_that_was_cut_off_is_repeated(numakube: Run, mix: Path, tmp_path: Path) -> None:
    """The end of a file that was half-written counts for nothing; other content is an error."""
    kept = tmp_path / "runs.jsonl"
    line = ("plan", "simulate", *NODES, "-f", mix, "--scheduler", "numakube", "--resume", kept)
    whole = numakube(*line, "-o", "json")
    kept.write_bytes(kept.read_bytes()[:-20])
    assert numakube(*line, "-o", "json") == whole
    kept.write_text("not a run\n")
    ended = numakube(*line)
    assert ended.code == 1
    assert "runs.jsonl: line 1: not a finished run" in ended.err


@pytest.fixture
def interrupt_when() -> Iterator[Callable[[Callable[[], bool]], None]]:
    """Return what interrupts the test as Control-C does, as soon as something is true."""

    def begin(is_true: Callable[[], bool]) -> None:
        def look(*_: object) -> None:
            if is_true():
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
                raise KeyboardInterrupt

        signal.signal(signal.SIGVTALRM, look)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.01, 0.01)

    before = signal.getsignal(signal.SIGVTALRM)
    yield begin
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


def test_an_interrupted_sweep_keeps_what_is_finished(
    numakube: Run,
    mix: Path,
    tmp_path: Path,
    interrupt_when: Callable[[Callable[[], bool]], None],
) -> None:
    """Finished arms are printed, finished runs are kept, and the words say how to go on.

    There are so many arms that the interruption comes before the last one.
    """
    kept = tmp_path / "runs.jsonl"
    schedulers = ("--scheduler", "least-allocated", "--scheduler", "numakube")
    line = ("plan", "simulate", *NODES, "-f", mix, *schedulers, "--resume", kept)
    policies = ("none", "best-effort", "restricted", "single-numa-node")
    more = (*(f"--policy={policy}" for policy in policies), "--scope=container", "--scope=pod")
    interrupt_when(lambda: kept.exists() and len(kept.read_bytes().splitlines()) >= 1)
    ended = numakube(*line, *more, "--seeds", 1, "-j", 1, "-o", "csv")
    finished = len(kept.read_bytes().splitlines())
    assert (ended.code, finished) == (130, len(ended.out.splitlines()) - 1)
    assert f"{finished} of 14 runs finished and kept; the same command with --resume" in ended.err


def test_a_change_is_compared_with_the_cluster_as_it_is(numakube: Run, bundle: Path) -> None:
    """A stricter policy rejects what ran on two zones."""
    ended = numakube(
        "plan", "simulate", "--from", bundle, "--set", "topologyManagerPolicy=restricted",
        "-o", "json", "-j", 1,
    )  # fmt: skip
    before, after = json.loads(ended.out)["arms"]
    assert (before["arm"], after["arm"]) == ("numakube", "numakube, policy=restricted")
    assert before["rejections"]["mean"] == 0
    assert before["pods"]["mean"] == 1
    # CPUs of both NUMA nodes, although its memory would fit one of them.
    assert after["rejectionsByReason"] == [{"TopologyAffinityError": 1}]


def test_arms_are_schedulers_times_policies(numakube: Run, mix: Path) -> None:
    """Every scheduler is run with every policy and scope; the policy none knows no scopes."""
    ended = numakube(
        "plan", "simulate", *NODES, "-f", mix,
        "--scheduler", "numakube", "--scheduler", "least-allocated",
        "--policy", "none", "--policy", "single-numa-node", "--scope", "pod",
        "--scope", "container", "-o", "json", "-j", 1,
    )  # fmt: skip
    arms = [arm["arm"] for arm in json.loads(ended.out)["arms"]]
    assert arms == [
        "numakube, policy=none, scope=pod",
        "numakube, policy=single-numa-node, scope=pod",
        "numakube, policy=single-numa-node, scope=container",
        "least-allocated, policy=none, scope=pod",
        "least-allocated, policy=single-numa-node, scope=pod",
        "least-allocated, policy=single-numa-node, scope=container",
    ]


def test_markdown_has_a_table_of_kubelets_and_schedulers_for_each_answer(
    numakube: Run, mix: Path
) -> None:
    """Kubelets are rows and schedulers columns; a scoring strategy makes a column of its own."""
    ended = numakube(
        "plan", "simulate", *NODES, "-f", mix, "--scheduler", "numakube", "--scheduler",
        "numakube:LeastFragmentation", "--policy", "none", "--policy", "restricted", "-j", 1,
        "-o", "markdown",
    )  # fmt: skip
    tables = ended.out.split("\n\n")
    assert tables[tables.index("ERRORS/1000:") + 1].splitlines() == [
        "| kubelets | numakube | numakube:LeastFragmentation |",
        "|---|---|---|",
        "| policy=none | 0 | 0 |",
        "| policy=restricted | 0 | 0 |",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--scheduler", "best"), "unknown scheduler 'best'; there are least-allocated"),
        (("--nodes", "3x"), "3x"),
        (("--from", "x"), "--nodes makes up a cluster"),
        (("--set", "colour=red"), "'colour' is unknown"),
        (("--drain", "node-9"), "there is no node 'node-9'"),
        (("--assume", "speed=3"), "--assume speed=3: not like decision"),
        (("--assume", "kubelet=soon"), "--assume kubelet=soon: 'soon' is not like 5, 20ms or 2h"),
        (("-f", "missing.yaml"), "missing.yaml"),
    ],
)
def test_what_makes_no_sense_is_named(
    numakube: Run, mix: Path, words: tuple[str, ...], message: str
) -> None:
    """The message is one line and says what to write."""
    ended = numakube("plan", "simulate", *NODES, "-f", mix, *words)
    assert ended.code in (1, 2)
    assert message in ended.err
    assert ended.out == ""


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]", "spec.resourceClaims"),
        ("volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]", "volumes[0].persist"),
        ("volumes: [{name: tmp, emptyDir: {}}, {name: e, ephemeral: {}}]", "volumes[1].ephemeral"),
    ],
)
def test_what_no_simulation_makes_is_refused_with_pod_and_field(
    numakube: Run, mix: Path, field: str, message: str
) -> None:
    """A pod with claims would wait for ever, and count as one for which there is no room."""
    mix.write_text(f"{MIX}  template: {{{field}}}\n")
    ended = numakube("plan", "simulate", *NODES, "-f", mix)
    assert ended.code == 1
    assert "Pod default/train" in ended.err
    assert message in ended.err


def test_a_run_without_pods_is_refused(numakube: Run) -> None:
    """Nothing runs and nothing comes."""
    ended = numakube("plan", "simulate", *NODES)
    assert (ended.code, ended.err) == (
        1, "error: no pod runs and none comes: give -f FILE with what is to come\n",
    )  # fmt: skip


TRACE_NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,96000,393216,8,G2\nn1,32000,131072,0,\n"
TRACE_PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,11908,47104,1,1000\np1,6000,12288,1,460\n"
)


@pytest.fixture
def trace(tmp_path: Path) -> tuple[str, ...]:
    """Return the options for a small trace with a node that has GPUs."""
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text(TRACE_NODES)
    pods.write_text(TRACE_PODS)
    return ("--trace", str(pods), "--trace-nodes", str(nodes))


def test_the_pods_of_a_trace_come_by_rules_that_are_printed(
    numakube: Run, trace: tuple[str, ...]
) -> None:
    """Pods come until enough GPUs are asked for; the rules go with the result."""
    line = ("plan", "simulate", *trace, "--scheduler", "numakube", "--rule", "demand=0.5", "-j", 1)
    document = json.loads(numakube(*line, "-o", "json").out)
    (arm,) = document["arms"]
    assert arm["pods"]["mean"] == 4
    assert arm["neverPlaced"]["mean"] == 0
    assert {"demand: 0.5", "cpu-rounding: up", "shared-gpus: whole"} <= {*document["notes"]}
    assert "demand: 0.5" in numakube(*line).out


def test_a_trace_can_come_to_nodes_that_are_made_up(numakube: Run, trace: tuple[str, ...]) -> None:
    """The trace of 2025 has no nodes of its own."""
    nodes = ("--nodes", "1x 2 sockets, 16 cores, 64Gi, nvidia.com/gpu 2")
    line = (
        "plan",
        "simulate",
        *nodes,
        *trace[:2],
        "--rule",
        "order=trace",
        "--scheduler",
        "numakube",
    )
    (arm,) = json.loads(numakube(*line, "-j", 1, "-o", "json").out)["arms"]
    assert arm["pods"]["mean"] == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--rule", "zones=2"), "rule 'zones=2': not like two-zones-from, guaranteed"),
        (("--rule", "guaranteed=LS"), "rule 'guaranteed=LS': not one of all, latency-sensitive"),
        (("--rule", "every=0"), "rule every: must be greater than 0"),
        (("--rule", "every=x"), "rule 'every=x': 'x' is not a number of 0 or more"),
        (("--rule", "every=1.5"), "rule 'every=1.5': '1.5' is not a number of 0 or more"),
        (NODES, "--trace-nodes is the cluster: it goes with neither"),
    ],
)
def test_mistakes_with_traces_are_named(
    numakube: Run, trace: tuple[str, ...], change: tuple[str, ...], message: str
) -> None:
    """Unknown rules, wrong values and two clusters are named."""
    ended = numakube("plan", "simulate", *trace, *change, "-j", 1)
    assert ended.code != 0
    assert message in ended.err


def test_a_broken_row_of_a_trace_is_named_with_its_file(
    numakube: Run, trace: tuple[str, ...]
) -> None:
    """File, row and field of a broken row are named, and nothing is simulated."""
    Path(trace[1]).write_text(f"{TRACE_PODS}p2,many,1,0,0\n")
    ended = numakube("plan", "simulate", *trace, "-j", 1)
    assert (ended.code != 0, ended.out) == (True, "")
    assert "pods.csv row 4: cpu_milli: 'many' is not a number" in ended.err
    missing = numakube("plan", "simulate", "--trace", "absent.csv", *trace[2:])
    assert "absent.csv" in missing.err
    assert "Traceback" not in missing.err


def test_a_report_is_written_beside_the_answer(numakube: Run, mix: Path, tmp_path: Path) -> None:
    """One page, whole, and the table as without it."""
    pytest.importorskip("matplotlib", reason="the extra simulate is not installed")
    page = tmp_path / "report.html"
    line = ("plan", "simulate", *NODES, "-f", mix, "--scheduler", "numakube", "-j", 1)
    ended = numakube(*line, "--report", page)
    assert (ended.code, ended.err) == (0, "")
    assert "<title>11 pods on 2 nodes, simulated</title>" in page.read_text()
    assert sorted(tmp_path.iterdir()) == [mix, page]


def test_runs_can_be_executed_by_a_dask_cluster(numakube: Run, mix: Path) -> None:
    """The workers of an existing cluster, in processes of their own, come to the same answer."""
    distributed = pytest.importorskip("distributed", reason="the extra simulate is not installed")
    line = (
        "plan",
        "simulate",
        *NODES,
        "-f",
        mix,
        "--scheduler",
        "numakube",
        "--seeds",
        2,
        "-o",
        "csv",
    )
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        there = numakube(*line, "--on", cluster.scheduler_address)
    assert (there.code, there.out) == (0, numakube(*line, "-j", 1).out)


def test_a_dask_cluster_that_does_not_answer_is_named(numakube: Run, mix: Path) -> None:
    """The exit code is that of a cluster that cannot be reached."""
    pytest.importorskip("distributed", reason="the extra simulate is not installed")
    ended = numakube("plan", "simulate", *NODES, "-f", mix, "--on", "dusk://nowhere")
    assert ended.code == 3
    assert "--on dusk://nowhere: " in ended.err


def test_more_nodes_like_one_that_is_there_can_be_asked_for(
    numakube: Run, bundle: Path, tmp_path: Path
) -> None:
    """The answer is a sentence; names of arms stay short, and the table narrow."""
    many = tmp_path / "many.yaml"
    many.write_text(MANY)
    line = ("plan", "simulate", "--from", bundle, "-f", many, "-j", 1)
    ended = numakube(*line, "--add-nodes", "3x like node-a")
    assert (ended.code, ended.err) == (0, "")
    answer, *rest = ended.out.splitlines()
    assert answer == "Of 5 pods, 4 never run as it is; with 3 more nodes like node-a, all run."
    assert "numakube, +3x like node-a" in ended.out
    assert "numakube: 4 pods never placed: 0/1 nodes are available: 1 Insufficient cpu" in rest
    assert max(len(one) for one in rest if not one.startswith("Assumed")) <= 120
    same = numakube(*line, "--add-nodes", "3x node-a", "-o", "json")
    assert json.loads(same.out)["answers"] == [answer]
    shape = "3x 2 sockets, 4 cores, smt 2, 16Gi, gpu 2; policy=best-effort"
    long = json.loads(numakube(*line, "--add-nodes", shape, "-o", "json").out)
    assert long["legend"] == [f"numakube, +3 nodes: +{shape}"]
    assert long["answers"] == [answer.replace(" like node-a", "")]
    assert long["arms"][0]["neverPlacedByReason"][0].popitem()[1] == 4


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--add-nodes", "like node-b"), "there is no node 'node-b'; did you mean node-a?"),
        (("--add-nodes", "2x like node-a; polcy=none"), "did you mean policy?"),
        (("--set", "topologyManagerPolcy=x"), "--set: 'topologyManagerPolcy' is unknown; did you"
         " mean topologyManagerPolicy? There are "),
        (("--set", "scope"), "--set: 'scope' is not of the form name=value"),
    ],
)  # fmt: skip
def test_what_cannot_be_changed_is_told_with_what_may_be_meant(
    numakube: Run, bundle: Path, options: tuple[str, str], told: str
) -> None:
    """By the flag that was used."""
    ended = numakube("plan", "simulate", "--from", bundle, *options)
    assert (ended.code, told in ended.err) == (1, True), ended.err


def test_nodes_of_an_invented_cluster_are_like_no_other(numakube: Run, mix: Path) -> None:
    """There is none yet."""
    ended = numakube("plan", "simulate", "--nodes", "3x like node-a", "-f", mix)
    assert "there is no cluster with such a node; describe a machine" in ended.err
