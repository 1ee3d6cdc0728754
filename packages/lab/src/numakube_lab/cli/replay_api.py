"""``numakube replay api``: replay recorded kube-apiserver answers against the lab."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from numakube_lab.replay.recorded_cases import read_cases
from numakube_lab.replay.run_case import replay, table, tally

if TYPE_CHECKING:
    from numakube_lab.replay.run_case import CaseOutcome


@click.command("api")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--check", is_flag=True, help="End with a table and fail if a case failed.")
@click.option("--topic", "topics", multiple=True, help="Only cases of this topic.")
@click.option("--case", "names", multiple=True, help="Only the case with this id.")
@click.option("--server", help="Address of a running server; without, each case gets a fresh one.")
@click.option(
    "--ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Certificates to trust an https server by.",
)
def replay_api(
    file: Path,
    *,
    check: bool,
    topics: tuple[str, ...],
    names: tuple[str, ...],
    server: str | None,
    ca: Path | None,
) -> None:
    """Send the requests recorded in FILE and compare the answers."""
    cases = [
        case
        for case in read_cases(file)
        if (not topics or case.topic in topics) and (not names or case.id in names)
    ]

    async def run() -> list[CaseOutcome]:
        outcomes = []
        async for outcome in replay(cases, server, ca=ca):
            click.echo(line(outcome))
            outcomes.append(outcome)
        return outcomes

    outcomes = asyncio.run(run())
    failed = sum(1 for outcome in outcomes if outcome.failures)
    if check:
        click.echo(table(tally(outcomes)))
        click.echo(f"{len(outcomes) - failed} passed, {failed} failed")
    if check and failed:
        raise SystemExit(1)


def line(outcome: CaseOutcome) -> str:
    """Return the line that tells what became of a case."""
    if not outcome.failures:
        return f"ok   {outcome.id}"
    return f"FAIL {outcome.id}\n" + "\n".join(f"       {text}" for text in outcome.failures[:12])


if __name__ == "__main__":
    replay_api()
