"""``numakube check container``: is all that this container has on one NUMA node?"""

from __future__ import annotations

import os
import signal
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from numakube.cli.shared.output_option import Output, document_text, output_option
from numakube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numakube.node.own_alignment import OwnPlace

NOT_ALIGNED: Final = 1
UNKNOWN: Final = 3


@click.command("align")
@output_option(Output.TABLE, Output.JSON, Output.YAML)
@click.option("--memory", "with_memory", is_flag=True, help="Memory must be bound too.")
@click.option("--stay", is_flag=True, help="Then keep running, with all resources, until stopped.")
def command(*, output: Output, with_memory: bool, stay: bool) -> int:
    """Are all resources of this container on one NUMA node?

    Run it inside a container, as a check or as a sample workload. Looks at the CPUs and memory
    nodes that the kernel allows, and at devices that plugins name in PCIDEVICE_* variables. Exits
    with 0 if everything is on one NUMA node, 1 if not, and 3 if that is unknown.
    """
    if stay:
        # Before anything else: a signal that comes early must not be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    text, code = answer(Path, os.environ, output=output, with_memory=with_memory)
    click.echo(text)
    if stay:
        signal.sigwait({signal.SIGTERM, signal.SIGINT})
    return code


def answer(
    locate: Callable[[str], Path], env: Mapping[str, str], *, output: Output, with_memory: bool
) -> tuple[str, int]:
    """Return what to print, and the exit code."""
    from numakube.node.own_alignment import read_own_place

    try:
        place = read_own_place(locate, env)
    except ConfigError as error:
        return f"error: {error}", UNKNOWN
    wrong = place.misalignments(with_memory=with_memory)
    lines = _lines(place, wrong)
    text = "\n".join(lines) if output is Output.TABLE else _document(place, wrong, output)
    return text, NOT_ALIGNED if wrong else 0


def _lines(place: OwnPlace, wrong: list[str]) -> Iterator[str]:
    from numakube.node.own_alignment import on_nodes

    yield f"CPUs    {place.cpus} on {on_nodes(place.cpu_nodes)}"
    bound = "from" if place.memory_is_bound else "not bound, from any of"
    yield f"memory  {bound} {on_nodes(place.memory_nodes)}"
    for device in place.devices:
        yield f"device  {device.id} on {on_nodes(device.numa_nodes)} ({device.variable})"
    yield f"not aligned: {'; '.join(wrong)}" if wrong else f"aligned on {on_nodes(place.cpu_nodes)}"


def _document(place: OwnPlace, wrong: list[str], output: Output) -> str:
    document: dict[str, Any] = {
        "aligned": not wrong,
        "cpus": str(place.cpus),
        "cpuNodes": list(place.cpu_nodes),
        "memoryNodes": list(place.memory_nodes),
        "memoryBound": place.memory_is_bound,
        "devices": [
            {
                "id": entry["id"],
                "variable": entry["variable"],
                "numaNodes": list(entry["numa_nodes"]),
            }
            for entry in map(asdict, place.devices)
        ],
        "misalignments": wrong,
    }
    return document_text(document, output)
