"""``numakube lab status``: what runs."""

from __future__ import annotations

import os
from typing import Any

import click

from numakube.cli.shared.output_option import Output, make_console, output_option, print_document
from numakube.errors import NumakubeError
from numakube_lab.cli.lab.background import ask_lab


@click.command("status")
@click.option("--name", default=None, help="Show this lab in detail.")
@output_option(Output.TABLE, Output.JSON, Output.YAML)
def command(name: str | None, output: Output) -> None:
    """Show the labs that run, or one in detail."""
    from numakube_lab.run_folder import labs_here

    labs = [_ask(name)] if name else [_ask_kindly(lab) for lab in labs_here(os.environ)]
    if output is not Output.TABLE:
        print_document(labs[0] if name else labs, output)
        return
    if not labs:
        click.echo("No lab is running; start one with: numakube lab up")
    for lab in labs:
        _print(lab)


def _ask(name: str) -> dict[str, Any]:
    return ask_lab(name, "GET", "/status")


def _ask_kindly(name: str) -> dict[str, Any]:
    """Return the status of one among several: the others are shown even if it does not answer."""
    try:
        return _ask(name)
    except NumakubeError as error:
        return {"name": name, "error": str(error)}


def _print(lab: dict[str, Any]) -> None:
    from rich.table import Table

    if "error" in lab:
        click.echo(f"{lab['name']}: {lab['error']}")
        return
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
