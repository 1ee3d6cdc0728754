"""Panels of a Grafana dashboard, and how they are laid out on its grid of 24 columns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS: Final = 24
_HEIGHT: Final = 8
_SMALL: Final = 4


class Form(StrEnum):
    """How a panel draws."""

    LINES = "timeseries"
    FIGURE = "stat"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Series:
    """One expression and the template of its legend."""

    expression: str
    legend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel.

    Attributes:
        unit: Grafana's name of the unit: ``short``, ``s``, ``bytes``, ``percentunit``, ``ops``.
        about: what a reader should know to judge the graph.
        bad_from: from which value on a figure is red.
        stacked: whether series are put on top of each other.
    """

    title: str
    series: tuple[Series, ...]
    about: str
    form: Form = Form.LINES
    unit: str = "short"
    width: int = 8
    bad_from: float | None = None
    stacked: bool = False

    @property
    def height(self) -> int:
        """How many rows of the grid it takes."""
        return _SMALL if self.form is Form.FIGURE else _HEIGHT

    def model(self, number: int, *, column: int, row: int) -> dict[str, Any]:
        """Return the panel as Grafana stores it."""
        return {
            "id": number,
            "type": self.form.value,
            "title": self.title,
            "description": self.about,
            "datasource": DATASOURCE,
            "gridPos": {"h": self.height, "w": self.width, "x": column, "y": row},
            "fieldConfig": {"defaults": self._defaults(), "overrides": []},
            "options": self._options(),
            "targets": [self._target(place, one) for place, one in enumerate(self.series)],
        }

    def _target(self, place: int, series: Series) -> dict[str, Any]:
        return {
            "refId": chr(ord("A") + place),
            "datasource": DATASOURCE,
            "expr": series.expression,
            "legendFormat": series.legend or "__auto",
            "instant": self.form is not Form.LINES,
            "range": self.form is Form.LINES,
            "format": "table" if self.form is Form.TABLE else "time_series",
        }

    def _defaults(self) -> dict[str, Any]:
        steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
        if self.bad_from is not None:
            steps.append({"color": "red", "value": self.bad_from})
        custom = {"stacking": {"mode": "normal" if self.stacked else "none"}, "fillOpacity": 10}
        return {
            "unit": self.unit,
            "min": 0,
            "thresholds": {"mode": "absolute", "steps": steps},
            **({"custom": custom} if self.form is Form.LINES else {}),
        }

    def _options(self) -> dict[str, Any]:
        if self.form is Form.LINES:
            return {
                "legend": {"displayMode": "list", "placement": "bottom"},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }
        if self.form is Form.FIGURE:
            return {"colorMode": "value", "reduceOptions": {"calcs": ["lastNotNull"]}}
        return {"showHeader": True}


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: tuple[Panel, ...]


def laid_out(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the panels of *rows*, from left to right and from top to bottom."""
    models: list[dict[str, Any]] = []
    below = 0
    for row in rows:
        models.append(_heading(len(models) + 1, row.title, below))
        below = _place(models, row.panels, below + 1)
    return models


def _place(models: list[dict[str, Any]], panels: tuple[Panel, ...], top: int) -> int:
    """Add *panels* from the grid row *top* on; return the first free grid row below them."""
    column, bottom = 0, top
    for panel in panels:
        if column + panel.width > _COLUMNS:
            column, top = 0, bottom
        models.append(panel.model(len(models) + 1, column=column, row=top))
        column += panel.width
        bottom = max(bottom, top + panel.height)
    return bottom


def _heading(number: int, title: str, row: int) -> dict[str, Any]:
    return {
        "id": number,
        "type": "row",
        "title": title,
        "collapsed": False,
        "gridPos": {"h": 1, "w": _COLUMNS, "x": 0, "y": row},
        "panels": [],
    }
