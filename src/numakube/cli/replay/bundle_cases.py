"""``numakube replay bundle``: decide again about the waiting pods of a bundle."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from numakube.cli.shared.cluster_options import ClusterOptions, facts_for

if TYPE_CHECKING:
    from numakube.insight.bundle_replay import Redecision


@click.command("bundle")
@click.argument("file")
@click.option("--check", is_flag=True, help="Compare with what the scheduler said about the pods.")
def command(file: str, *, check: bool) -> int:
    """Decide again about every waiting pod of a bundle.

    FILE is what `numakube bundle` wrote. The scheduler's own words are those of the condition
    PodScheduled; pods that it never refused are not compared.
    """
    from numakube.insight.bundle_replay import redecide
    from numakube.insight.scheduler_engine import engine_of

    facts = facts_for(ClusterOptions(bundle=file))
    decisions = list(redecide(facts, engine_of(facts)))
    if not check:
        for one in decisions:
            click.echo(json.dumps({"pod": one.pod, "node": one.node, "message": one.message}))
        return 0
    compared = [one for one in decisions if one.recorded]
    failed = [one for one in compared if not one.agrees]
    for one in failed:
        _print_difference(one)
    click.echo(f"{len(compared) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


def _print_difference(one: Redecision) -> None:
    now = f"fits on {one.node}" if one.node else one.message
    click.echo(f"{one.pod}\n  scheduler: {one.recorded}\n  now:       {now}")
