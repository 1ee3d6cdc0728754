"""``numakube machine MACHINE``: show a machine, or write it in another format."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from numakube.annexes import Group, added_to, load
from numakube.cli.shared.machine_argument import MachineParameter, load_machine
from numakube.cli.shared.output_option import can_draw, make_console, text_width
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from numakube.insight.node_map.picture import Drawing
    from numakube.kubelet.machine import Device, Machine, NumaNode

TITLES = ("NODE", "SOCKET", "CORES", "CPUS", "MEMORY", "HUGEPAGES", "DISTANCES")
_DRAWINGS = tuple(added_to(Group.DRAWINGS))
_DISTANCES = TITLES.index("DISTANCES")
# Beyond so many NUMA nodes only distances to nodes with CPUs are listed.
_MANY = 16


@click.command("machine")
@click.argument("machine", type=MachineParameter(), required=False)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "text", "matrix", *_DRAWINGS, "shape", "cadvisor", "sysfs"]),
    default="table",
    show_default=True,
    help="Output format; text, svg and png are drawings, matrix shows how close devices are.",
)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to write the tree of `-o sysfs`.",
)
@click.option("--presets", is_flag=True, help="List the machines that have a name.")
def command(machine: str | None, output: str, directory: Path | None, *, presets: bool) -> None:
    """Show a machine, or write it in another format.

    MACHINE is a shape ("2 sockets, 8 cores, smt 2, 64Gi, gpu 2"), the name of a preset, a file with
    cAdvisor's MachineInfo or a shape, or a sysfs tree such as /sys.
    """
    if presets:
        _print_presets()
        return
    if machine is None:
        raise click.UsageError("Missing argument 'MACHINE'; try /sys, or a name of --presets.")
    if (output == "sysfs") != (directory is not None):
        raise click.UsageError("`-o sysfs` and `--directory` go together.")
    if output == "png" and sys.stdout.isatty():
        raise click.UsageError("PNG is not for terminals; redirect it to a file.")
    _print_machine(load_machine(machine), output, directory)


def _print_presets() -> None:
    from numakube.kubelet.machines.shape import PRESETS

    for name, shape in PRESETS.items():
        click.echo(f"{name:20} {shape}")


def _print_machine(machine: Machine, output: str, directory: Path | None) -> None:
    if directory is not None:
        from numakube.node.sysfs_machine import write_tree

        write_tree(machine, directory)
    elif output == "shape":
        from numakube.kubelet.machines.shape_text import to_shape

        click.echo(to_shape(machine))
    elif output == "cadvisor":
        from numakube.kubelet.machines.cadvisor_machine import to_cadvisor

        click.echo(json.dumps(to_cadvisor(machine), indent=2))
    elif output in ("text", "matrix", *_DRAWINGS):
        _draw(machine, output)
    else:
        make_console().print(_table(machine))


def _draw(machine: Machine, output: str) -> None:
    from numakube.insight.node_map.picture_from_report import picture_of_machine

    picture = picture_of_machine("", machine)
    if output in _DRAWINGS:
        draw: Drawing = load(Group.DRAWINGS, output)
        click.echo(draw(picture, dark=False), nl=False)
    else:
        from numakube.cli.shared.terminal import print_drawing
        from numakube.insight.node_map.terminal_map import DEFAULT_WIDTH, lines_of, matrix_lines

        lines = matrix_lines if output == "matrix" else lines_of
        console = make_console()
        width = text_width(console, DEFAULT_WIDTH)
        plain = not can_draw(sys.stdout.encoding)
        print_drawing(console, lines(picture, width=width, ascii_only=plain))


def _table(machine: Machine) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    resources = sorted(machine.devices)
    for title in (
        "NODE",
        "SOCKET",
        "CORES",
        "CPUS",
        "MEMORY",
        "HUGEPAGES",
        "DISTANCES",
        *resources,
    ):
        table.add_column(title)
    for row in _rows(machine, resources):
        table.add_row(*row)
    if any(not device.numa_nodes for some in machine.devices.values() for device in some):
        homeless = [_count(machine.devices[resource], None) for resource in resources]
        table.add_row(*["-"] * len(TITLES), *homeless)
    return table


def _rows(machine: Machine, resources: list[str]) -> list[list[str]]:
    """Return a row for each NUMA node; those of many that have no CPUs and are alike share one."""
    if len(machine.nodes) <= _MANY:
        return [_row(machine, node, resources) for node in machine.nodes]
    nodes = sorted(machine.nodes, key=lambda one: one.id)
    with_cpus = [position for position, node in enumerate(nodes) if node.cores]
    groups: dict[object, tuple[list[str], list[int]]] = {}
    for node in nodes:
        row = _row(machine, node, resources)
        near = [node.distances[one] for one in with_cpus if one < len(node.distances)]
        row[_DISTANCES] = " ".join(map(str, near)) or "-"
        alike = node.id if node.cores else tuple(row[1:])
        groups.setdefault(alike, (row, []))[1].append(node.id)
    return [[str(CpuSet.of(ids)), *row[1:]] for row, ids in groups.values()]


def _row(machine: Machine, node: NumaNode, resources: list[str]) -> list[str]:
    from numakube.kubelet.machines.shape import size_text

    pools = (f"{pool.count}x{size_text(pool.page_bytes)}" for pool in node.hugepages if pool.count)
    return [
        str(node.id),
        ",".join(map(str, sorted({core.socket for core in node.cores}))) or "-",
        str(len(node.cores)),
        str(CpuSet.of(cpu for core in node.cores for cpu in core.threads)) or "-",
        size_text(node.memory_bytes),
        " ".join(pools) or "-",
        " ".join(map(str, node.distances)) or "-",
        *(_count(machine.devices[resource], node.id) for resource in resources),
    ]


def _count(devices: Sequence[Device], node: int | None) -> str:
    """Return how many of *devices* belong to *node*; with ``None``, how many to no node."""
    here = (
        node in device.numa_nodes if node is not None else not device.numa_nodes
        for device in devices
    )
    return str(sum(here))
