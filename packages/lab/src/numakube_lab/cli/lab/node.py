"""``numakube lab node``: change the nodes of a running lab."""

from __future__ import annotations

import click

from numakube.cli.lazy_commands import LazyGroup
from numakube.cli.shared import MachineParameter, ObjectName, load_machine
from numakube_lab.cli.lab.background import ask_lab, name_option
from numakube_lab.cli.lab.up import DEFAULT_MACHINE
from numakube_lab.nodes.node_documents import MAX_NODES


@click.group("node", cls=LazyGroup)
def command() -> None:
    """Add, set, kill, start, restart, pause, resume or remove nodes of a running lab."""


@command.command("add")
@name_option
@click.option("--count", type=click.IntRange(1, MAX_NODES), default=1, show_default=True)
@click.option(
    "--machine",
    type=MachineParameter(),
    default=DEFAULT_MACHINE,
    show_default=True,
    help="Machine of the nodes.",
)
@click.option("--kubelet", metavar="WORDS", default="", help="As in policy=restricted,scope=pod.")
@click.option("--kubernetes", default="1.35", show_default=True, help="Version of the kubelets.")
def add(name: str, count: int, machine: str, kubelet: str, kubernetes: str) -> None:
    """Add nodes."""
    import msgspec

    from numakube.kubelet import to_cadvisor, write_devices
    from numakube.topology import write_tree

    found = load_machine(machine)
    request = {
        "count": count,
        "machine": to_cadvisor(found),
        "devices": write_devices(found.devices),
        "tree": msgspec.to_builtins(write_tree(found.tree)),
        "kubelet": kubelet,
        "kubernetes": kubernetes,
    }
    for node in ask_lab(name, "POST", "/nodes", request)["nodes"]:
        click.echo(f"node/{node} added")


@command.command("set")
@name_option
@click.argument("node", type=ObjectName("node"))
@click.option("--kubelet", metavar="WORDS", default="", help="As in policy=restricted,scope=pod.")
@click.option("--kubernetes", default="", metavar="VERSION", help="Version of the kubelet.")
def set_(name: str, node: str, kubelet: str, kubernetes: str) -> None:
    """Restart the kubelet of NODE with other settings, or another version.

    What is not named stays. As on a real node, the state of the CPU and Memory Managers is removed,
    and pods that are still there are admitted again, which may reject them: drain the node first.
    """
    if not kubelet and not kubernetes:
        raise click.UsageError("Say what is to be other: --kubelet WORDS or --kubernetes VERSION.")
    request = {"kubelet": kubelet, "kubernetes": kubernetes}
    ask_lab(name, "POST", f"/nodes/{node}/kubelet", request)
    click.echo(f"node/{node} reconfigured")


@command.command("path")
@name_option
@click.argument("node")
def path(name: str, node: str) -> None:
    """Print the folder of NODE: its fake sysfs, control groups, kubelet files and sockets.

    It is written when this command, or a pod that really runs, first needs it.
    """
    click.echo(ask_lab(name, "POST", f"/nodes/{node}/folder")["path"])


def _steering(action: str, past: str, summary: str) -> None:
    @command.command(action, help=summary)
    @name_option
    @click.argument("node", type=ObjectName("node"))
    def steer(name: str, node: str) -> None:
        ask_lab(name, "POST", f"/nodes/{node}/{action}")
        click.echo(f"node/{node} {past}")


_steering("kill", "killed", "End the kubelet of NODE on the spot; its disk is kept.")
_steering("start", "started", "Start the kubelet of NODE after it was killed.")
_steering("restart", "restarted", "Restart the kubelet of NODE; its state files are kept.")
_steering("pause", "paused", "Let the kubelet of NODE fall silent, as if it had died.")
_steering("resume", "resumed", "Wake a paused kubelet.")
_steering("remove", "removed", "Take NODE out of the cluster.")
