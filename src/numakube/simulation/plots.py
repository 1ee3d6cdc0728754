"""Plots of simulations as SVG, drawn by Matplotlib; equal results give equal pictures."""

from __future__ import annotations

import io
import re
import textwrap
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numakube.simulation.run_result import Moment
    from numakube.simulation.seed_summary import Estimate, Summary

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
    lines = sum(_folded(one.arm).count("\n") for one in summaries)
    figure, axes = _figure(0.6 + _BAR * len(summaries) + _LEGEND_LINE * lines)
    places = list(range(len(found)))
    axes.barh(
        places,
        [one.mean for one in found],
        xerr=[one.half_width or 0.0 for one in found],
        color=[_colour(place) for place in places],
        error_kw={"capsize": 3},
    )
    axes.set_yticks(places, [_folded(one.arm) for one in summaries])
    axes.invert_yaxis()
    axes.set_xlim(left=0, right=most)
    axes.grid(visible=False, axis="y")
    return _svg(figure)


def courses(summaries: Sequence[Summary], of: Callable[[Moment], float], label: str) -> str:
    """Return how a value went in the first run of every arm."""
    figure, axes = _figure(3.2)
    longest = max(one.runs[0].moments[-1].at for one in summaries)
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
