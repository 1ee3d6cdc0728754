"""``numakube lab status``: what runs."""

from __future__ import annotations

import os
from typing import Any

import click

from numakube.cli.lab.options import ask_lab
from numakube.cli.output import Output, make_console, output_option, print_document


@click.command("status")
@click.option("--name", default=None, help="Show this lab in detail.")
@output_option(Output.TABLE, Output.JSON, Output.YAML)
def command(name: str | None, output: Output) -> None:
    """Show the labs that run, or one in detail."""
    from numakube.lab.rundir import running_labs

    names = [name] if name else [info.name for info in running_labs(os.environ)]
    labs = [ask_lab(one, "GET", "/status") for one in names]
    if output is not Output.TABLE:
        print_document(labs[0] if name else labs, output)
        return
    if not labs:
        click.echo("No lab is running; start one with: numakube lab up")
    for lab in labs:
        _print(lab)


def _print(lab: dict[str, Any]) -> None:
    from rich.table import Table

    click.echo(f"{lab['name']}: {lab['server']}, dashboard {lab['dashboard']}")
    click.echo(f"kubeconfig {lab['kubeconfig']}")
    table = Table(box=None, pad_edge=False)
    for title in ("NODE", "STATE", "POLICY", "SCOPE", "PODS", "EXCLUSIVE CPUS", "REJECTED"):
        table.add_column(title)
    for node in lab["nodes"]:
        table.add_row(
            node["name"],
            node["state"],
            node["policy"],
            node["scope"],
            str(node["pods"]),
            f"{node['exclusiveCpus']} of {node['allocatableCpus']}",
            str(node["rejected"]),
        )
    make_console().print(table)
