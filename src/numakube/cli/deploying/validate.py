"""``numakube validate``: are the kubelets set up so that pods can be aligned?"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from numakube.cli.shared.cluster_options import ClusterOptions, cluster_options, facts_for
from numakube.cli.shared.kubectl_names import ObjectName
from numakube.cli.shared.output_option import Output, output_option, print_document
from numakube.cli.shared.terminal import say
from numakube.errors import ConfigError
from numakube.values.topology_policy import ALIGNING_POLICIES

if TYPE_CHECKING:
    from numakube.insight.facts import ClusterFacts

FOUND = 1


@click.command("validate")
@output_option(Output.TABLE, Output.JSON, Output.YAML)
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if something is wrong.")
@click.option(
    "--patch",
    "node",
    type=ObjectName("node"),
    metavar="NODE",
    help="Print a kubelet configuration for this node instead, as a patch for kubeadm.",
)
@click.option(
    "--policy",
    type=click.Choice([policy.value for policy in ALIGNING_POLICIES]),
    help="The Topology Manager's policy to ask for; any of them if not given.",
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
    policy: str | None,
    scope: str,
    reserved_cores: int,
    cluster: ClusterOptions,
) -> int:
    """Are the kubelets set up to align pods?

    Exits with 1 if something keeps pods from being aligned. Looks at the worker nodes, or at all
    but the control plane if none is labelled as such.
    """
    facts = facts_for(cluster)
    if node is not None:
        _print_patch(facts, node, policy or ALIGNING_POLICIES[0].value, scope, reserved_cores)
        return 0
    code = report(facts, output, policies=(policy,) if policy else None)
    return 0 if exit_zero else code


def report(facts: ClusterFacts, output: Output, *, policies: tuple[str, ...] | None = None) -> int:
    """Print what is wrong; return the exit code."""
    from numakube.apps.deployer.kubelet_validation import validate

    findings = validate(facts) if policies is None else validate(facts, policies=policies)
    if output is not Output.TABLE:
        errors = {"errors": [asdict(one) for one in findings]} if findings else {}
        print_document({"success": not findings, **errors}, output)
    elif not findings:
        click.echo("PASSED>>: the cluster configuration looks ok!")
    for number, finding in enumerate(findings if output is Output.TABLE else ()):
        say(f"ERROR#{number:03}: {finding.text()}")
    return FOUND if findings else 0


def _print_patch(
    facts: ClusterFacts, node: str, policy: str, scope: str, reserved_cores: int
) -> None:
    from numakube.apps.deployer.advice import Advice, kubeadm_patch
    from numakube.insight.facts import model_of
    from numakube.topology.numa_zones import Unusable

    if node not in facts.nodes:
        raise ConfigError(f"there is no node {node!r}")
    model = model_of(facts, node)
    if isinstance(model, Unusable):
        raise ConfigError(f"node {node}: its hardware is not known: {model.reason}")
    advice = Advice(policy=policy, scope=scope, reserved_cores=reserved_cores)
    click.echo(kubeadm_patch(model.machine, advice), nl=False)
