"""``numakube replay exporter``: what the Resource Topology Exporter published for a machine.

A case that shows a defect or a choice of RTE carries ``q:`` tags. On some of them we differ on
purpose (docs/reference/exporter.md): such a case passes if the differences are those alone, which
is so if we agree once we count as RTE does. These cases are counted apart.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import click

from numakube_conformance.case_loop import (
    EXPLAINED_CASES,
    LINES_OF_A_CASE,
    BadInput,
    RecordingFormat,
    differences,
    print_answers,
    read_cases,
    with_progress,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numakube_conformance.case_loop import Case

ON_PURPOSE: Final = (
    "q:used-memory-several-numa",
    "q:alloc-memory-several-numa",
    "q:alloc-duplicate-cpu",
    "q:other-hugepage-size",
)
REQUIRED: Final = ("id", "machine", "allocatable", "list", "kubelet", "options")


@click.command("exporter", help="Answer recorded scans of a node with our exporter.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--check", is_flag=True, help="Compare with the recorded answers.")
@click.option(
    "--accounting",
    type=click.Choice(("kubelet", "rte")),
    default="kubelet",
    show_default=True,
    help="Count as the kubelet does, or as RTE does.",
)
@click.pass_context
def command(ctx: click.Context, file: str, *, check: bool, accounting: str) -> None:
    """Answer or check the cases of *file*."""
    cases = with_progress(read_cases(file), file)
    if not check:
        print_answers(_format(accounting), cases)
    elif _print_check(cases, accounting):
        ctx.exit(1)


def _format(accounting: str) -> RecordingFormat:
    from numakube.apps.exporter.report_options import Accounting
    from numakube_conformance.exporter_replay import answer

    way = Accounting(accounting)
    return RecordingFormat(
        answer=lambda row: answer(row, accounting=way), recorded=_recorded, required=REQUIRED
    )


def _recorded(row: dict[str, Any]) -> dict[str, Any]:
    return {key: row[key] for key in row if key == "id" or key.startswith("expected")}


def _print_check(cases: Iterable[Case], accounting: str) -> int:
    """Print where our answers differ and the totals; return how many cases failed."""
    passed = failed = on_purpose = 0
    differing: Counter[str] = Counter()
    for case in cases:
        problems = list(_problems(case, accounting))
        tags = [tag for tag in ON_PURPOSE if tag in case.row.get("tags", ())]
        if problems and tags and not any(_problems(case, "rte")):
            on_purpose += 1
            differing.update(tags)
        elif problems:
            failed += 1
            _print_problems(case, problems if failed <= EXPLAINED_CASES else [])
            continue
        passed += 1
    if on_purpose:
        click.echo(f"{on_purpose} of the passed cases differ from RTE on purpose:")
        for tag, count in sorted(differing.items()):
            click.echo(f"    {tag}: {count}")
    click.echo(f"{passed} passed, {failed} failed")
    return failed


def _print_problems(case: Case, problems: list[str]) -> None:
    click.echo(f"{case.id}: differs")
    for line in problems[:LINES_OF_A_CASE]:
        click.echo(f"    {line}")
    if len(problems) > LINES_OF_A_CASE:
        click.echo(f"    and {len(problems) - LINES_OF_A_CASE} more")


def _problems(case: Case, accounting: str) -> Iterator[str]:
    from numakube_conformance.exporter_replay import unhandled

    for key in REQUIRED:
        if key not in case.row:
            raise BadInput(f"line {case.line}: there is no {key!r}")
    try:
        ours = _format(accounting).answer(case.row)
    except Exception as error:
        # One case that breaks us must not hide the others.
        yield f"our answer broke with {type(error).__name__}: {error}"
        return
    if "panic" in case.row:
        yield from unhandled(case.row, ours)
    else:
        yield from differences(_recorded(case.row), ours)
