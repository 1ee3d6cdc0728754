"""``numakube explain node`` and ``explain claim``."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import click

from numakube.cli.explain import explained, print_lines
from numakube.cli.shared.cluster_options import (
    cluster_options,
    facts_for,
    namespace_for,
    namespace_option,
)
from numakube.cli.shared.kubectl_names import ObjectName
from numakube.cli.shared.output_option import Output, output_option, print_document
from numakube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.cli.shared.connection_options import ClusterOptions
    from numakube.insight.explain.explanation_text import Line
    from numakube.insight.facts import ClusterFacts


@click.command("node")
@click.argument("name", type=ObjectName("node"))
@cluster_options
@output_option(Output.TABLE, Output.JSON, Output.YAML)
def node(name: str, cluster: ClusterOptions, output: Output) -> int:
    """Say what a node takes, why not more, and which pods wait that it has room for.

    Each pod that waits, up to the twenty most important ones, is tried on the node by its
    scheduler's own plugins and the kubelet model. Exits with 1 if the node takes no pods, or if it
    is not known what its kubelet does with them.
    """
    from numakube.insight.explain import explain
    from numakube.insight.explain.pod_explanation import ExplainOptions
    from numakube.insight.node_explanation import explain_node, node_lines
    from numakube.insight.scheduler_engine import engine_of

    facts = facts_for(cluster)
    if name not in facts.nodes:
        raise ConfigError(f"there is no node {name}")
    engines = cache(lambda scheduler: engine_of(facts, None, scheduler))
    options = ExplainOptions(node=name, changes=False)
    found = explain_node(
        facts, name, lambda pod: explain(facts, engines(pod.scheduler), pod, options)
    )
    _print(found, node_lines(found), output)
    return int(found.verdict != "open")


@click.command("claim")
@click.argument("name", type=ObjectName("claim"))
@namespace_option
@cluster_options
@output_option(Output.TABLE, Output.WIDE, Output.JSON, Output.YAML)
def claim(name: str, namespace: str, cluster: ClusterOptions, output: Output) -> int:
    """Say where the devices of a resource claim are and for whom, or why it has none.

    A claim gets devices when a pod that uses it is placed; so the pod is explained, or one that
    asks for nothing but the claim. Exits with 1 if the claim has no devices and no node is known
    that could serve it.
    """
    from numakube.apps.gathering import SCHEDULING
    from numakube.insight.collected import DEPLOYMENTS, LEASES, SCHEDULER_CONFIG
    from numakube.insight.explain.claim_explanation import claim_lines, explain_claim
    from numakube.insight.explain.pod_explanation import ExplainOptions

    facts = facts_for(cluster, what=SCHEDULING | {LEASES, DEPLOYMENTS, SCHEDULER_CONFIG})
    space = namespace_for(cluster, namespace)
    found = facts.objects.resource_claims.get(f"{space}/{name}")
    if found is None:
        raise ConfigError(_no_such_claim(facts, space, name))
    explanation = explain_claim(
        facts, found, lambda pod: explained(facts, None, pod, ExplainOptions())
    )
    _print(explanation, claim_lines(explanation, wide=output is Output.WIDE), output)
    return int(explanation.verdict in ("refused", "unknown", "held"))


def _no_such_claim(facts: ClusterFacts, namespace: str, name: str) -> str:
    if not facts.claims_known:
        return "resource claims could not be listed: kubectl numa doctor says why"
    claims = facts.objects.resource_claims.values()
    spaces = sorted(claim.metadata.namespace for claim in claims if claim.metadata.name == name)
    hint = f"; there is one in {', '.join(spaces)} (-n)" if spaces else ""
    return f"there is no resource claim {name} in namespace {namespace}{hint}"


def _print(document: object, lines: Iterable[Line], output: Output) -> None:
    from numakube.api.codec import to_tree

    if output in (Output.JSON, Output.YAML):
        print_document(to_tree(document), output)
    else:
        print_lines(lines)
