"""The table of metrics is what the processes export."""

from __future__ import annotations

import os
import re

from tests.annexes.contributions import rows
from tests.docs.pages import ROOT
from tests.manifests.exported import Exported, exported

from numakube.apps.extender.process import ExtenderOptions, ExtenderProcess
from numakube.apps.scheduler.process import SchedulerProcess
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import ClusterConfig
from numakube.scheduling.assembly import default_configuration

PAGE = ROOT / "docs" / "reference" / "metrics.md"
TITLES = {
    "exporter": "Exporter",
    "gc": "Garbage collector",
    "admission-check": "Admission check",
    "rebalancer": "Rebalancer",
    "scheduler": "Scheduler",
    "extender": "Extender",
    "operator": "Operator",
    **rows("METRIC_TITLES"),
    "enforcer": "Enforcer",
    "webhook": "Admission webhook",
    "process": "Every process",
}
UNITS = {
    "_seconds": "seconds",
    "_seconds_total": "seconds",
    "_bytes": "bytes",
    "_milliseconds": "milliseconds",
    "_ratio": "ratio",
    "_info": "1",
    "numakube_zone_allocatable": "cores, bytes or devices",
    "numakube_zone_available": "cores, bytes or devices",
    "numakube_zone_stranded": "cores, bytes or devices",
    "numakube_outside_best_zone": "cores, bytes or devices",
    "numakube_exporter_stale": "0 or 1",
    "leader_election_master_status": "0 or 1",
    "numakube_operator_condition": "0 or 1",
    "numakube_webhook_registered": "0 or 1",
    **rows("METRIC_UNITS"),
}


def unit_of(name: str) -> str:
    """Return the unit that the end of a name tells; otherwise it is a number of something."""
    return next((unit for end, unit in UNITS.items() if name.endswith(end)), "number")


def row_of(metric: Exported) -> str:
    """Return the line of the table."""
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    meaning = metric.meaning.rstrip(".")
    return f"| `{metric.name}` | {metric.type} | {labels} | {unit_of(metric.name)} | {meaning} |"


def table_of(component: str, metrics: list[Exported]) -> str:
    """Return the table between the marks of *component*."""
    head = "| metric | type | labels | unit | meaning |\n|---|---|---|---|---|\n"
    rows = [row_of(metric) for metric in metrics if metric.component == component]
    return f"## {TITLES[component]}\n\n{head}" + "\n".join(rows) + "\n"


def test_the_page_has_every_metric_and_nothing_else() -> None:
    """Run ``UPDATE_DOCS=1 pytest tests/docs`` after a change of metrics."""
    written = PAGE.read_text(encoding="utf-8")
    metrics = exported()
    real = written
    for component, title in TITLES.items():
        table = table_of(component, metrics)
        place = re.search(rf"^## {title}\n\n\|.*?\n(?=\n|\Z)", real, re.MULTILINE | re.DOTALL)
        assert place is not None, f"the page has no table under {title}"
        real = real[: place.start()] + table + real[place.end() :]
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(real, encoding="utf-8")
    else:
        assert real == written


def test_names_and_labels_follow_the_conventions() -> None:
    """Counters end in ``_total``, all have a meaning, and only what has bounds names pods."""
    for metric in exported():
        assert metric.meaning, metric.name
        assert (metric.type == "counter") == metric.name.endswith("_total"), metric.name
        assert not {"pod", "namespace", "uid", "container"} & set(metric.labels), metric.name
        names_pods = "pod_name" in metric.labels
        assert names_pods is metric.name.startswith("numakube_measured_pod_"), metric.name


async def test_real_processes_export_what_is_on_the_page() -> None:
    """Nothing is registered beside the classes of metrics."""
    async with connect(ClusterConfig(server="http://127.0.0.1:9")) as client:
        registries = [
            SchedulerProcess(default_configuration(), client).registry,
            ExtenderProcess(ExtenderOptions.default(), client).registry,
        ]
    documented = set(re.findall(r"^\| `(\w+)`", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    for registry in registries:
        for family in registry.collect():
            name = f"{family.name}_total" if family.type == "counter" else family.name
            assert name in documented
