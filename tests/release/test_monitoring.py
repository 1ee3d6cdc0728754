"""Alerts and dashboard use what is exported, and every alert has a runbook."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from release.alerts import ALERTS, Alert, prometheus_rule, rule_file
from release.grafana_dashboard import (
    NODE_QUERY,
    RESOURCE_QUERY,
    ROWS,
    dashboard,
)
from tests.manifests.exported import exported
from tests.release.promql import Use, use_of

from numakube.api.yaml_text import dump_yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "monitoring"
# What Prometheus itself adds: its own series, and the labels of whatever it scrapes.
OF_PROMETHEUS = {"up": frozenset[str]()}
OF_TARGETS = {"job", "instance"}

EXPRESSIONS = [
    *(alert.expression for alert in ALERTS),
    *(series.expression for row in ROWS for panel in row.panels for series in panel.series),
    NODE_QUERY,
    RESOURCE_QUERY,
]


def samples() -> dict[str, frozenset[str]]:
    """Return every series name with its labels; those of one name in two processes together."""
    found: dict[str, frozenset[str]] = dict(OF_PROMETHEUS)
    for metric in exported():
        for name, labels in metric.samples.items():
            found[name] = found.get(name, frozenset()) | labels
    return found


def plain(expression: str) -> str:
    """Return *expression* without variables of Grafana."""
    return re.sub(r"\$\w+", "x", expression)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_and_label_of_an_expression_is_exported(expression: str) -> None:
    """A typo would be a panel that stays empty, or an alert that never comes."""
    known, use = samples(), use_of(plain(expression))
    assert use.metrics
    for name, labels in use.metrics:
        assert name in known, name
        assert labels <= known[name] | OF_TARGETS, name
    of_all = frozenset[str]().union(*(known[name] for name, _ in use.metrics))
    assert use.grouping <= of_all | OF_TARGETS


def test_the_reader_of_expressions_finds_metrics_labels_and_groups() -> None:
    """So that a wrong name is found by the test above."""
    found = use_of(
        'sum by (le, a) (rate(x_total{b="1", c!~"2"}[5m])) / on (d) group_left () y > 0.5 and z'
    )
    assert found == Use(
        [("x_total", frozenset({"b", "c"})), ("y", frozenset()), ("z", frozenset())],
        {"le", "a", "d"},
    )
    with pytest.raises(AssertionError, match="unknown function summ"):
        use_of("summ(x)")
    with pytest.raises(AssertionError, match="not PromQL"):
        use_of("sum(x) ; y")


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_every_alert_says_what_it_is_and_has_a_runbook(alert: Alert) -> None:
    """At the anchor that it points to, with something to do."""
    assert alert.severity in {"critical", "warning", "info"}
    assert alert.summary
    assert alert.description
    page = (ROOT / "docs" / "how-to" / "alerts.md").read_text(encoding="utf-8")
    url = alert.rule()["annotations"]["runbook_url"]
    assert url.endswith(f"/docs/how-to/alerts.md#{alert.name.lower()}")
    section = re.search(rf"^### {alert.name}\n(.+?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL)
    assert section is not None, "no runbook"
    assert re.search(r"^1\. ", section[1], re.MULTILINE), "nothing to do"


def test_there_is_no_runbook_without_an_alert() -> None:
    """Nor two alerts of one name."""
    page = (ROOT / "docs" / "how-to" / "alerts.md").read_text(encoding="utf-8")
    titles = re.findall(r"^### (\w+)$", page, re.MULTILINE)
    assert sorted(titles) == sorted(alert.name for alert in ALERTS)
    assert len(set(titles)) == len(titles)


def test_templates_of_descriptions_use_labels_that_the_alert_has() -> None:
    """A label that an aggregation dropped would come out empty."""
    known = samples()
    for alert in ALERTS:
        use = use_of(alert.expression)
        labels = frozenset[str]().union(*(known[name] for name, _ in use.metrics))
        aggregated = re.match(r"(sum|max)\b", alert.expression) is not None
        kept = use.grouping if aggregated or use.grouping else labels
        used = set(re.findall(r"\$labels\.(\w+)", alert.description))
        assert used <= kept | (set() if aggregated else OF_TARGETS), alert.name


def is_up_to_date(name: str, text: str) -> bool:
    """Tell whether a file under deploy/monitoring has this text."""
    path = FOLDER / name
    if os.environ.get("UPDATE_MANIFESTS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return path.read_text(encoding="utf-8") == text


def test_the_files_are_up_to_date() -> None:
    """Run ``UPDATE_MANIFESTS=1 pytest tests/release`` after a change."""
    drawn = json.dumps(dashboard(), indent=2, ensure_ascii=False) + "\n"
    assert is_up_to_date("grafana-dashboard.json", drawn)
    assert is_up_to_date("alerts.yaml", dump_yaml(rule_file()))
    assert is_up_to_date("prometheus-rule.yaml", dump_yaml(prometheus_rule()))


def test_panels_have_numbers_of_their_own_and_do_not_overlap() -> None:
    """Within the 24 columns of Grafana's grid."""
    panels: list[dict[str, Any]] = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (place["x"] + column, place["y"] + row)
            for column in range(place["w"])
            for row in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        assert all(column < 24 for column, _ in cells), panel["title"]
        taken |= cells


def test_every_panel_says_what_it_shows() -> None:
    """In words, beside its title."""
    for row in ROWS:
        assert all(panel.about and panel.title for panel in row.panels)
