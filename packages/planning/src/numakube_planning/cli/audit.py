"""``kubectl numa check pods``: which pods want alignment and do not have it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from numakube.cli.shared.cluster_options import (
    all_namespaces_option,
    cluster_options,
    facts_for,
    namespace_for,
    namespace_option,
    selector_option,
    warn_of_refusal,
)
from numakube.cli.shared.kubectl_names import names_argument
from numakube.cli.shared.output_option import Output, output_option, print_document
from numakube.cli.shared.terminal import column_lines, say
from numakube.errors import ConfigError

if TYPE_CHECKING:
    from numakube.cli.shared.connection_options import ClusterOptions
    from numakube_planning.audit import Audit

_MISALIGNED = 1
_MEASURED = "measured"


@click.command("audit")
@names_argument("pod", metavar="[pods] [NAME]...")
@namespace_option
@all_namespaces_option
@selector_option
@click.option("--node", default="", metavar="NAME", help="Only pods on this node.")
@click.option(
    "--moves/--no-moves", default=True, help="Whether to look for nodes that would align them now."
)
@click.option(
    "--measured", is_flag=True, help="Also say what they really have, where it is measured."
)
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if a pod is not aligned.")
@cluster_options
@output_option(Output.TABLE, Output.WIDE, Output.JSON, Output.YAML)
def command(
    *,
    what: str,
    names: tuple[str, ...],
    namespace: str,
    all_namespaces: bool,
    selector: str,
    node: str,
    moves: bool,
    measured: bool,
    exit_zero: bool,
    cluster: ClusterOptions,
    output: Output,
) -> int:
    """Which pods want alignment and do not have it?

    Covers all namespaces unless one is named. ALIGNED ON lists nodes that would align the pod now
    if it were placed again, tried on the scheduler's plugins and the kubelet model. Pods whose
    annotations ask for zones or links that they do not have are listed too. Exits with 1 if a
    pod of either list is found, or with --measured if one lacks what it was promised.
    """
    del what
    from numakube.apps.gathering import SCHEDULING
    from numakube.cli.shared.selection import chosen_pods
    from numakube.insight.collected import SCHEDULER
    from numakube.insight.observations import observer, observers
    from numakube.insight.unknown_zones import nothing_known
    from numakube_planning.audit import audit

    facts = facts_for(cluster, what=SCHEDULING | {SCHEDULER})
    unknown = nothing_known(facts)
    if unknown:
        raise ConfigError(f"{unknown}, so no pod can be judged")
    space = namespace_for(cluster, namespace) if namespace or names else ""
    chosen = [
        pod
        for pod in chosen_pods(facts, "" if all_namespaces else space, selector)
        if (not names or pod.metadata.name in names) and node in ("", pod.spec.node_name)
    ]
    watcher = observer(_MEASURED) if measured else None
    wishes = [one for name, one in observers().items() if name != _MEASURED]
    found = audit(facts, chosen, moves=moves, watcher=watcher, wishes=wishes)
    _print(found, output)
    warn_of_refusal(facts)
    is_bad = found.misaligned or found.disappointed or found.unmet
    return _MISALIGNED if is_bad and not exit_zero else 0


def _print(found: Audit, output: Output) -> None:
    from numakube.api.codec import to_tree
    from numakube_planning.audit import (
        MORE,
        OBSERVED_TITLES,
        TITLES,
        UNMET_TITLES,
        observed_row,
        observed_summary,
        row,
        summary,
        unmet_row,
    )

    if output in (Output.JSON, Output.YAML):
        print_document(to_tree(found), output)
        return
    wide = output is Output.WIDE
    if found.misaligned:
        titles = [*TITLES, *(MORE if wide else ())]
        rows = [row(pod, found.taken_at, wide=wide) for pod in found.misaligned]
        for line in column_lines(titles, rows):
            say(line)
    say(summary(found))
    if found.unmet:
        say("")
        for line in column_lines(UNMET_TITLES, [unmet_row(pod) for pod in found.unmet]):
            say(line)
    if not found.observed:
        return
    shown = found.observed if wide else found.disappointed
    if shown:
        say("")
        rows = [observed_row(pod, found.taken_at) for pod in shown]
        for line in column_lines(OBSERVED_TITLES, rows):
            say(line)
    say(observed_summary(found, _MEASURED))
