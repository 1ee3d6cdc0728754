"""``numakube explain``: why a pod is where it is, or nowhere, and what would help."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from typing import TYPE_CHECKING, Final

import click

from numakube.cli.explain_workload import explained_workload, planned
from numakube.cli.lazy_commands import Lazy
from numakube.cli.shared.cluster_options import (
    cluster_options,
    facts_for,
    namespace_option,
    pod_place,
)
from numakube.cli.shared.kubectl_names import KindGroup, ObjectName
from numakube.cli.shared.output_option import Output, make_console, output_option, print_document
from numakube.cli.shared.scheduler_options import (
    asked_as_tenant,
    configuration_in_file,
    scheduler_options,
)
from numakube.cli.shared.terminal import say
from numakube.errors import ApiError, ConfigError, Forbidden
from numakube.insight.explain.explanation_text import Line, LineRole, joined
from numakube.kube.resource_types import ObjectKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numakube.api.scheduler_config import KubeSchedulerConfiguration
    from numakube.cli.shared.connection_options import ClusterOptions
    from numakube.cli.shared.scheduler_options import AskedSchedulers
    from numakube.insight.explain import ExplainedWorkload, Explanation, Subject
    from numakube.insight.explain.explained_pod import Addition
    from numakube.insight.explain.explanation_document import WorkloadExplanation
    from numakube.insight.explain.pod_explanation import ExplainOptions
    from numakube.insight.facts import ClusterFacts
    from numakube.scheduling.assembly import Engine

_NEGATIVE: Final = 1
_STYLES: Final = {
    LineRole.TITLE: "bold",
    LineRole.HEADING: "bold",
    LineRole.CHANGE: "green",
    LineRole.NOTE: "dim",
    LineRole.FITS: "green",
    LineRole.REFUSED: "yellow",
}
_NARROWEST: Final = 60
_TENANTS: Final = (
    "https://github.com/numakube/numakube/blob/main/docs/reference/debug-endpoints.md#tenants"
)


@click.group(
    "explain",
    cls=KindGroup,
    lazy={
        "pod": Lazy("numakube.cli.explain", "Say where a pod fits, and why not elsewhere.", "pod"),
        **{
            kind.lower(): Lazy(
                "numakube.cli.explain_workload",
                f"Say how many pods of a {kind} fit together.",
                kind.lower(),
            )
            for kind in ("Deployment", "StatefulSet", "ReplicaSet", "Job", "PodGroup")
        },
        "node": Lazy(
            "numakube.cli.explain_object", "Say what a node takes, and why not more.", "node"
        ),
        "claim": Lazy(
            "numakube.cli.explain_object",
            "Say where the devices of a resource claim are, or why it has none.",
            "claim",
        ),
    },
)
def command() -> None:
    """Say why a pod is where it is, or nowhere, and how much of a workload fits.

    And what a node takes, and why a resource claim has no devices. `explain -f FILE` is about a
    manifest: a pod, or all the replicas of a Deployment, Job, ...
    """


@click.command("pod")
@click.argument("name", required=False, type=ObjectName("pod"))
@namespace_option
@click.option(
    "-f",
    "--filename",
    metavar="FILE",
    help="Explain the pods of this manifest, or of its templates, before they are created.",
)
@click.option(
    "--node",
    default="",
    type=ObjectName("node"),
    metavar="NAME",
    help="Look at this node in detail.",
)
@click.option(
    "--scheduler-config",
    metavar="FILE",
    help="The KubeSchedulerConfiguration to use instead of the default.",
)
@click.option(
    "--changes/--no-changes", default=True, help="Whether to look for what would make it fit."
)
@cluster_options
@scheduler_options
@output_option(Output.TABLE, Output.WIDE, Output.JSON, Output.YAML)
def pod(
    name: str | None,
    namespace: str,
    filename: str | None,
    node: str,
    scheduler_config: str | None,
    cluster: ClusterOptions,
    schedulers: AskedSchedulers,
    output: Output,
    *,
    changes: bool,
) -> int:
    """Say where a pod fits, and why not elsewhere.

    NAME may start with its namespace, as in team/web. The scheduler's own plugins decide, on the
    state of the cluster. Exits with 1 if the pod fits nowhere, if that is not known, or if no
    scheduler serves it. Users who may not list nodes or pods
    get the scheduler's answer, without names of nodes and other pods.
    """
    from numakube.apps.gathering import SCHEDULING
    from numakube.insight.collected import DEPLOYMENTS, LEASES, SCHEDULER_CONFIG
    from numakube.insight.explain import Subject
    from numakube.insight.explain.pod_explanation import ExplainOptions

    if (name is None) == (filename is None):
        raise click.UsageError("Give the NAME of a pod, or a manifest with -f.")
    config = configuration_in_file(scheduler_config)
    space, name = pod_place(cluster, namespace, name or "")
    try:
        facts = facts_for(cluster, what=SCHEDULING | {LEASES, DEPLOYMENTS, SCHEDULER_CONFIG})
    except Forbidden as refusal:
        if filename is not None:
            raise
        return _as_tenant(cluster, schedulers, ObjectKey(space, name), output, refusal)
    if node and node not in facts.nodes:
        raise ConfigError(f"there is no node {node}")
    options = ExplainOptions(node=node, changes=changes)
    found = [
        explained(facts, config, subject, options)
        if isinstance(subject, Subject)
        else explained_workload(facts, subject, config, options)
        for subject in _subjects(facts, name, filename, space)
    ]
    print_found(found, output)
    return _NEGATIVE if any(map(_is_negative, found)) else 0


def explained(
    facts: ClusterFacts,
    config: KubeSchedulerConfiguration | None,
    subject: Subject,
    options: ExplainOptions,
) -> Explanation:
    """Return what there is to say of the pod *subject*, what annexes add included."""
    from numakube.annexes import Group, loaded
    from numakube.insight.explain import explain, in_its_gang
    from numakube.insight.scheduler_engine import engine_of

    def make(known: ClusterFacts) -> Engine:
        return engine_of(known, config, subject.scheduler)

    engine = make(facts)
    found = in_its_gang(explain(facts, engine, subject, options), facts, make, subject)
    if options.changes:
        add: Addition
        for add in loaded(Group.EXPLAINERS).values():
            found = add(found, engine, subject)
    return found


def _is_negative(found: Explanation | WorkloadExplanation) -> bool:
    """Tell whether a pod that has no node has no place either, or none that is known of."""
    pod = getattr(found, "pod", None)
    if pod is not None and (pod.node or pod.unserved):
        return not pod.node
    return found.verdict in ("refused", "unknown")


def _as_tenant(
    cluster: ClusterOptions,
    schedulers: AskedSchedulers,
    key: ObjectKey,
    output: Output,
    refusal: Forbidden,
) -> int:
    """Have the scheduler explain a pod to a user who may not read the cluster."""
    from numakube.insight.explain.tenant_view import tenant_lines

    try:
        document = asyncio.run(asked_as_tenant(cluster, schedulers, key))
    except (ApiError, ConfigError) as error:
        raise ConfigError(
            f"{refusal}; nor can the scheduler be asked: {error}. An administrator allows it with"
            f" three commands: {_TENANTS}"
        ) from None
    if output in (Output.JSON, Output.YAML):
        print_document(document, output)
    else:
        for line in tenant_lines(document):
            say(line)
    return _NEGATIVE if document["verdict"] in ("refused", "unknown") else 0


def _subjects(
    facts: ClusterFacts, name: str | None, filename: str | None, namespace: str
) -> Sequence[Subject | ExplainedWorkload]:
    from numakube.cli.shared.pods_in_manifests import batches_in
    from numakube.insight.explain import manifest_subject, pod_subject

    if filename is not None:
        classes = facts.priority_classes
        return [
            planned(facts, batch, namespace)
            if (batch.replicas or 1) > 1
            else manifest_subject(batch.pod, namespace=namespace, classes=classes)
            for batch in batches_in(filename)
        ]
    found = facts.pod(namespace, name or "")
    if found is None:
        raise ConfigError(_no_such_pod(facts, namespace, name or ""))
    return [pod_subject(found)]


def _no_such_pod(facts: ClusterFacts, namespace: str, name: str) -> str:
    elsewhere = sorted(one.metadata.namespace for one in facts.pods if one.metadata.name == name)
    hint = f"; there is one in {', '.join(elsewhere)} (-n)" if elsewhere else ""
    return f"there is no pod {name} in namespace {namespace}{hint}"


def print_found(found: Sequence[Explanation | WorkloadExplanation], output: Output) -> None:
    """Print explanations, for people or for programs."""
    from numakube.api.codec import to_tree
    from numakube.insight.explain import Explanation, lines_of, workload_lines

    if output in (Output.JSON, Output.YAML):
        trees = [to_tree(one) for one in found]
        print_document(trees if len(trees) > 1 else trees[0], output)
        return
    wide = output is Output.WIDE
    for number, one in enumerate(found):
        if number:
            click.echo()
        if isinstance(one, Explanation):
            print_lines(lines_of(one, wide=wide))
        else:
            print_lines(workload_lines(one, wide=wide))


def print_lines(lines: Iterable[Line]) -> None:
    """Print *lines* as fits standard output."""
    if not sys.stdout.isatty():
        click.echo(joined(lines), nl=False)
        return
    from rich.text import Text

    console = make_console()
    for line in lines:
        for part in folded(line, max(_NARROWEST, console.width)):
            console.print(Text(part, style=_STYLES.get(line.role, "")), soft_wrap=True)


def folded(line: Line, width: int) -> Iterator[str]:
    """Yield a line in parts of at most *width* characters; rows of tables stay whole."""
    text = line.text
    if len(text) <= width or line.role is LineRole.ROW:
        yield text
        return
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    yield from textwrap.wrap(
        text,
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )
