"""``numakube lab up``: start a lab."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import contextmanager
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from numakube.cli.shared import MachineParameter, load_machine, read_bytes
from numakube.cli.shared.log_options import configure_logs, log_options
from numakube.errors import ConfigError
from numakube_lab.cli.lab import background
from numakube_lab.cli.lab.background import Progress, name_option, run_dir
from numakube_lab.nodes.node_documents import MAX_NODES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube_lab.dumps.cluster_dump import Dump
    from numakube_lab.lab_cluster import LabOptions
    from numakube_lab.nodes.node_documents import NodePlan
    from numakube_lab.run_folder import LabInfo, RunDir

DEFAULT_MACHINE = "2 sockets, 8 cores, smt 2, 32Gi, gpu 2"
_EXAMPLE = Path(str(files("numakube") / "examples" / "aligned-deployment.yaml"))
_PROGRESS_SECONDS = 0.2
"""How often the progress of the start is published."""
_MOST_NOTES = 20
_MOST_VFS = 248
"""What fits on one PCI bus beside the physical function."""


@click.command("up")
@name_option
@click.option("--nodes", type=click.IntRange(0, MAX_NODES), default=3, show_default=True)
@click.option(
    "--machine",
    type=MachineParameter(),
    default=DEFAULT_MACHINE,
    show_default=True,
    help="Machine of every node: a shape, a preset, a file or a sysfs tree.",
)
@click.option(
    "--from",
    "dump",
    metavar="FILE",
    help="Nodes as in a dump (kubectl get nodes,pods,noderesourcetopologies -A -o yaml) or a "
    "bundle (kubectl numa bundle).",
)
@click.option("--with-pods", is_flag=True, help="Bring the pods of --from, where they ran.")
@click.option(
    "--kubelet",
    metavar="WORDS",
    default="",
    help="As in policy=restricted,scope=pod,full-pcpus-only=true.",
)
@click.option("--kubernetes", help="Version of the kubelets.  [default: 1.35, or those of --from]")
@click.option(
    "--control-plane",
    type=click.IntRange(0),
    default=0,
    metavar="COUNT",
    help="Give the first COUNT nodes the role of a control plane, and its taint.",
)
@click.option(
    "--vfs",
    type=click.IntRange(0, _MOST_VFS),
    default=0,
    help="Give every NUMA node a network card with so many SR-IOV functions, in its fake sysfs.",
)
@click.option(
    "--dra",
    "claimable",
    metavar="RESOURCE",
    multiple=True,
    help="Offer the devices of RESOURCE, as in vendor.example/gpu, to claims (dynamic resource "
    "allocation) instead of by a device plugin; can be given several times.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port; 0 takes a free one.")
@click.option("--data", metavar="FILE", help="Keep everything in FILE across restarts.")
@click.option("--tls", is_flag=True, help="Serve HTTPS with a certificate of the lab's own.")
@click.option(
    "--rbac", is_flag=True, help="Users need rights, as in a real cluster; implies --tls."
)
@click.option(
    "--exporter/--no-exporter",
    "exporters",
    default=True,
    show_default=True,
    help="Publish every node's NUMA zones, as an exporter on it does.",
)
@click.option(
    "--default-scheduler/--no-default-scheduler",
    default=True,
    show_default=True,
    help="Schedule pods that name no scheduler, as kube-scheduler does: blind to NUMA.",
)
@click.option(
    "--openshift",
    is_flag=True,
    help="With kinds of OpenShift and OLM: pools, subscriptions. Nothing is behind them.",
)
@click.option(
    "--enforcer",
    is_flag=True,
    help="Nodes whose kubelets align nothing, unless --kubelet says so, with the enforcer.",
)
@click.option(
    "--cgroups",
    type=click.IntRange(1, 2),
    default=2,
    show_default=True,
    help="Version of the nodes' control groups.",
)
@click.option(
    "--label",
    "labels",
    metavar="KEY=VALUE",
    multiple=True,
    help="A label of every node; can be given several times.",
)
@click.option("--detach", is_flag=True, help="Go on in the background; see lab down.")
@log_options
def command(
    name: str,
    nodes: int,
    machine: str,
    dump: str | None,
    kubelet: str,
    kubernetes: str | None,
    control_plane: int,
    vfs: int,
    host: str,
    port: int,
    data: str | None,
    log_level: str,
    log_format: str,
    *,
    labels: tuple[str, ...],
    claimable: tuple[str, ...],
    cgroups: int,
    with_pods: bool,
    tls: bool,
    rbac: bool,
    exporters: bool,
    default_scheduler: bool,
    openshift: bool,
    enforcer: bool,
    detach: bool,
) -> None:
    """Start a lab and run it until interrupted.

    Prints the path of a kubeconfig and the dashboard's address. Ctrl-C leaves nothing behind.
    """
    from numakube.kubelet import UNALIGNED
    from numakube.values.hosts import is_loopback
    from numakube_lab.lab_cluster import LabOptions
    from numakube_lab.processes.container_output import Routed

    configure_logs(log_level, log_format, stream=Routed(sys.stderr))
    if rbac and not tls:
        click.echo("--rbac also serves HTTPS: kubectl sends no token over http.", err=True)
        tls = True
    if not tls and not is_loopback(host):
        raise click.UsageError(f"--host {host} can be reached by others: it needs --tls.")
    if with_pods and dump is None:
        raise click.UsageError("--with-pods needs --from.")
    found = _dump(dump)
    if enforcer:
        kubelet = f"{UNALIGNED},{kubelet}"
    options = LabOptions(
        name=name,
        plans=tuple(
            replace(
                plan.with_claimable(*claimable),
                virtual_functions=vfs,
                cgroup_version=cgroups,
                labels={**plan.labels, **_labels(labels)},
            )
            for plan in _with_roles(
                _plans(nodes, machine, found, kubelet, kubernetes), control_plane
            )
        ),
        host=host,
        port=port,
        data=Path(data) if data else None,
        tls=tls,
        rbac=rbac,
        exporters=exporters,
        default_scheduler=default_scheduler,
        openshift=openshift,
        enforcers=enforcer,
        pods_of=found if with_pods else None,
    )
    folder = run_dir(name)
    folder.create()
    claim = folder.claim()
    if detach:
        _announce(background.detach(folder, claim, lambda: _run(options, folder)), options)
        return
    with Progress() as progress:
        _run(options, folder, progress)


def _labels(words: tuple[str, ...]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    for word, (key, equals, _) in zip(words, pairs, strict=True):
        if not key or not equals:
            raise click.UsageError(f"--label {word}: write it as KEY=VALUE.")
    return {key: value for key, _, value in pairs}


def _with_roles(plans: tuple[NodePlan, ...], control_plane: int) -> Iterator[NodePlan]:
    """Yield *plans*, the first of them as kubeadm sets up a control plane."""
    from numakube.api.affinity_and_taints import Taint
    from numakube.api.nodes import CONTROL_PLANE

    taint = Taint(key=CONTROL_PLANE, effect="NoSchedule")
    for number, plan in enumerate(plans):
        if number < control_plane:
            labels = {**plan.labels, CONTROL_PLANE: ""}
            yield replace(plan, labels=labels, taints=(*plan.taints, taint))
        else:
            yield plan


def _plans(
    count: int, machine: str, dump: Dump | None, kubelet: str, kubernetes: str | None
) -> tuple[NodePlan, ...]:
    from numakube.kubelet import DEFAULT, parse_kubelet_options
    from numakube_lab.dumps.cluster_dump import plans_of
    from numakube_lab.lab_cluster import uniform_plans

    if dump is not None:
        return plans_of(dump, parse_kubelet_options(kubelet), kubernetes=kubernetes)
    return uniform_plans(count, load_machine(machine), kubelet, kubernetes or DEFAULT)


def _dump(file: str | None) -> Dump | None:
    from numakube_lab.dumps.cluster_dump import read_dump

    if file is None:
        return None
    given = [name for name in ("nodes", "machine") if _is_given(name)]
    if given:
        raise click.UsageError(f"--from has its own nodes and machines; leave out --{given[0]}.")
    return read_dump(read_bytes(file), file)


def _is_given(parameter: str) -> bool:
    source = click.get_current_context().get_parameter_source(parameter)
    return source is ParameterSource.COMMANDLINE


def _run(options: LabOptions, folder: RunDir, progress: Progress | None = None) -> None:
    """Run a lab until it has to end; without *progress* nothing is printed."""
    from numakube.apps.host import quiet_collector, run_fast

    try:
        with quiet_collector():
            run_fast(_serve(options, folder, progress))
    finally:
        folder.remove()


async def _serve(options: LabOptions, folder: RunDir, progress: Progress | None) -> None:
    from numakube_lab.lab_cluster import Lab

    clock, written_at = asyncio.get_running_loop().time, -1.0

    def tell(text: str) -> None:
        nonlocal written_at
        if clock() - written_at > _PROGRESS_SECONDS:
            folder.write_progress(text)
            written_at = clock()
        if progress is not None:
            progress.show(text)

    lab = Lab(options, folder, tell=tell)
    with _ending(lab.ended) as begun:
        async with lab:
            begun.set()
            folder.write_info(lab.info())
            if progress is not None:
                progress.close()
                _announce(lab.info(), options)
                click.echo("\nRunning; Ctrl-C ends it and leaves nothing behind.")
            await lab.ended.wait()


@contextmanager
def _ending(ended: asyncio.Event) -> Iterator[asyncio.Event]:
    """Let signals end the lab: by *ended* once the event that is given has been set, or at once."""
    begun = asyncio.Event()
    task = asyncio.current_task()

    def end() -> None:
        ended.set()
        if not begun.is_set() and task is not None:
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, end)
    try:
        yield begun
    except asyncio.CancelledError:
        raise ConfigError("the lab was told to end before it was up") from None


def _announce(info: LabInfo, options: LabOptions) -> None:
    name = "" if info.name == "lab" else f" --name {info.name}"
    click.echo(f"Lab {info.name!r} is up with {len(options.plans)} nodes.")
    click.echo(f"  kubeconfig  {info.kubeconfig}")
    click.echo(f"  dashboard   {info.dashboard}")
    for note in info.notes[:_MOST_NOTES]:
        click.echo(f"  other than dumped: {note}")
    if len(info.notes) > _MOST_NOTES:
        click.echo(f"  ... and {len(info.notes) - _MOST_NOTES} more")
    click.echo("\nTry:")
    click.echo(f"  export KUBECONFIG={info.kubeconfig}")
    click.echo("  kubectl get nodes -o wide")
    click.echo(f"  kubectl apply -f {_EXAMPLE}")
    click.echo(f"  numakube lab status{name}")
