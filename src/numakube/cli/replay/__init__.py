"""``numakube replay``: compares our answers with recorded ones.

Each format is a command and a line in `FORMATS`. Most have rows of JSON that only have to be
answered: those are in `numakube.cli.replay.row_formats`. The format ``api`` comes with the lab.
"""

from __future__ import annotations

from typing import Final

import click

from numakube.cli.lazy_commands import LAB, Contributed, Lazy, LazyGroup

_ROWS: Final = "numakube.cli.replay.row_formats"

FORMATS: Final[dict[str, Lazy | Contributed]] = {
    "api": Contributed("replay api", LAB, "Requests to an API server, against the lab's."),
    "bundle": Lazy("numakube.cli.replay.bundle_cases", "Waiting pods of a bundle, decided again."),
    "dra": Lazy(_ROWS, "Claims for devices, allocated by kube-scheduler.", "dra"),
    "exporter": Lazy(
        "numakube.cli.replay.exporter_cases", "Scans of a node by the Resource Topology Exporter."
    ),
    "filter": Lazy(_ROWS, "Pods judged by NodeResourceTopologyMatch.", "filter_calls"),
    "kubelet": Lazy(_ROWS, "Pods admitted and removed by a kubelet.", "kubelet"),
    "scheduler": Lazy(_ROWS, "Pods filtered and scored on nodes.", "scheduler"),
    "values": Lazy(_ROWS, "Quantities, CPU lists, requests of pods.", "values"),
}


@click.group("replay", cls=LazyGroup, lazy=FORMATS)
def command() -> None:
    """Answer recorded cases and compare with the recording.

    FILE has one JSON object per line and may be compressed with gzip; - is standard input. Prints
    one answer per line in the shape of the recorded one. --check prints only the differences and,
    as the last line, "N passed, M failed"; the exit code is 1 if any failed.
    """
