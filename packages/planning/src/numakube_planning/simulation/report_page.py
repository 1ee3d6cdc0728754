"""A report of a simulation as one HTML page that needs nothing else: a table, and plots.

What came out of a simulation, in sentences that need no table.

Of 30 pods, 12 never run as it is; with 10 more nodes like node-0, all run.

Plots of simulations as SVG, drawn by Matplotlib; equal results give equal pictures.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
from jinja2 import Environment
from matplotlib.figure import Figure

from numakube.values.display import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numakube_planning.simulation.compared_schedulers import Arm
    from numakube_planning.simulation.run_measures import Estimate, Moment, Summary

_MOST_ARMS: Final = 8
_MOST_REASONS: Final = 3


def headlines(summaries: Sequence[Summary], arms: Mapping[str, Arm]) -> Iterator[str]:
    """Yield what became of the pods: of what-ifs beside the cluster as it is, of others by name.

    *arms* are those of the *summaries*, by name.
    """
    by_name = {summary.arm: summary for summary in summaries}
    changed = [summary for summary in summaries if arms[summary.arm].what_if is not None]
    for summary in changed:
        what_if = arms[summary.arm].what_if
        if what_if is not None and what_if.base in by_name:
            prefix = f"{what_if.base}: " if len(changed) > 1 else ""
            told = _compared(by_name[what_if.base], summary, what_if.sentence)
            yield f"{prefix}{told}{_of_runs(summary)}."
    if not changed and 1 < len(summaries) <= _MOST_ARMS:
        told = "; ".join(f"{summary.arm}: {_fate(summary)}" for summary in summaries)
        yield f"{told}{_of_runs(summaries[0])}."
    elif not changed and len(summaries) == 1:
        fate = _fate(summaries[0])
        yield f"{fate[:1].upper()}{fate[1:]}{_of_runs(summaries[0])}."


def legend(arms: Mapping[str, Arm]) -> Iterator[str]:
    """Yield what the names of arms mean that do not say everything."""
    for name, arm in arms.items():
        if arm.what_if is not None and name != f"{arm.what_if.base}, {arm.what_if.text}":
            yield f"{name}: {arm.what_if.text}"


def reasons(summaries: Sequence[Summary]) -> Iterator[str]:
    """Yield why pods never ran, the reason of most pods first, in the first run of each arm."""
    for summary in summaries:
        found = Counter(summary.runs[0].unplaced).most_common(_MOST_REASONS)
        for why, count in found:
            said = why.partition(". preemption: ")[0]
            yield f"{summary.arm}: {counted(count, 'pod')} never placed: {said}"


def _compared(before: Summary, after: Summary, sentence: str) -> str:
    pods, never = _pods(before), _never(before)
    if not pods and not _pods(after):
        return f"No pod comes, and none has to move {sentence}"
    begun = "No pod waits as it is"
    if 0 < never < pods:
        begun = f"Of {counted(pods, 'pod')}, {_amount(never)} never {_run(never)} as it is"
    elif pods:
        fate = _fate(before)
        begun = f"{fate[:1].upper()}{fate[1:]} as it is"
    then = _then(_never(after), pods) if _pods(after) == pods else _fate(after)
    return f"{begun}; {sentence}, {then}"


def _of_runs(one: Summary) -> str:
    return f" (means of {len(one.runs)} runs)" if len(one.runs) > 1 else ""


def _then(never: float, pods: float) -> str:
    if not never:
        return "it runs" if pods == 1 else "all run"
    if never == pods:
        return "it does not" if pods == 1 else "none does"
    return f"{_amount(never)} never {_run(never)}"


def _fate(one: Summary) -> str:
    pods, never = _pods(one), _never(one)
    if not never:
        return _all(pods)
    if never == pods:
        return "the pod never runs" if pods == 1 else f"none of {_amount(pods)} pods ever runs"
    return f"{_amount(never)} of {counted(pods, 'pod')} never {_run(never)}"


def _all(pods: float) -> str:
    return "the pod runs" if pods == 1 else f"all {_amount(pods)} pods run"


def _run(count: float) -> str:
    return "runs" if count == 1 else "run"


def _pods(one: Summary) -> float:
    return _rounded(one.answers["pods"].mean)


def _never(one: Summary) -> float:
    return _rounded(one.answers["neverPlaced"].mean)


def _rounded(value: float) -> float:
    return int(value) if value == int(value) else round(value, 1)


def _amount(value: float) -> str:
    return f"{value:,}"


_COLOURS: Final = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000",
)  # fmt: skip
"""Those that people tell apart who see fewer colours (Okabe and Ito)."""
_STYLES: Final = ("-", "--", "-.", ":")
_SETTINGS: Final = {
    "svg.fonttype": "none",
    "svg.hashsalt": "numakube",
    "font.family": ["sans-serif"],
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
}
_WIDTH: Final = 6.4
_BAR: Final = 0.32
_HOUR: Final = 3600.0
_FEW: Final = 8
_LEGEND_LINE: Final = 0.19
_NAME_WIDTH: Final = 30
_THIN: Final = 1.4
_WIDER: Final = 1.2
"""By how much each line is wider than the next one."""


def bars(
    summaries: Sequence[Summary], found: Sequence[Estimate], *, most: float | None = None
) -> str:
    """Return one answer, *found* for every arm, side by side with their confidence intervals.

    The axis ends at *most*.
    """
    lines = sum(_folded(summary.arm).count("\n") for summary in summaries)
    figure, axes = _figure(0.6 + _BAR * len(summaries) + _LEGEND_LINE * lines)
    places = list(range(len(found)))
    axes.barh(
        places,
        [estimate.mean for estimate in found],
        xerr=[estimate.half_width or 0.0 for estimate in found],
        color=[_colour(place) for place in places],
        error_kw={"capsize": 3},
    )
    axes.set_yticks(places, [_folded(summary.arm) for summary in summaries])
    axes.invert_yaxis()
    axes.set_xlim(left=0, right=most)
    axes.grid(visible=False, axis="y")
    return _svg(figure)


def courses(summaries: Sequence[Summary], of: Callable[[Moment], float], label: str) -> str:
    """Return how a value went in the first run of every arm."""
    figure, axes = _figure(3.2)
    longest = max(summary.runs[0].moments[-1].at for summary in summaries)
    unit, name = (_HOUR, "hours") if longest > 2 * _HOUR else (1.0, "seconds")
    for place, one in enumerate(summaries):
        moments = one.runs[0].moments
        axes.plot(
            [moment.at / unit for moment in moments],
            [of(moment) for moment in moments],
            drawstyle="steps-post",
            **_line(place, one.arm, len(summaries)),
        )
    axes.set_ylim(bottom=0)
    axes.set_xlabel(name)
    axes.set_ylabel(label)
    _legend(figure, axes, len(summaries))
    return _svg(figure)


def distribution(summaries: Sequence[Summary]) -> str:
    """Return how many pods nodes had at the end of the first run of every arm, fullest first."""
    figure, axes = _figure(3.2)
    for place, one in enumerate(summaries):
        counts = sorted(one.runs[0].pods_by_node, reverse=True)
        shares = [100 * (index + 0.5) / len(counts) for index in range(len(counts))]
        axes.plot(shares, counts, drawstyle="steps-mid", **_line(place, one.arm, len(summaries)))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("nodes in %, fullest first")
    axes.set_ylabel("pods at the end")
    _legend(figure, axes, len(summaries))
    return _svg(figure)


def _figure(height: float) -> tuple[Figure, Any]:
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        return figure, figure.add_subplot()


def _colour(place: int) -> str:
    return _COLOURS[place % len(_COLOURS)]


def _line(place: int, label: str, count: int) -> dict[str, Any]:
    """Return how a line is drawn: those before are wider, so that equal ones show all of them."""
    style = _STYLES[place // len(_COLOURS) % len(_STYLES)]
    width = _THIN + _WIDER * max(0, min(count, len(_COLOURS)) - 1 - place)
    return {
        "color": _colour(place),
        "linestyle": style,
        "label": _folded(label),
        "linewidth": width,
    }


def _folded(name: str) -> str:
    """Return the name of an arm in lines that leave room for what is drawn."""
    return "\n".join(textwrap.wrap(name, _NAME_WIDTH)) or name


def _legend(figure: Figure, axes: Any, count: int) -> None:  # noqa: ANN401 - Matplotlib's
    """Name the lines: beside them, or below where there are too many."""
    if count > _FEW:
        figure.set_figheight(figure.get_figheight() + _LEGEND_LINE * count)
        figure.legend(loc="outside lower left", fontsize=8, frameon=False)
    elif count > 1:
        axes.legend(fontsize=8, frameon=False)


def _svg(figure: Figure) -> str:
    """Return the picture as an element that takes the width that there is."""
    out = io.StringIO()
    with mpl.rc_context(_SETTINGS):
        figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    head, rest = text.split(">", 1)
    head = re.sub(r'\s(width|height)="[^"]*"', "", head)
    return f'{head} role="img">{rest}'


_MOST_RESOURCES: Final = 4
_ALL: Final = 100.0
_BARS: Final = {
    "topologyErrorsPer1000": "TopologyAffinityErrors per 1,000 bound pods",
    "neverPlaced": "pods never placed",
    "secondsToRunP99": "seconds to run, 99th percentile",
    "alignedPercent": "pods on one NUMA node in %",
}
_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
:root { font: 16px/1.5 system-ui, sans-serif; color: #1b1f24; background: #fff; }
body { max-width: 72rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; line-height: 1.2; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; text-align: right; border-bottom: 1px solid #d0d7de; }
td { white-space: nowrap; } th { max-width: 9rem; overflow-wrap: break-word; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; }
th:first-child, td:first-child { background: #fff; }
td:first-child { white-space: normal; min-width: 6rem; overflow-wrap: anywhere; }
.answer { font-size: 1.15rem; }
thead th { border-bottom-width: 2px; vertical-align: bottom; }
.plots { display: grid; gap: 1rem; }
.plots { grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
figure { margin: 0; break-inside: avoid; max-width: 36rem; }
figure svg { width: 100%; height: auto; }
figcaption { font-size: .875rem; font-weight: 600; }
ul { padding-left: 1.2rem; } code { font-size: .875rem; overflow-wrap: anywhere; }
@media print {
  :root { font-size: 11px; } body { max-width: none; padding: 0; } .wide { overflow: visible; }
  th, td { white-space: normal; } .plots { grid-template-columns: 1fr 1fr; }
}
</style>
</head>
<body>
<h1>{{ title }}</h1>
{% for one in answers %}<p class="answer">{{ one }}</p>
{% endfor %}<div class="wide"><table>
<thead><tr>{% for cell in head %}<th scope="col">{{ cell }}</th>{% endfor %}</tr></thead>
<tbody>{% for row in rows %}
<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>{% endfor %}
</tbody></table></div>
<p>{{ reading }}</p>
{% if why %}<h2>Why pods are never placed</h2>
<ul>{% for one in why %}<li>{{ one }}</li>{% endfor %}</ul>
{% endif %}{% for heading, figures in sections %}<h2>{{ heading }}</h2>
<div class="plots">{% for caption, svg in figures %}
<figure><figcaption>{{ caption }}</figcaption>{{ svg | safe }}</figure>{% endfor %}
</div>
{% endfor %}<h2>What this rests on</h2>
<ul>{% for note in notes %}<li>{{ note }}</li>{% endfor %}</ul>
</body>
</html>
"""


def report_page(
    summaries: Sequence[Summary],
    *,
    title: str,
    answers: Sequence[str] = (),
    why: Sequence[str] = (),
    table: tuple[Sequence[str], Sequence[Sequence[str]]],
    notes: Sequence[str],
) -> str:
    """Return the page.

    Args:
        summaries: what was found out.
        title: what it is about.
        answers: what came out, in sentences.
        why: why pods were never placed.
        table: titles of columns, and rows.
        notes: assumptions, command and version.
    """
    head, rows = table
    environment = Environment(autoescape=True, trim_blocks=False)
    return environment.from_string(_PAGE).render(
        title=title,
        answers=answers,
        why=why,
        head=head,
        rows=rows,
        reading=_reading(summaries),
        sections=[
            ("Arms side by side", list(_side_by_side(summaries))),
            ("Over time", list(_over_time(summaries))),
            *_over_nodes(summaries),
        ],
        notes=notes,
    )


def _reading(summaries: Sequence[Summary]) -> str:
    seeds = max(len(summary.runs) for summary in summaries)
    if seeds == 1:
        return "One run of each arm. Shares of resources are peaks."
    return (
        f"Means of {seeds} runs with 95 % confidence intervals. Shares of resources are peaks. "
        "Plots over time and over nodes show the first run."
    )


def _side_by_side(summaries: Sequence[Summary]) -> Iterator[tuple[str, str]]:
    for name, label in _BARS.items():
        if any(summary.answers[name].mean for summary in summaries):
            most = _ALL if name.endswith("Percent") else None
            yield (
                label,
                bars(summaries, [summary.answers[name] for summary in summaries], most=most),
            )
    for name in _resources(summaries):
        label = f"{name}: most that was allocated, in %"
        yield label, bars(summaries, [summary.peak[name] for summary in summaries], most=_ALL)


def _over_time(summaries: Sequence[Summary]) -> Iterator[tuple[str, str]]:
    for name in _resources(summaries):
        yield f"Allocation of {name}", courses(summaries, _share_of(name), f"{name} in %")
    counts: dict[str, tuple[Callable[[Moment], float], str]] = {
        "Rejections by kubelets": (lambda one: one.rejected, "pods so far"),
        "Pods that wait": (lambda one: one.waiting, "pods"),
    }
    for caption, (of, label) in counts.items():
        if any(of(moment) for summary in summaries for moment in summary.runs[0].moments):
            yield caption, courses(summaries, of, label)


def _over_nodes(summaries: Sequence[Summary]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield how pods are spread, unless all have ended."""
    if any(any(summary.runs[0].pods_by_node) for summary in summaries):
        yield "Over nodes", [("Pods on each node at the end", distribution(summaries))]


def _resources(summaries: Sequence[Summary]) -> list[str]:
    """Return the resources of which something was used."""
    names = dict.fromkeys(name for summary in summaries for name in summary.peak)
    used = [name for name in names if any(summary.peak[name].mean for summary in summaries)]
    return used[:_MOST_RESOURCES]


def _share_of(name: str) -> Callable[[Moment], float]:
    return lambda one: 100 * one.allocated.get(name, 0.0)
