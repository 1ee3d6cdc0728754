"""``kubectl numa doctor``: what is wrong with the cluster, and what to do about it."""

from __future__ import annotations

import os
import textwrap
from typing import TYPE_CHECKING, Final

import click

from numakube.cli.shared.cluster_options import cluster_options, facts_for
from numakube.cli.shared.kubectl_names import ObjectName
from numakube.cli.shared.output_option import Output, print_document, told_width
from numakube.errors import ConfigError

if TYPE_CHECKING:
    from numakube.cli.shared.connection_options import ClusterOptions
    from numakube.insight.doctor.all_checks import Diagnosis, Entry

_TEXT: Final = "text"
_COLOURS: Final = {"error": "red", "warning": "yellow", "info": "blue"}
_WIDTH: Final = 100
_INDENT: Final = "  "


@click.command("doctor")
@cluster_options
@click.option(
    "--node",
    default="",
    type=ObjectName("node"),
    metavar="NAME",
    help="Print only findings about this node.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="CHECK,...",
    help="Only these checks: ids, or the beginning of ids (NUMA-POD). May be repeated.",
)
@click.option(
    "--skip", multiple=True, metavar="CHECK,...", help="Not these checks. May be repeated."
)
@click.option(
    "--for",
    "purpose",
    default="",
    metavar="WHAT",
    help="Is the cluster ready for this? Only its checks, as for claims of CPUs: dra.",
)
@click.option("--list-checks", is_flag=True, help="List what is checked, and exit.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if something is wrong.")
@click.option(
    "-o",
    "--output",
    type=click.Choice([_TEXT, "wide", "json", "yaml"]),
    default=_TEXT,
    show_default=True,
    help="Output format.",
)
def command(
    cluster: ClusterOptions,
    node: str,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    purpose: str,
    output: str,
    *,
    list_checks: bool,
    exit_zero: bool,
) -> int:
    """Check everything that NUMA placement depends on, and say what to do.

    Checks kubelets, device plugins, NodeResourceTopology objects, exporters, schedulers, pods,
    clocks and rights. Exits with 1 if there are errors or warnings; notes do not count.
    """
    wanted, unwanted = _checks(only), _checks(skip)
    if list_checks:
        _print_checks()
        return 0
    from numakube.insight.doctor.all_checks import PURPOSES, diagnose
    from numakube.insight.doctor.findings import document_of

    if purpose and purpose not in PURPOSES:
        known = ", ".join(PURPOSES) or "nothing: the annexes that know are not installed"
        raise click.UsageError(f"There are no checks for {purpose}; there are for {known}.")
    facts = facts_for(cluster)
    if node and node not in facts.nodes:
        raise ConfigError(f"there is no node {node}")
    diagnosis = diagnose(facts, only=wanted, skip=unwanted, node=node, purpose=purpose)
    if output in ("json", "yaml"):
        print_document(document_of(diagnosis, taken_at=facts.taken_at), Output(output))
    else:
        _print(diagnosis, wide=output == "wide")
    return 0 if exit_zero or diagnosis.is_clean else 1


def _checks(words: tuple[str, ...]) -> tuple[str, ...]:
    from numakube.insight.doctor.all_checks import unknown_rules

    names = tuple(name for word in words for name in word.split(",") if name)
    unknown = unknown_rules(names)
    if unknown:
        raise click.UsageError(f"There is no check {unknown[0]}; see --list-checks.")
    return names


def _print_checks() -> None:
    from numakube.insight.doctor.all_checks import RULES

    width = max(len(rule.id) for rule in RULES)
    for rule in RULES:
        click.echo(f"{rule.id:{width}}  {rule.severity:7}  {rule.title}")


def _print(diagnosis: Diagnosis, *, wide: bool) -> None:
    from numakube.insight.doctor.findings import summary_of

    for entry in diagnosis.entries:
        _print_entry(entry, wide=wide)
        click.echo()
    click.echo(summary_of(diagnosis))


def _print_entry(entry: Entry, *, wide: bool) -> None:
    from numakube.insight.doctor.findings import remedies_of, seen_lines
    from numakube.values.safe_text import printable

    rule = entry.rule
    head = f"{rule.severity.upper()} {rule.id}"
    if not os.environ.get("NO_COLOR"):
        head = click.style(head, fg=_COLOURS[rule.severity], bold=True)
    click.echo(f"{head}  {rule.title}")
    for line in seen_lines(entry, wide=wide):
        _print_wrapped("", printable(line))
    _print_wrapped("why: ", rule.why)
    fix, others = remedies_of(entry)
    for place, line in enumerate(fix.split("\n")):
        click.echo(f"{_INDENT}{'fix: ' if not place else '     '}{printable(line)}")
    if others:
        click.echo(f"{_INDENT}     # and likewise for {others:,} more; -o json has each")


def _print_wrapped(label: str, text: str) -> None:
    width = (told_width() or _WIDTH) - len(_INDENT) - len(label)
    lines = textwrap.wrap(text, width, break_long_words=False)
    for place, line in enumerate(lines):
        click.echo(f"{_INDENT}{label if not place else ' ' * len(label)}{line}")
