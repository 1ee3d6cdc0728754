"""``numakube bench node``: how fast is memory of other NUMA nodes on this machine?"""

from __future__ import annotations

import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from numakube.cli.examples import examples_text
from numakube.errors import ConfigError

if TYPE_CHECKING:
    from numakube_measured.memory_bench import BenchNode
    from numakube_measured.memory_speed import MemorySpeed

_FORMS: Final = ("table", "json", "svg", "annotation")
_MOST_MIB: Final = 1 << 16
_SHARE_OF_FREE: Final = 8


@click.group("bench")
def command() -> None:
    """How fast is memory of other NUMA nodes on this machine?"""


@command.command("node", epilog=examples_text("bench node", "numakube"))
@click.option(
    "--mebibytes",
    type=click.IntRange(1, _MOST_MIB),
    default=256,
    show_default=True,
    help="Memory to copy, and as much to copy it to; more than the caches have.",
)
@click.option("--repeats", type=click.IntRange(3, 1000), default=7, show_default=True)
@click.option(
    "-o",
    "--output",
    type=click.Choice(_FORMS),
    default="table",
    show_default=True,
    help="annotation prints the command that tells a cluster.",
)
@click.option("--node", default="", metavar="NAME", help="The node's name, for -o annotation.")
@click.option("--output-file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--sysfs", default="/sys", show_default=True, type=click.Path(path_type=Path))
def bench_node(
    mebibytes: int, repeats: int, output: str, node: str, output_file: Path | None, sysfs: Path
) -> None:
    """How fast is memory of other NUMA nodes on this machine?

    Copies memory of every NUMA node on the CPUs of every other one, and follows a chain of reads
    through it. Takes seconds for each pair, and the machine should do nothing else meanwhile.
    """
    import msgspec

    found = _measured(mebibytes, repeats, sysfs)
    found = msgspec.structs.replace(
        found,
        host=node or socket.gethostname(),
        taken_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    text = _written(found, output, node or "NODE")
    if output_file is not None:
        output_file.write_text(text, encoding="utf-8")
    else:
        click.echo(text, nl=False)


def _measured(mebibytes: int, repeats: int, sysfs: Path) -> MemorySpeed:
    import msgspec

    from numakube.node.usage import Untold
    from numakube_measured.memory_bench import NumaCalls, is_virtual, measure, nodes_of

    nodes = nodes_of(sysfs, Untold())
    _require_room(nodes, mebibytes, sysfs)
    found = measure(
        nodes,
        NumaCalls(),
        mebibytes=mebibytes,
        repeats=repeats,
        tell=lambda text: click.echo(text, err=True),
    )
    warnings = []
    if is_virtual(Path("/proc")):
        warnings.append(
            "This is a virtual machine: its NUMA nodes need not be those of the host, and others"
            " may use the same memory."
        )
    if len(found.memory_nodes) == 1:
        warnings.append("There is one NUMA node: nothing can be compared.")
    return msgspec.structs.replace(found, warnings=tuple(warnings))


def _require_room(nodes: tuple[BenchNode, ...], mebibytes: int, sysfs: Path) -> None:
    """Make sure that no node is filled up by this.

    Raises:
        ConfigError: one would be, or there are no NUMA nodes.
    """
    from numakube.node.usage import Untold, ZoneMemoryReader

    if not any(node.cpus for node in nodes):
        raise ConfigError(f"{sysfs} tells of no NUMA node with CPUs that we may use")
    for zone in ZoneMemoryReader(sysfs, Untold()).read():
        free = zone.available
        if zone.total and free is not None and 2 * mebibytes << 20 > free // _SHARE_OF_FREE:
            most = free // _SHARE_OF_FREE >> 21
            raise ConfigError(
                f"NUMA node {zone.id} has {free >> 20} MiB left: try --mebibytes {max(1, most)}"
            )


def _written(speed: MemorySpeed, output: str, node: str) -> str:
    import msgspec

    from numakube.cli.shared.terminal import column_lines
    from numakube_measured.bench_report import notes, svg, table
    from numakube_measured.memory_speed import ANNOTATION, write_speed

    if output == "json":
        return msgspec.json.format(msgspec.json.encode(speed)).decode() + "\n"
    if output == "svg":
        return svg(speed)
    if output == "annotation":
        return f"kubectl annotate node {node} --overwrite {ANNOTATION}='{write_speed(speed)}'\n"
    lines = [*column_lines(*table(speed)), "", *notes(speed)]
    return "".join(f"{line}\n" for line in lines)
