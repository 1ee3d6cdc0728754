"""``numakube lab``: starts, inspects and stops a lab."""

from __future__ import annotations

import click

from numakube.cli.lazy_commands import Lazy, LazyGroup


@click.group(
    cls=LazyGroup,
    lazy={
        "up": Lazy("numakube_lab.cli.lab.up", "Start a lab and run it until interrupted."),
        "down": Lazy("numakube_lab.cli.lab.down", "Stop a lab."),
        "status": Lazy("numakube_lab.cli.lab.status", "Show the labs that run, or one in detail."),
        "node": Lazy(
            "numakube_lab.cli.lab.node", "Add, kill, start, restart, pause, resume or remove nodes."
        ),
        "fault": Lazy("numakube_lab.cli.lab.fault", "Make requests fail, lag or break off."),
    },
)
def command() -> None:
    """Run a cluster with NUMA nodes in one process.

    It serves the Kubernetes API: kubectl, client libraries and schedulers work with it unchanged.
    Its nodes can have any machine and kubelet configuration; their kubelets admit and refuse pods
    exactly as real ones do.
    """
