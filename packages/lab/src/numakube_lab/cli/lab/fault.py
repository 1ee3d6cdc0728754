"""``numakube lab fault``: faults to order."""

from __future__ import annotations

from typing import Any

import click

from numakube.cli.lazy_commands import LazyGroup
from numakube.cli.shared import ObjectName
from numakube.cli.shared.output_option import Output, output_option, print_document
from numakube_lab.cli.lab.background import ask_lab, name_option


@click.group("fault", cls=LazyGroup)
def command() -> None:
    """Make requests to a running lab fail, lag or break off, and exporters hang or report wrongly.

    Rules apply to requests over HTTP that match --method and --path (a regular expression that
    the path and query must contain), to a --share of them, --times times or until cleared.
    """


def _rule_options(function: Any) -> Any:  # noqa: ANN401 - decorates any click command
    for option in (
        click.option("--times", type=click.IntRange(1), help="Apply so often, then lift the rule."),
        click.option("--share", type=click.FloatRange(0, 1), default=1.0, show_default=True),
        click.option("--path", default="", help="Only paths with a match of this expression."),
        click.option("--method", "methods", multiple=True, help="Only this method; repeatable."),
        name_option,
    ):
        function = option(function)
    return function


def _add(name: str, rule: dict[str, Any]) -> None:
    click.echo(f"fault {ask_lab(name, 'POST', '/faults', rule)['number']} is in force")


@command.command("fail")
@_rule_options
@click.option("--code", type=click.IntRange(400, 599), default=500, show_default=True)
def fail(name: str, code: int, **rule: Any) -> None:  # noqa: ANN401 - passed on
    """Answer with an error."""
    _add(name, {"kind": "fail", "code": code, **rule})


@command.command("delay")
@_rule_options
@click.argument("seconds", type=click.FloatRange(0, 600))
def delay(name: str, seconds: float, **rule: Any) -> None:  # noqa: ANN401 - passed on
    """Answer SECONDS later."""
    _add(name, {"kind": "delay", "seconds": seconds, **rule})


@command.command("drop")
@_rule_options
def drop(name: str, **rule: Any) -> None:  # noqa: ANN401 - passed on
    """Break off the connection."""
    _add(name, {"kind": "drop", **rule})


@command.command("list")
@name_option
@output_option(Output.YAML, Output.JSON)
def list_faults(name: str, output: Output) -> None:
    """Show the faults in force."""
    print_document(ask_lab(name, "GET", "/faults"), output)


@command.command("clear")
@name_option
def clear(name: str) -> None:
    """Lift all faults."""
    ask_lab(name, "DELETE", "/faults")
    click.echo("no faults are in force")


@command.command("freeze-exporter")
@name_option
@click.argument("nodes", nargs=-1, required=True, type=ObjectName("node"), metavar="NODE...")
def freeze_exporter(name: str, nodes: tuple[str, ...]) -> None:
    """Let the exporters of some nodes hang, so that their reports grow old.

    `lab fault clear` lets them continue, `lab fault thaw-exporter` only some of them.
    """
    ask_lab(name, "POST", "/exporters", {"action": "freeze", "nodes": nodes})
    click.echo(f"frozen: {', '.join(nodes)}")


@command.command("thaw-exporter")
@name_option
@click.argument("nodes", nargs=-1, required=True, type=ObjectName("node"), metavar="NODE...")
def thaw_exporter(name: str, nodes: tuple[str, ...]) -> None:
    """Let the exporters of some nodes continue."""
    ask_lab(name, "POST", "/exporters", {"action": "thaw", "nodes": nodes})
    click.echo(f"thawed: {', '.join(nodes)}")


@command.command("skew-reports")
@name_option
@click.argument("nodes", nargs=-1, required=True, type=ObjectName("node"), metavar="NODE...")
@click.option(
    "--amount",
    "amounts",
    multiple=True,
    metavar="RESOURCE=QUANTITY",
    help="Report this much more as available, or less, as in cpu=-2; repeatable.",
)
@click.option("--zone", default="", help="Only in this zone, such as node-0.")
@click.option("--delay", type=click.FloatRange(0, 600), default=0.0, help="Seconds to be late.")
def skew_reports(
    name: str, nodes: tuple[str, ...], amounts: tuple[str, ...], zone: str, delay: float
) -> None:
    """Let the exporters of some nodes report wrong amounts, or report late.

    Without --amount and --delay they report correctly again.
    """
    pairs = [amount.partition("=") for amount in amounts]
    if wrong := [resource for resource, equals, _ in pairs if not equals]:
        raise click.UsageError(f"--amount {wrong[0]}: write RESOURCE=QUANTITY.")
    skew = {
        "amounts": {resource: quantity for resource, _, quantity in pairs},
        "zone": zone,
        "delay": delay,
    }
    ask_lab(name, "POST", "/exporters", {"action": "skew", "nodes": nodes, **skew})
    click.echo(f"{'skewed' if amounts or delay else 'straight'}: {', '.join(nodes)}")


@command.command("drop-watches")
@name_option
def drop_watches(name: str) -> None:
    """Break off all watches."""
    ask_lab(name, "POST", "/watches/drop")
    click.echo("all watches are broken off")


@command.command("expire-history")
@name_option
def expire_history(name: str) -> None:
    """Make every older resourceVersion and continue token expire (410)."""
    ask_lab(name, "POST", "/history/expire")
    click.echo("history is expired")
