"""``numakube plan simulate``: what would become of pods on a cluster, in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from numakube.cli.shared.connection_options import connection_options, current_cluster
from numakube.cli.shared.machine_argument import MachineParameter

if TYPE_CHECKING:
    from collections.abc import Callable


_FORMS: Final = ("table", "markdown", "json", "yaml", "csv")


def _cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option(
            "--nodes",
            "kinds",
            multiple=True,
            metavar="KIND",
            help="Nodes that are alike: as in '10x 2 sockets, 16 cores, 64Gi; policy=restricted'.",
        ),
        click.option(
            "--from",
            "source",
            metavar="FILE",
            help="A cluster: a bundle, or what kubectl get nodes,pods,noderesourcetopologies -A"
            " -o yaml prints.",
        ),
        click.option(
            "--machine",
            type=MachineParameter(),
            help="Machine of every node of that cluster, instead of the real ones.",
        ),
        click.option(
            "--pending/--no-pending",
            default=True,
            help="Whether pods of that cluster come that wait for a node.",
        ),
        click.option(
            "-f",
            "--filename",
            "filenames",
            multiple=True,
            metavar="FILE",
            help="What comes: manifests with replicas, or a mix of workloads.",
        ),
        click.option(
            "--trace",
            metavar="FILE",
            help="Or the pods of a public GPU trace (CSV): openb of 2023, or the one of 2025.",
        ),
        click.option(
            "--trace-nodes", metavar="FILE", help="The cluster: the nodes of openb (CSV)."
        ),
        click.option(
            "--rule",
            "rules",
            multiple=True,
            metavar="NAME=VALUE",
            help="How a trace becomes machines and pods: as in guaranteed=latency-sensitive.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _arm_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option(
            "--scheduler",
            "schedulers",
            multiple=True,
            metavar="NAME",
            help="least-allocated, most-allocated, upstream-10s (reports of any age) or numakube;"
            " several are compared. A scoring strategy may follow: numakube:LeastFragmentation."
            "  [default: all]",
        ),
        click.option(
            "--config",
            "configs",
            multiple=True,
            metavar="FILE",
            help="A scheduler of ours with this KubeSchedulerConfiguration.",
        ),
        click.option(
            "--policy",
            "policies",
            multiple=True,
            metavar="POLICY",
            help="Topology Manager policy of all kubelets; several are compared.",
        ),
        click.option(
            "--scope",
            "scopes",
            multiple=True,
            metavar="SCOPE",
            help="Likewise the scope: container or pod.",
        ),
        click.option(
            "--memory-manager",
            "memories",
            multiple=True,
            metavar="POLICY",
            help="Likewise the Memory Manager policy: None or Static.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _change_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="FIELD=VALUE",
            help="What if all kubelets had this: as in topologyManagerPolicy=restricted.",
        ),
        click.option(
            "--add-nodes",
            "added",
            multiple=True,
            metavar="KIND",
            help="What if there were these: a kind as in --nodes, or 10x like NODE.",
        ),
        click.option(
            "--remove-node", "removed", multiple=True, metavar="NAME", help="What if it were gone."
        ),
        click.option(
            "--drain", "drained", multiple=True, metavar="NAME", help="What if it were drained."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option(
            "--seeds",
            type=click.IntRange(1, 10_000),
            default=1,
            show_default=True,
            help="How often each arm is run, with chances of its own each time.",
        ),
        click.option(
            "--assume",
            "assumptions",
            multiple=True,
            metavar="NAME=VALUE",
            help="Of what is not simulated: decision, watch, kubelet or eviction=SECONDS,"
            " most-rejections=N, until or patience=SECONDS.",
        ),
        click.option(
            "-j",
            "--jobs",
            type=click.IntRange(1),
            metavar="N",
            help="Runs at the same time.  [default: one for each CPU]",
        ),
        click.option(
            "--resume",
            metavar="FILE",
            help="Keep finished runs in FILE, and do not repeat those that are in it.",
        ),
        click.option(
            "--on",
            "scheduler_address",
            metavar="ADDRESS",
            help="Run on the Dask cluster with this scheduler, such as tcp://10.0.0.5:8786.",
        ),
        click.option(
            "--report",
            metavar="FILE",
            type=click.Path(dir_okay=False, writable=True),
            help="Also write a page (HTML) with plots.",
        ),
        click.option(
            "-o",
            "--output",
            type=click.Choice(_FORMS),
            default=_FORMS[0],
            show_default=True,
            help="Output format.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command("simulate")
@_cluster_options
@_arm_options
@_change_options
@_run_options
@connection_options()
def command(
    *,
    machine: str | None,
    seeds: int,
    jobs: int | None,
    resume: str | None,
    scheduler_address: str | None,
    report: str | None,
    output: str,
    **given: Any,  # noqa: ANN401 - click's
) -> None:
    """What would become of pods on a cluster?

    Pods arrive at a cluster in virtual time. The real scheduler decides, and the kubelet model of
    each node admits or rejects what it binds; ReplicaSets and Jobs react as real ones do. The
    cluster is invented (--nodes), read from a file (--from), or the live one. With --set,
    --add-nodes, --remove-node or --drain, the cluster as it is and the changed one are compared.
    """
    from numakube_planning.cli.simulate.resumable_runs import Interrupted, RunPlaces, results_of
    from numakube_planning.cli.simulate.simulation_inputs import SimulateOptions, read_runs
    from numakube_planning.cli.simulate.simulation_output import print_results, write_report

    runs = read_runs(
        SimulateOptions(
            cluster=current_cluster(), machine=machine, seeds=range(1, seeds + 1), **given
        )
    )
    kept = Path(resume) if resume else None
    try:
        results = results_of(runs, RunPlaces(jobs=jobs, resume=kept, dask=scheduler_address))
    except Interrupted as stopped:
        if stopped.results:
            print_results(runs, stopped.results, output)
        click.echo(stopped, err=True)
        raise
    if report is not None:
        write_report(Path(report), runs, results)
    print_results(runs, results, output)
