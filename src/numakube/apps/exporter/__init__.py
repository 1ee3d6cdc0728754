"""The exporter: publishes a node's state as a NodeResourceTopology object.

The computing half is pure: `report.topology_of` turns everything that one scan read
(`node_scan.NodeInputs`) into what is published (`report.Report`). The other half reads, waits for
changes and writes.

What `__all__` names is public; it is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from numakube.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from numakube.apps.exporter.api_objects import NodeObject, NodePods, uids_of
    from numakube.apps.exporter.export_loop import Exporter
    from numakube.apps.exporter.kubelet_checkpoints import Checkpoints
    from numakube.apps.exporter.kubelet_config_sources import KnownConfig
    from numakube.apps.exporter.metrics import ExporterMetrics
    from numakube.apps.exporter.node_scan import NodeInputs, NodeReader, PodName
    from numakube.apps.exporter.nrt_writer import ObjectPublisher, Publisher, Written
    from numakube.apps.exporter.numa_hardware import Hardware, hardware_of
    from numakube.apps.exporter.report import Report
    from numakube.apps.exporter.report_annotations import AnnotationReader, NodeSources
    from numakube.apps.exporter.report_options import ReportOptions
    from numakube.apps.exporter.scan_wakeups import ScanCause, Trigger, Wakeups
    from numakube.apps.exporter.surprises import Silence

__all__ = [
    "AnnotationReader",
    "Checkpoints",
    "Exporter",
    "ExporterMetrics",
    "Hardware",
    "KnownConfig",
    "NodeInputs",
    "NodeObject",
    "NodePods",
    "NodeReader",
    "NodeSources",
    "ObjectPublisher",
    "PodName",
    "Publisher",
    "Report",
    "ReportOptions",
    "ScanCause",
    "Silence",
    "Trigger",
    "Wakeups",
    "Written",
    "hardware_of",
    "uids_of",
]

__getattr__ = lazy_names(
    __name__,
    {
        "api_objects": "NodePods NodeObject uids_of",
        "export_loop": "Exporter",
        "kubelet_checkpoints": "Checkpoints",
        "kubelet_config_sources": "KnownConfig",
        "metrics": "ExporterMetrics",
        "node_scan": "NodeInputs NodeReader PodName",
        "nrt_writer": "ObjectPublisher Publisher Written",
        "numa_hardware": "Hardware hardware_of",
        "report": "Report",
        "report_options": "ReportOptions",
        "scan_wakeups": "ScanCause Trigger Wakeups",
        "surprises": "Silence",
        "report_annotations": "NodeSources AnnotationReader",
    },
)
