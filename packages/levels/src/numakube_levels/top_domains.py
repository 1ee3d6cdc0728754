"""``kubectl numa top domains``: which domains are whole, and what breaks the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from numakube.cli.shared.cluster_options import cluster_options, facts_for, warn_of_refusal
from numakube.cli.shared.output_option import Output, output_option, print_document
from numakube.cli.shared.terminal import column_lines, say
from numakube.errors import ConfigError

if TYPE_CHECKING:
    from numakube.cli.shared.connection_options import ClusterOptions
    from numakube_levels.domain_report import ShapeReport

_TITLES = ("DOMAIN", "NODES", "TAKES", "STATE", "IDLE", "UNREACHABLE", "BROKEN BY")


@click.command("domains")
@click.option("--level", default="", metavar="LEVEL", help="Of which level; its name or label.")
@click.option(
    "--shape",
    default="",
    metavar="RESOURCES",
    help="What a pod of a gang requests, such as cpu=64,nvidia.com/gpu=4.",
)
@click.option("--size", default=1, show_default=True, help="How many such pods belong together.")
@cluster_options
@output_option(Output.TABLE, Output.JSON, Output.YAML)
def command(*, level: str, shape: str, size: int, cluster: ClusterOptions, output: Output) -> None:
    """Which racks or NVLink domains are whole, and what breaks the others?

    TAKES is how many pods of a gang a domain takes now, and would take without other pods, counted
    with the scheduler's plugins and the kubelet model. IDLE devices are free; UNREACHABLE ones are
    free where no gang of that size fits.
    """
    from numakube.apps.gathering import SCHEDULING
    from numakube.insight.collected import SCHEDULER
    from numakube_levels.domain_report import domain_report

    if shape and not level:
        raise click.UsageError("--shape needs --level.")
    facts = facts_for(cluster, what=SCHEDULING | {SCHEDULER})
    reports = domain_report(facts, level, shape, size)
    if not reports:
        raise ConfigError(
            "no gang asks for a level: name one with --level, and --shape and --size of gangs"
        )
    if output is Output.TABLE:
        for at, report in enumerate(reports):
            _print(report, first=not at)
    else:
        from numakube.api.codec import to_tree

        print_document({"levels": [to_tree(report) for report in reports]}, output)
    warn_of_refusal(facts)


def _print(report: ShapeReport, *, first: bool) -> None:
    say(("" if first else "\n") + report.summary)
    rows = [
        (
            one.name,
            str(one.nodes),
            f"{one.takes}/{one.could_take}",
            one.state,
            str(one.idle),
            str(one.unreachable),
            ", ".join(one.broken_by),
        )
        for one in report.domains
    ]
    for line in column_lines(_TITLES, rows):
        say(line)
