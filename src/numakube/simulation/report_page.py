"""A report of a simulation as one HTML page that needs nothing else: a table, and plots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jinja2 import Environment

from numakube.simulation.plots import bars, courses, distribution

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numakube.simulation.run_result import Moment
    from numakube.simulation.seed_summary import Summary

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
    seeds = max(len(one.runs) for one in summaries)
    if seeds == 1:
        return "One run of each arm. Shares of resources are peaks."
    return (
        f"Means of {seeds} runs with 95 % confidence intervals. Shares of resources are peaks. "
        "Plots over time and over nodes show the first run."
    )


def _side_by_side(summaries: Sequence[Summary]) -> Iterator[tuple[str, str]]:
    for name, label in _BARS.items():
        if any(one.answers[name].mean for one in summaries):
            most = _ALL if name.endswith("Percent") else None
            yield label, bars(summaries, [one.answers[name] for one in summaries], most=most)
    for name in _resources(summaries):
        label = f"{name}: most that was allocated, in %"
        yield label, bars(summaries, [one.peak[name] for one in summaries], most=_ALL)


def _over_time(summaries: Sequence[Summary]) -> Iterator[tuple[str, str]]:
    for name in _resources(summaries):
        yield f"Allocation of {name}", courses(summaries, _share_of(name), f"{name} in %")
    counts: dict[str, tuple[Callable[[Moment], float], str]] = {
        "Rejections by kubelets": (lambda one: one.rejected, "pods so far"),
        "Pods that wait": (lambda one: one.waiting, "pods"),
    }
    for caption, (of, label) in counts.items():
        if any(of(moment) for one in summaries for moment in one.runs[0].moments):
            yield caption, courses(summaries, of, label)


def _over_nodes(summaries: Sequence[Summary]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield how pods are spread, unless all have ended."""
    if any(any(one.runs[0].pods_by_node) for one in summaries):
        yield "Over nodes", [("Pods on each node at the end", distribution(summaries))]


def _resources(summaries: Sequence[Summary]) -> list[str]:
    """Return the resources of which something was used."""
    names = dict.fromkeys(name for one in summaries for name in one.peak)
    used = [name for name in names if any(one.peak[name].mean for one in summaries)]
    return used[:_MOST_RESOURCES]


def _share_of(name: str) -> Callable[[Moment], float]:
    return lambda one: 100 * one.allocated.get(name, 0.0)
