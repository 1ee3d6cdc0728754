"""``kubectl numa plan defrag``: which pods to move so that more pods of a kind fit; moves them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from numakube.cli.shared.cluster_options import (
    cluster_options,
    facts_for,
    namespace_for,
    namespace_option,
    warn_of_refusal,
)
from numakube.cli.shared.connection_options import Timeout
from numakube.cli.shared.dry_run_option import DryRunCommand, dry_run_option
from numakube.cli.shared.output_option import (
    Output,
    can_draw,
    make_console,
    output_option,
    print_document,
    text_width,
)
from numakube.cli.shared.scheduler_options import scheduler_options

if TYPE_CHECKING:
    from numakube.cli.shared.connection_options import ClusterOptions
    from numakube.cli.shared.pods_in_manifests import Batch
    from numakube.cli.shared.scheduler_options import AskedSchedulers
    from numakube.insight import ClusterFacts
    from numakube_planning.defrag.defrag_plan import MovePlan

_WHICH: Final = (
    "Say what to gain, by one of pod/NAME, podgroup/NAME, -f FILE, --shape RESOURCES"
    " and --reduce-stranded."
)
_PIPED_WIDTH: Final = 100


@click.command("defrag", cls=DryRunCommand)
@click.argument("words", nargs=-1, metavar="[KIND/NAME]")
@click.option(
    "-f",
    "--filename",
    metavar="FILE",
    help="The manifest of the pods that should fit: a Pod, Deployment, Job, ...; - is standard "
    "input.",
)
@click.option(
    "--shape",
    metavar="RESOURCES",
    help="Or what such a pod asks for: cpu=16,memory=64Gi,nvidia.com/gpu=2.",
)
@click.option("--open", "opened", hidden=True)
@click.option("--for", "target", hidden=True)
@click.option(
    "--reduce-stranded",
    is_flag=True,
    help="Or make as many stranded resources usable as possible.",
)
@click.option(
    "--moves",
    "most",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="With --reduce-stranded: most pods to move.",
)
@click.option(
    "--count",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="How many of them should fit.",
)
@click.option(
    "--scheduler-config",
    metavar="FILE",
    help="The KubeSchedulerConfiguration to use instead of the default.",
)
@click.option("--apply", is_flag=True, help="Move the pods, one after the other.")
@dry_run_option(
    "client",
    "server",
    text="With --apply, change nothing: print the plan (client), or have the server check every "
    "step of it (server).",
)
@click.option(
    "--timeout",
    "patience",
    type=Timeout(),
    default="5m",
    show_default=True,
    help="With --apply: give up if one pod takes longer to move.",
)
@click.option(
    "--hold",
    "held_as",
    default="",
    metavar="NAME",
    help="With --apply and -f or --shape: have numakube's scheduler keep the places in the end for"
    " pods with the annotation numakube.dev/hold: NAME.",
)
@click.option(
    "--hold-for",
    "held_for",
    type=Timeout(),
    default="10m",
    show_default=True,
    help="How long to keep them, at most 1h.",
)
@click.option("--map", "maps", is_flag=True, help="Draw changed nodes, with changes marked.")
@namespace_option
@scheduler_options
@cluster_options
@output_option(Output.TABLE, Output.JSON, Output.YAML)
def command(
    *,
    words: tuple[str, ...],
    filename: str | None,
    shape: str | None,
    opened: str | None,
    target: str | None,
    reduce_stranded: bool,
    most: int,
    count: int,
    scheduler_config: str | None,
    apply: bool,
    dry_run: str,
    patience: float,
    held_as: str,
    held_for: float,
    maps: bool,
    namespace: str,
    schedulers: AskedSchedulers,
    cluster: ClusterOptions,
    output: Output,
) -> int:
    """Which pods would have to move so that these fit?

    Say what to gain: room for a pod that waits, or alignment of one that runs (pod/NAME), room for
    a gang (podgroup/NAME), for more pods (-f or --shape), or less stranded resources
    (--reduce-stranded). The plan has the fewest moves per pod, each confirmed by the scheduler's
    own plugins and the kubelet model: which pod leaves which node, and where its controller's next
    pod will run while that node is cordoned. Daemons, pods without a controller, with local data,
    of higher priority, or protected by a disruption budget stay where they are. Exits with 1 if not
    all pods fit even then.

    Nothing is changed without --apply. With it, the command evicts one pod after the other, waits
    for its replacement, and plans the rest again before the next step. It stops with 1 if a
    replacement fits nowhere or the rest would take more moves than planned. You can interrupt it at
    any time, and run it again.
    """
    from numakube.apps.gathering import SCHEDULING
    from numakube.cli.shared.scheduler_options import configuration_in_file
    from numakube.insight.collected import SCHEDULER_CONFIG
    from numakube_planning.cli.defrag.plan_targets import Planners

    target = "/".join(words) or target
    shape = shape or opened
    _check_apply(cluster, dry_run, apply=apply)
    if held_as and not (apply and (filename is not None or shape is not None)):
        raise click.UsageError("--hold goes with --apply and -f or --shape.")
    if sum((filename is not None, shape is not None, target is not None, reduce_stranded)) != 1:
        raise click.UsageError(_WHICH)
    space = namespace_for(cluster, namespace)
    planners = Planners(config=configuration_in_file(scheduler_config), namespace=space)
    if target is not None:
        plan_for = planners.waiting(target)
    elif reduce_stranded:
        plan_for = planners.less_stranded()
    else:
        wanted = _wanted(shape, filename, space)
        plan_for = planners.more_pods(wanted, count)

    def show(plan: MovePlan, facts: ClusterFacts) -> None:
        _show(plan, facts, output, maps=maps)

    if apply and dry_run != "client":
        from numakube.cli.shared.wanted_pod import known_in
        from numakube_planning.cli.defrag.plan_application import Application, RoomHold

        hold = None
        if held_as:
            hold = RoomHold(
                name=held_as,
                seconds=held_for,
                pod=lambda facts: known_in(facts, wanted).pod,
                schedulers=schedulers,
            )
        return Application(
            plan=plan_for,
            most=most,
            show=show,
            patience=patience,
            dry_run=dry_run == "server",
            hold=hold,
        ).run(cluster)
    facts = facts_for(cluster, what=SCHEDULING | {SCHEDULER_CONFIG})
    plan = plan_for(facts, most)
    show(plan, facts)
    warn_of_refusal(facts)
    return int(len(plan.nodes) < plan.wanted)


def _check_apply(cluster: ClusterOptions, dry_run: str, *, apply: bool) -> None:
    if dry_run != "none" and not apply:
        raise click.UsageError("--dry-run goes with --apply; without it nothing is changed anyway.")
    if apply and not cluster.live:
        raise click.UsageError("--apply needs a live cluster; a bundle cannot be changed.")


def _wanted(shape: str | None, filename: str | None, namespace: str) -> Batch:
    from numakube.cli.shared.wanted_pod import wanted_pod

    wanted = wanted_pod(shape, filename, namespace)
    if wanted is None:
        raise click.UsageError(_WHICH)
    return wanted


def _show(plan: MovePlan, facts: ClusterFacts, output: Output, *, maps: bool) -> None:
    from numakube.insight.unknown_zones import blind_nodes
    from numakube_planning.cli.defrag.plan_output import (
        blind_lines,
        plan_document,
        plan_lines,
        plan_pictures,
    )
    from numakube_planning.defrag.defrag_plan import costs_of

    costs = costs_of(plan, facts)
    if output in (Output.JSON, Output.YAML):
        document = plan_document(plan, costs)
        if maps:
            from numakube.insight.node_map import picture_document

            document["maps"] = [picture_document(picture) for picture in plan_pictures(plan, facts)]
        print_document(document, output)
        return
    blind = sorted(blind_nodes(facts))
    click.echo("\n".join((*plan_lines(plan, costs), *blind_lines(blind))))
    if maps:
        from numakube.cli.shared.terminal import print_drawing
        from numakube.insight.node_map import lines_of

        console = make_console()
        for picture in plan_pictures(plan, facts):
            console.print()
            width = text_width(console, _PIPED_WIDTH)
            plain = not can_draw(sys.stdout.encoding)
            print_drawing(console, lines_of(picture, width=width, ascii_only=plain))
