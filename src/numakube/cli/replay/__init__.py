"""``numakube replay``: compares our answers with recorded ones.

Each format is one module with a ``command``, and a line in `FORMATS`. For rows of JSON,
`numakube.cli.replay.case_loop.replay_command` makes it. The format ``api`` comes with the lab.
"""

from __future__ import annotations

from typing import Final

import click

from numakube.cli.lazy import LAB, Contributed, Lazy, LazyGroup

FORMATS: Final[dict[str, Lazy | Contributed]] = {
    "api": Contributed("replay api", LAB, "Requests to an API server, against the lab's."),
    "bundle": Lazy("numakube.cli.replay.bundle_cases", "Waiting pods of a bundle, decided again."),
    "dra": Lazy(
        "numakube.cli.replay.dra_cases", "Claims for devices, allocated by kube-scheduler."
    ),
    "exporter": Lazy(
        "numakube.cli.replay.exporter_cases", "Scans of a node by the Resource Topology Exporter."
    ),
    "filter": Lazy("numakube.cli.replay.filter_cases", "Pods judged by NodeResourceTopologyMatch."),
    "kubelet": Lazy("numakube.cli.replay.kubelet_cases", "Pods admitted and removed by a kubelet."),
    "scheduler": Lazy("numakube.cli.replay.scheduler_cases", "Pods filtered and scored on nodes."),
    "values": Lazy("numakube.cli.replay.values_cases", "Quantities, CPU lists, requests of pods."),
}


@click.group("replay", cls=LazyGroup, lazy=FORMATS)
def command() -> None:
    """Answer recorded cases and compare with the recording.

    FILE has one JSON object per line and may be compressed with gzip; - is standard input. Prints
    one answer per line in the shape of the recorded one. --check prints only the differences and,
    as the last line, "N passed, M failed"; the exit code is 1 if any failed.
    """
