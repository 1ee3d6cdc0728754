"""``numakube check kubelets``: are the kubelets set up so that pods can be aligned?"""

from __future__ import annotations

import socket
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from numakube.cli.shared.cluster_options import cluster_options, facts_for
from numakube.cli.shared.kubectl_names import ObjectName
from numakube.cli.shared.output_option import Output, output_option, print_document
from numakube.cli.shared.terminal import say
from numakube.errors import ConfigError
from numakube.values.topology_policy import ALIGNING_POLICIES

if TYPE_CHECKING:
    from numakube.apps.deployer.kubelet_validation import KubeletAdvice, KubeletFinding
    from numakube.cli.shared.connection_options import ClusterOptions
    from numakube.insight.facts import ClusterFacts

FOUND = 1
_STATE_FILES: Final = (
    "drain the node, stop the kubelet, remove cpu_manager_state and memory_manager_state, start it:"
)


@click.command("validate")
@output_option(Output.TABLE, Output.JSON, Output.YAML)
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if something is wrong.")
@click.option(
    "--patch",
    "node",
    type=ObjectName("node"),
    metavar="NODE",
    help="Print a kubelet configuration for this node instead.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["kubeadm", "drop-in", "flags", "openshift"]),
    default="kubeadm",
    show_default=True,
    help="Form of that configuration: patch for kubeadm, file for --config-dir,"
    " KUBELET_EXTRA_ARGS, or KubeletConfig.",
)
@click.option(
    "--pool",
    default="worker",
    show_default=True,
    metavar="POOL",
    help="The machine configuration pool of --format openshift.",
)
@click.option(
    "--host",
    type=click.Path(file_okay=False, exists=True),
    metavar="DIR",
    help="Check the kubelet of this host instead, from its files below DIR, such as /.",
)
@click.option(
    "--kubernetes",
    default="",
    metavar="VERSION",
    help="With --host: the kubelet's version, which says what flags and gates it knows. [default: "
    "that of the installed Debian package]",
)
@click.option(
    "--policy",
    type=click.Choice([policy.value for policy in ALIGNING_POLICIES]),
    help="Required policy of the Topology Manager; by default any of them.",
)
@click.option(
    "--scope",
    type=click.Choice(("container", "pod")),
    default="container",
    show_default=True,
    help="The Topology Manager's scope of the patch.",
)
@click.option(
    "--reserved-cores",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Cores that the patch keeps for the system.",
)
@cluster_options
def command(
    *,
    output: Output,
    exit_zero: bool,
    node: str | None,
    form: str,
    pool: str,
    host: str | None,
    kubernetes: str,
    policy: str | None,
    scope: str,
    reserved_cores: int,
    cluster: ClusterOptions,
) -> int:
    """Are the kubelets set up to align pods?

    Exits with 1 if something keeps pods from being aligned. Checks the worker nodes, or all nodes
    except the control plane if no node is labelled as a worker. With --host it checks the files of
    one machine before its kubelet starts again, and needs no cluster.
    """
    policies = (policy,) if policy else ALIGNING_POLICIES
    if host is not None:
        code = _print_findings(_of_host(host, policies, kubernetes), output)
        return 0 if exit_zero else code
    facts = facts_for(cluster)
    if node is not None:
        from numakube.apps.deployer.kubelet_validation import KubeletAdvice

        advice = KubeletAdvice(policy=policies[0], scope=scope, reserved_cores=reserved_cores)
        _print_patch(facts, node, advice, form=form, pool=pool)
        return 0
    code = report(facts, output, policies=policies)
    return 0 if exit_zero else code


def report(
    facts: ClusterFacts, output: Output, *, policies: tuple[str, ...] = ALIGNING_POLICIES
) -> int:
    """Print what is wrong; return the exit code."""
    from numakube.apps.deployer.kubelet_validation import validate

    return _print_findings(validate(facts, policies=policies), output)


def _of_host(host: str, policies: tuple[str, ...], kubernetes: str) -> list[KubeletFinding]:
    from numakube.apps.deployer.kubelet_validation import validate_host
    from numakube.node.kubelet_files import read_host

    return validate_host(
        read_host(Path(host)),
        name=socket.gethostname(),
        policies=policies,
        kubernetes=kubernetes,
    )


def _print_findings(findings: list[KubeletFinding], output: Output) -> int:
    if output is not Output.TABLE:
        errors = {"errors": [asdict(finding) for finding in findings]} if findings else {}
        print_document({"success": not findings, **errors}, output)
    elif not findings:
        # The deployer's own line (0.24): scripts look for it, and for its ERROR#000.
        click.echo("PASSED>>: the cluster configuration looks ok!")
    for number, finding in enumerate(findings if output is Output.TABLE else ()):
        say(f"ERROR#{number:03}: {finding.text()}")
    return FOUND if findings else 0


def _print_patch(
    facts: ClusterFacts, node: str, advice: KubeletAdvice, *, form: str, pool: str
) -> None:
    from numakube.apps.deployer.kubelet_validation import (
        Form,
        kubelet_configuration,
        state_trouble,
        written,
    )
    from numakube.insight.facts import model_of
    from numakube.topology.numa_zones import Unusable

    if node not in facts.nodes:
        raise ConfigError(f"there is no node {node!r}")
    model = model_of(facts, node)
    if isinstance(model, Unusable):
        raise ConfigError(f"node {node}: its hardware is not known: {model.reason}")
    document = kubelet_configuration(model.machine, advice)
    if trouble := state_trouble(model, document):
        click.echo(f"# {_STATE_FILES}\n# the kubelet would say: {trouble}")
    click.echo(written(document, Form(form), pool=pool), nl=False)
