"""``numakube bundle``: everything about a cluster in one file, to be looked at elsewhere."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from numakube.cli.shared.cluster_options import cluster_options, collected_for
from numakube.values.display import counted

if TYPE_CHECKING:
    from numakube.cli.shared.connection_options import ClusterOptions


@click.command("bundle")
@click.option(
    "-o",
    "--output",
    default="numakube-bundle.tar.gz",
    show_default=True,
    metavar="FILE",
    help="Where to write it; `-` for standard output.",
)
@click.option(
    "--anonymise",
    is_flag=True,
    help="Replace names of namespaces, pods, nodes, labels and images by numbers.",
)
@click.option(
    "--kubelets/--no-kubelets",
    default=True,
    help="Whether to ask every kubelet for its configuration.",
)
@cluster_options
def command(cluster: ClusterOptions, output: str, *, anonymise: bool, kubelets: bool) -> None:
    """Collect everything about a cluster into one file.

    `explain`, `top`, `map` and `doctor` read it with --from and give the same answers as on the
    cluster. It never contains values of environment variables.
    """
    from numakube.apps import anonymising
    from numakube.apps.bundle import pack, without_secrets
    from numakube.apps.gathering import EVERYTHING
    from numakube.insight.collected import CONFIGZ
    from numakube.insight.facts import facts_of

    what = EVERYTHING if kubelets else EVERYTHING - {CONFIGZ}
    collected = without_secrets(collected_for(cluster, what=what))
    facts = facts_of(collected)
    if anonymise:
        collected = anonymising.anonymise(collected)
    content = pack(collected)
    if output == "-":
        sys.stdout.buffer.write(content)
        return
    _write(output, content)
    counts = (
        counted(len(facts.nodes), "node"),
        counted(len(facts.pods), "pod"),
        counted(len(facts.topologies), "NodeResourceTopology object"),
    )
    click.echo(f"{output}: {', '.join(counts)}; {len(content):,} bytes")
    for fact in facts.unreadable:
        click.echo(f"not in it: {fact.what} ({fact.why})", err=True)


def _write(output: str, content: bytes) -> None:
    """Write a file that only its owner can read: it says a lot about a cluster."""
    handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
