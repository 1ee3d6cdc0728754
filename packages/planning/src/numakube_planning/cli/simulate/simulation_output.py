"""What ``numakube plan simulate`` prints: tables, plain data, or comma-separated values."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from numakube.cli.shared.output_option import Output, make_console, print_document, text_width
from numakube.cli.shared.terminal import column_lines
from numakube.values.display import counted
from numakube.values.safe_text import printable
from numakube.version import VERSION
from numakube_planning.simulation.report_page import headlines, legend, reasons
from numakube_planning.simulation.run_measures import (
    ANSWERS,
    Estimate,
    summaries_of,
    summary_document,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numakube_planning.simulation.compared_schedulers import Arm
    from numakube_planning.simulation.run_measures import RunResult, Summary
    from numakube_planning.simulation.simulator import PlannedRun

_TITLES: Final = {
    "pods": "PODS",
    "neverPlaced": "NEVER PLACED",
    "topologyErrorsPer1000": "ERRORS/1000",
    "firstRefusedPercent": "FIRST REFUSED %",
    "givenUp": "GIVEN UP",
    "evictions": "EVICTED",
    "secondsToRunP50": "P50 s",
    "secondsToRunP99": "P99 s",
    "alignedPercent": "ONE ZONE %",
}
_IF_ANY: Final = {"otherErrorsPer1000": "OTHERS/1000", "pairsTogetherPercent": "PAIRS %"}
"""What is shown if it concerns any arm."""
_AS_THEY_ARE: Final = "as they are"
_PIPED_WIDTH: Final = 120
_FEW_ARMS: Final = 5
"""So many arms fit side by side on a page."""


def print_results(runs: Sequence[PlannedRun], results: Sequence[RunResult], form: str) -> None:
    """Print the answers of all arms."""
    summaries = summaries_of(results)
    if form == "table":
        _print_table(summaries, runs)
    elif form == "markdown":
        click.echo("\n".join(_markdown(summaries, runs)))
    elif form == "csv":
        click.echo(_csv(results), nl=False)
    else:
        print_document(document_of(runs, summaries), Output(form))


def document_of(runs: Sequence[PlannedRun], summaries: Sequence[Summary]) -> dict[str, object]:
    """Return everything that was found out, and what it rests on."""
    return {
        "version": VERSION,
        "assumptions": asdict(runs[0].options),
        "notes": list(runs[0].workload.notes),
        "answers": list(headlines(summaries, _arms(runs))),
        "legend": list(legend(_arms(runs))),
        "arms": summary_document(summaries),
    }


def table_of(summaries: Sequence[Summary]) -> tuple[list[str], list[list[str]]]:
    """Return titles and rows with what people look at first."""
    others = (name for name in _IF_ANY if any(summary.answers[name].mean for summary in summaries))
    titles = _TITLES | {name: _IF_ANY[name] for name in others}
    resources = sorted({name for summary in summaries for name in summary.allocated})
    shown = [name for name in resources if any(_is_used(summary, name) for summary in summaries)]
    head = ["ARM", *titles.values(), *(f"{_short(name)} %" for name in shown)]
    stranded = sorted({name for summary in summaries for name in summary.stranded})
    head += [f"STRANDED {_short(name)} %" for name in stranded]
    rows = [
        [
            summary.arm,
            *(_text(summary.answers[name]) for name in titles),
            *(_text(summary.peak[name]) for name in shown),
            *(_text(summary.stranded.get(name, Estimate(0.0))) for name in stranded),
        ]
        for summary in summaries
    ]
    return head, rows


def _print_table(summaries: Sequence[Summary], runs: Sequence[PlannedRun]) -> None:
    answers = list(headlines(summaries, _arms(runs)))
    for line in (*answers, *([""] if answers else [])):
        click.echo(printable(line))
    titles, rows = table_of(summaries)
    lines = list(column_lines(titles, rows))
    if max(map(len, lines)) > text_width(make_console(), _PIPED_WIDTH):
        turned = list(column_lines(*turned_table(titles, rows)))
        lines = min(lines, turned, key=lambda one: max(map(len, one)))
    why = list(reasons(summaries))
    for line in (*lines, "", *why, *([""] if why else []), *_footer(runs)):
        click.echo(printable(line))


def turned_table(
    titles: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[list[str], list[list[str]]]:
    """Return a table with a column for each arm, for few arms of which much is told."""
    (head, *arms), *answers = (list(column) for column in zip(titles, *rows, strict=True))
    return ["" if head == "ARM" else head, *arms], answers


def _arms(runs: Sequence[PlannedRun]) -> dict[str, Arm]:
    return {run.arm.name: run.arm for run in runs}


def _markdown(summaries: Sequence[Summary], runs: Sequence[PlannedRun]) -> Iterator[str]:
    """Yield a table for each answer: kubelets from top to bottom, schedulers from left to right."""
    titles, rows = table_of(summaries)
    cells: dict[str, dict[str, list[str]]] = {}
    for arm, *answers in rows:
        scheduler, _, kubelets = arm.partition(", ")
        cells.setdefault(kubelets or _AS_THEY_ARE, {})[scheduler] = answers
    schedulers = list(dict.fromkeys(name for row in cells.values() for name in row))
    for index, title in enumerate(titles[1:]):
        yield f"{title}:\n"
        yield f"| kubelets | {' | '.join(schedulers)} |"
        yield "|---" * (len(schedulers) + 1) + "|"
        for kubelets, row in cells.items():
            found = (row[name][index] if name in row else "" for name in schedulers)
            yield f"| {kubelets} | {' | '.join(found)} |"
        yield ""
    yield from _footer(runs)


def write_report(file: Path, runs: Sequence[PlannedRun], results: Sequence[RunResult]) -> None:
    """Write a page with the table and plots; the file is whole or not there."""
    from numakube_planning.simulation.report_page import report_page

    summaries = summaries_of(results)
    nodes, pods = len(runs[0].cluster.nodes), results[0].pods
    table = table_of(summaries)
    page = report_page(
        summaries,
        title=f"{counted(pods, 'pod')} on {counted(nodes, 'node')}, simulated",
        answers=list(headlines(summaries, _arms(runs))),
        why=list(reasons(summaries)),
        table=turned_table(*table) if len(summaries) <= _FEW_ARMS else table,
        notes=[*_footer(runs)[1:], f"Made by numakube {VERSION}."],
    )
    unfinished = file.with_name(f".{file.name}.tmp")
    unfinished.write_text(page, encoding="utf-8")
    unfinished.replace(file)


def _footer(runs: Sequence[PlannedRun]) -> list[str]:
    options = asdict(runs[0].options)
    told = ", ".join(f"{name} {value:g}" for name, value in options.items() if value is not None)
    seeds = len({run.seed for run in runs})
    mean = f"; means of {seeds} seeds with 95 % confidence intervals" if seeds > 1 else ""
    notes = [*legend(_arms(runs)), *runs[0].workload.notes]
    return [f"Shares of resources are peaks{mean}.", f"Assumed: {told}.", *notes]


def _is_used(one: Summary, name: str) -> bool:
    return one.peak[name].mean > 0


def _short(name: str) -> str:
    return name.rpartition("/")[2].upper()


def _text(one: Estimate) -> str:
    mean = _number(one.mean)
    return f"{mean} ± {_number(one.half_width)}" if one.half_width else mean


def _number(value: float) -> str:
    """Return a number with as many digits as anybody reads."""
    if value == int(value):
        return str(int(value))
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def _csv(results: Sequence[RunResult]) -> str:
    """Return one line for each run."""
    groups = {"allocated": "allocated", "peak": "peak_allocated", "stranded": "stranded"}
    names = {
        title: sorted({name for result in results for name in getattr(result, field)})
        for title, field in groups.items()
    }
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    more = [f"{title} {name}" for title, found in names.items() for name in found]
    writer.writerow(["arm", "seed", *ANSWERS, *more])
    for result in results:
        cells = [of(result) for of in ANSWERS.values()]
        shares = [
            _share(getattr(result, groups[title]), name)
            for title, found in names.items()
            for name in found
        ]
        writer.writerow([result.arm, result.seed, *(round(cell, 6) for cell in cells), *shares])
    return out.getvalue()


def _share(shares: Mapping[str, float], name: str) -> float:
    return shares.get(name, 0.0)
