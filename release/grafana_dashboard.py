"""The Grafana dashboard: is everything well, what is free where, who waits, is the data fresh."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from release.alerts import OURS

if TYPE_CHECKING:
    from collections.abc import Iterable


# Panels of a Grafana dashboard, and how they are laid out on its grid of 24 columns.


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


UID: Final = "numakube-overview"
_NODES: Final = 'node=~"$node", resource="$resource"'


def _rate(metric: str, labels: str = "") -> str:
    return f"rate({metric}{labels}[$__rate_interval])"


def _ours(metric: str, by: str) -> str:
    """Return a figure that kube-scheduler has too, of our schedulers only."""
    return f"sum by ({by}) ({metric} * {OURS})"


OVERVIEW: Final = Row(
    "At a glance",
    (
        Panel(
            title="Waiting for a zone",
            series=(
                Series('sum(scheduler_unschedulable_pods{plugin="NodeResourceTopologyMatch"})'),
            ),
            about="Pods that no node's zones can take now.",
            form=Form.FIGURE,
            width=4,
            bad_from=1,
        ),
        Panel(
            title="Runaway workloads",
            series=(Series("sum(numakube_runaway_workloads)"),),
            about="Workloads that are held back because kubelets kept rejecting their pods.",
            form=Form.FIGURE,
            width=4,
            bad_from=1,
        ),
        Panel(
            title="Rejected by kubelets, 1 h",
            series=(Series("sum(increase(numakube_kubelet_rejections_total[1h]))"),),
            about="Pods of ours that a kubelet refused after they were bound.",
            form=Form.FIGURE,
            width=4,
            bad_from=1,
        ),
        Panel(
            title="Mispredictions, 1 h",
            series=(Series("sum(increase(numakube_mispredictions_total[1h]))"),),
            about="Pods that a kubelet treated otherwise than was foreseen.",
            form=Form.FIGURE,
            width=4,
            bad_from=1,
        ),
        Panel(
            title="Nodes without data",
            series=(
                Series(
                    "max(sum by (job, instance) "
                    '(numakube_cache_nodes{state=~"unknown|blocked|stale|orphaned"}))'
                ),
            ),
            about="Nodes without a usable report, blocked, or with a stale report.",
            form=Form.FIGURE,
            width=4,
            bad_from=1,
        ),
        Panel(
            title="Leaders",
            series=(Series(f"sum(leader_election_master_status * {OURS})"),),
            about="One scheduler leads; the others stand by.",
            form=Form.FIGURE,
            width=4,
            bad_from=2,
        ),
    ),
)

ZONES: Final = Row(
    "Zones: $resource",
    (
        Panel(
            title="Used by zone",
            series=(
                Series(
                    f"1 - sum by (zone) (numakube_zone_available{{{_NODES}}}) "
                    f"/ sum by (zone) (numakube_zone_allocatable{{{_NODES}}})",
                    "{{zone}}",
                ),
            ),
            about="Share of the allocatable amount; zones that drift apart strand capacity.",
            unit="percentunit",
        ),
        Panel(
            title="Free, and out of reach",
            series=(
                Series(f"sum(numakube_zone_available{{{_NODES}}})", "free"),
                Series(f"sum(numakube_outside_best_zone{{{_NODES}}})", "outside the best zone"),
                Series(f"sum(numakube_zone_stranded{{{_NODES}}})", "stranded"),
            ),
            about=(
                "What is outside a node's best zone cannot serve one aligned pod together with it;"
                " on an empty machine of two zones that is half. What is stranded is of no use:"
                " free CPUs without memory beside them, or the other way round."
            ),
        ),
        Panel(
            title="Best zones",
            series=(
                Series(
                    f"topk(20, max by (node) (numakube_zone_available{{{_NODES}}}))", "{{node}}"
                ),
            ),
            about="The nodes whose best zone has most left: the largest pod that can be aligned.",
            form=Form.TABLE,
        ),
    ),
)

SCHEDULING: Final = Row(
    "Scheduling",
    (
        Panel(
            title="Attempts",
            series=(
                Series(_ours(_rate("scheduler_schedule_attempts_total"), "result"), "{{result}}"),
            ),
            about="By result.",
            unit="ops",
        ),
        Panel(
            title="Waiting pods",
            series=(Series(_ours("scheduler_pending_pods", "queue"), "{{queue}}"),),
            about="By queue.",
            stacked=True,
        ),
        Panel(
            title="Kept waiting by",
            series=(
                Series(f"{_ours('scheduler_unschedulable_pods', 'plugin')} > 0", "{{plugin}}"),
            ),
            about="Pods that each plugin refuses everywhere.",
        ),
        Panel(
            title="From first sight to binding",
            series=tuple(
                Series(
                    f"histogram_quantile({share}, "
                    + _ours(_rate("scheduler_pod_scheduling_sli_duration_seconds_bucket"), "le")
                    + ")",
                    f"p{share[2:]}",
                )
                for share in ("0.50", "0.99")
            ),
            about="How long pods that could be placed had to wait.",
            unit="s",
        ),
        Panel(
            title="Deciding",
            series=(
                Series(
                    "histogram_quantile(0.99, "
                    + _ours(_rate("scheduler_scheduling_algorithm_duration_seconds_bucket"), "le")
                    + ")",
                    "p99",
                ),
            ),
            about="Filter, score and the kubelet model, for one pod over all nodes.",
            unit="s",
        ),
        Panel(
            title="Preemption",
            series=(
                Series(_ours(_rate("scheduler_preemption_attempts_total"), "job"), "preemptions"),
                Series(_ours(_rate("scheduler_preemption_victims_sum"), "job"), "victims"),
            ),
            about="A second, over all schedulers.",
            unit="ops",
        ),
    ),
)

FRESHNESS: Final = Row(
    "What is known of nodes",
    (
        Panel(
            title="Nodes by what is known of them",
            series=(Series("max by (state) (numakube_cache_nodes)", "{{state}}"),),
            about=(
                "exact: the kubelet's state in full; counts: amounts by zone; blocked: waiting for"
                " a report that adds up; stale: the exporter cannot reach its kubelet; unknown: no"
                " usable report."
            ),
            stacked=True,
        ),
        Panel(
            title="What the cache found",
            series=(Series(f"sum by (kind) ({_rate('numakube_cache_facts_total')})", "{{kind}}"),),
            about="Reports that do not add up, pods of other schedulers, rejections foreseen.",
            unit="ops",
        ),
        Panel(
            title="Rejections and mispredictions",
            series=(
                Series(
                    "sum by (reason) (increase(numakube_kubelet_rejections_total"
                    "[$__rate_interval]))",
                    "rejected: {{reason}}",
                ),
                Series(
                    "sum by (severity) (increase(numakube_mispredictions_total[$__rate_interval]))",
                    "other than foreseen: {{severity}}",
                ),
            ),
            about="Each one is a pod that did not get what was promised.",
        ),
    ),
)

EXPORTERS: Final = Row(
    "Exporters",
    (
        Panel(
            title="Since the last look",
            series=(
                Series(
                    "topk(5, time() - numakube_exporter_last_scan_timestamp_seconds)",
                    "{{instance}}",
                ),
            ),
            about="The five exporters whose kubelet was read longest ago.",
            unit="s",
        ),
        Panel(
            title="Writes and failures",
            series=(
                Series(
                    f"sum by (operation) ({_rate('rte_noderesourcetopology_writes_total')})",
                    "{{operation}}",
                ),
                Series(f"sum({_rate('rte_noderesourcetopology_patch_failures_total')})", "failed"),
                Series(
                    f"sum({_rate('rte_podresource_api_call_failures_total')})",
                    "kubelet did not answer",
                ),
            ),
            about="Of NodeResourceTopology objects.",
            unit="ops",
        ),
        Panel(
            title="Facts missing or contradictory",
            series=(Series("sum by (kind) (numakube_exporter_problems)", "{{kind}}"),),
            about="On all nodes, by kind; docs/reference/exporter.md explains the kinds.",
        ),
    ),
)

EXTENDER: Final = Row(
    "Extender",
    (
        Panel(
            title="Calls",
            series=(
                Series(
                    f"sum by (verb, status) ({_rate('numakube_extender_requests_total')})",
                    "{{verb}} {{status}}",
                ),
            ),
            about="Of kube-scheduler, by verb and status; anything but 200 is a failed call.",
            unit="ops",
        ),
        Panel(
            title="Duration of calls, p99",
            series=(
                Series(
                    "histogram_quantile(0.99, sum by (le, verb) "
                    f"({_rate('numakube_extender_request_seconds_bucket')}))",
                    "{{verb}}",
                ),
            ),
            about="Once the body has been read.",
            unit="s",
        ),
        Panel(
            title="Pods between decision and binding",
            series=(
                Series("sum(numakube_extender_holds)", "held"),
                Series("sum(numakube_extender_waiting_pods)", "refused and waiting"),
                Series(
                    f"sum by (result) ({_rate('numakube_extender_bindings_total')})",
                    "bindings a second: {{result}}",
                ),
            ),
            about="Room is held for a pod from kube-scheduler's decision to its bind call.",
        ),
    ),
)

CLAIMS: Final = Row(
    "Alignment and claims",
    (
        Panel(
            title="Pods that are not aligned",
            series=(Series("max by (cause) (numakube_misaligned_pods)", "{{cause}}"),),
            about="They want alignment and do not have it; kubectl numa check pods names them.",
            stacked=True,
        ),
        Panel(
            title="Claims allocated and refused",
            series=(
                Series(
                    f"sum by (result) ({_rate('numakube_claim_allocations_total')})",
                    "written: {{result}}",
                ),
                Series(
                    f"sum by (reason) ({_rate('numakube_claim_refusals_total')})",
                    "refused: {{reason}}",
                ),
            ),
            about="Devices of DRA drivers: allocations written, and attempts that failed for them.",
            unit="ops",
        ),
        Panel(
            title="Writing an allocation, p99",
            series=(
                Series(
                    "histogram_quantile(0.99, sum by (le) "
                    f"({_rate('numakube_claim_write_seconds_bucket')}))",
                    "p99",
                ),
            ),
            about="One status update of a claim at the API server.",
            unit="s",
        ),
        Panel(
            title="CPUs for claims",
            series=(Series("sum by (state) (numakube_dra_cpus)", "{{state}}"),),
            about="What DRA drivers of nodes offer to claims, and what claims have of it.",
        ),
        Panel(
            title="Preparing a claim, p99",
            series=(
                Series(
                    "histogram_quantile(0.99, sum by (le, result) "
                    f"({_rate('numakube_dra_prepare_seconds_bucket')}))",
                    "{{result}}",
                ),
            ),
            about="From the kubelet's call to its answer; the pod waits for it.",
            unit="s",
        ),
    ),
)

_ON_NODES: Final = 'node=~"$node"'

MEASURED: Final = Row(
    "Measured, beside what was promised",
    (
        Panel(
            title="Pods with the most memory elsewhere",
            series=(
                Series(
                    f"topk(10, 1 - numakube_measured_pod_local_memory_ratio{{{_ON_NODES}}})",
                    "{{pod_namespace}}/{{pod_name}}",
                ),
            ),
            about=(
                "Share of their memory that is not in the zones they were promised; only of pods"
                " that were promised any. Exporters measure if they are deployed with --measure."
            ),
            unit="percentunit",
        ),
        Panel(
            title="Memory of zones that programs can have",
            series=(
                Series(
                    f"min by (zone) (numakube_measured_zone_memory_available_bytes{{{_ON_NODES}}})",
                    "{{zone}}, on the node that has least",
                ),
                Series(
                    f"topk(10, numakube_measured_zone_guest_memory_bytes{{{_ON_NODES}}})",
                    "{{node}} {{zone}}, used by pods without a place there",
                ),
            ),
            about="What is left where it is least, and what pods without a place there use.",
            unit="bytes",
        ),
        Panel(
            title="Disturbed CPUs",
            series=tuple(
                Series(
                    f"topk(5, numakube_measured_pod_{name}{{{_ON_NODES}}})",
                    f"{{{{pod_namespace}}}}/{{{{pod_name}}}}: {words}",
                )
                for name, words in (
                    ("others_cpu_ratio", "others"),
                    ("stolen_cpu_ratio", "hypervisor"),
                    ("throttled_ratio", "throttled"),
                )
            ),
            about="Share of the time of CPUs that pods have for themselves.",
            unit="percentunit",
        ),
    ),
)

ROWS: Final = (OVERVIEW, ZONES, SCHEDULING, CLAIMS, MEASURED, FRESHNESS, EXPORTERS, EXTENDER)
NODE_QUERY: Final = "label_values(numakube_zone_available, node)"
RESOURCE_QUERY: Final = "label_values(numakube_zone_available, resource)"


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it."""
    return {
        "uid": UID,
        "title": "numakube",
        "description": "NUMA zones, and the placing of pods in them.",
        "tags": ["kubernetes", "numa", "numakube"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "timezone": "browser",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_datasource(), *_choices()]},
        "annotations": {"list": []},
        "links": [],
        "panels": laid_out(ROWS),
    }


def _datasource() -> dict[str, Any]:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
        "hide": 0,
    }


def _choices() -> list[dict[str, Any]]:
    return [
        _choice("resource", RESOURCE_QUERY, several=False, current="cpu"),
        _choice("node", NODE_QUERY, several=True, current="$__all"),
    ]


def _choice(name: str, query: str, *, several: bool, current: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": several,
        "includeAll": several,
        **({"allValue": ".*"} if several else {}),
        "current": {"text": "All" if several else current, "value": current},
        "hide": 0,
    }
