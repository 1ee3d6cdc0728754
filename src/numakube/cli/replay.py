"""``numakube replay``: compares our answers with recorded ones.

Each format is a command and a line in `FORMATS`. The heart replays bundles, annexes recordings.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import click

from numakube.annexes import Group, annexes
from numakube.cli.lazy_commands import AnyEntry, Lazy, LazyGroup, OfAnnex
from numakube.cli.shared.cluster_options import facts_for
from numakube.cli.shared.connection_options import ClusterOptions

if TYPE_CHECKING:
    from numakube.insight.bundle_replay import Redecision

_OWN: Final[dict[str, AnyEntry]] = {
    "bundle": Lazy(__name__, "Waiting pods of a bundle, decided again.", "bundle"),
}
_OTHERS: Final = {
    added.name: OfAnnex(Group.REPLAYS, added.name, added.summary)
    for annex in annexes()
    for added in annex.replays
}
FORMATS: Final[dict[str, AnyEntry]] = dict(sorted({**_OWN, **_OTHERS}.items()))


@click.group("replay", cls=LazyGroup, lazy=FORMATS)
def command() -> None:
    """Answer recorded cases and compare with the recording.

    FILE has one JSON object per line and may be compressed with gzip; - is standard input. Prints
    one answer per line in the shape of the recorded one. --check prints only the differences and,
    as the last line, "N passed, M failed"; the exit code is 1 if any failed.
    """


@click.command("bundle")
@click.argument("file")
@click.option("--check", is_flag=True, help="Compare with what the scheduler said about the pods.")
def bundle(file: str, *, check: bool) -> int:
    """Decide again about every waiting pod of a bundle.

    FILE is what `numakube bundle` wrote. The scheduler's own words are those of the condition
    PodScheduled; pods that it never refused are not compared.
    """
    from numakube.insight.bundle_replay import redecide
    from numakube.insight.scheduler_engine import engine_of

    facts = facts_for(ClusterOptions(bundle=file))
    decisions = list(redecide(facts, engine_of(facts)))
    if not check:
        for decision in decisions:
            click.echo(
                json.dumps(
                    {"pod": decision.pod, "node": decision.node, "message": decision.message}
                )
            )
        return 0
    compared = [decision for decision in decisions if decision.recorded]
    failed = [redecision for redecision in compared if not redecision.agrees]
    for redecision in failed:
        _print_difference(redecision)
    click.echo(f"{len(compared) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


def _print_difference(one: Redecision) -> None:
    now = f"fits on {one.node}" if one.node else one.message
    click.echo(f"{one.pod}\n  scheduler: {one.recorded}\n  now:       {now}")
