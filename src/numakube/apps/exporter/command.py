"""The command line of the exporter, for the program and for containers of the lab alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click
import msgspec

from numakube.api.yamls import dump_yaml
from numakube.apps.exporter.configuration import configuration_files, read_options
from numakube.apps.exporter.process import read_once, run
from numakube.apps.exporter.settings import SETTINGS
from numakube.apps.host.command_line import parsed

if TYPE_CHECKING:
    import asyncio

    from numakube.apps.exporter.configuration import ExporterOptions
    from numakube.apps.host.settings import Values
    from numakube.apps.host.surroundings import Surroundings

NAME: Final = "exporter"
DUMP_AND_EXIT: Final = ".andexit"
_DUMPS: Final = ("-", DUMP_AND_EXIT)
_YAML, _JSON = "yaml", "json"

Echo: TypeAlias = Callable[[str], None]

HELP: Final = """Publish what this node's NUMA zones have and have left.

Reads the kubelet and sysfs, and writes the node's NodeResourceTopology whenever something changes.
Settings come from files, the environment (in brackets) and flags; flags win. ROOT is a folder with
daemon/config.yaml, daemon/config.yaml.d/ and extra/config.yaml.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A command line that makes sense by itself; files and environment are not read yet.

    Attributes:
        flags: the settings that it gives.
        config: the configuration file that it names, if any.
        roots: the folders that it names.
        dry_run: print what would be written, and end.
        kubelet: ask the kubelet.
        output: the form of what a dry run prints.
        dump_config: whether to print the settings, and whether to go on.
    """

    flags: Values
    config: str = ""
    roots: tuple[str, ...] = ()
    dry_run: bool = False
    kubelet: bool = True
    output: str = _YAML
    dump_config: str = ""


def make_command(act: Callable[[Line], Any]) -> click.Command:
    """Return the command, which calls *act* with its line and returns what that returns."""

    @click.pass_context
    def callback(ctx: click.Context, /, **_: object) -> Any:  # noqa: ANN401 - act's result
        given = ctx.params
        return act(
            Line(
                flags=SETTINGS.given(ctx),
                config=given["config"] or "",
                roots=given["roots"],
                dry_run=given["dry_run"],
                kubelet=not given["no_kubelet"],
                output=given["output"],
                dump_config=given["dump_config"] or "",
            )
        )

    return click.Command(
        NAME, params=[*_own_parameters(), *SETTINGS.options()], callback=callback, help=HELP
    )


def parse(args: tuple[str, ...]) -> Line:
    """Return the line that *args* make.

    Raises:
        click.ClickException: they make none.
    """
    line: Line = parsed(make_command(lambda line: line), args)
    return line


def options_of(line: Line, around: Surroundings) -> ExporterOptions:
    """Return what files, the environment and the line add up to.

    Raises:
        ConfigError: something makes no sense.
    """
    files = configuration_files(line.config, line.roots, around.locate)
    return read_options(line.flags, env=around.env, files=files)


async def perform(
    line: Line, options: ExporterOptions, around: Surroundings, stop: asyncio.Event, echo: Echo
) -> int:
    """Do what the command line asks for; return the exit code."""
    if line.dump_config:
        echo(dump_yaml(msgspec.to_builtins(dict(options.values))))
        if line.dump_config == DUMP_AND_EXIT:
            return 0
    if not line.dry_run:
        return await run(options, around, stop)
    topology = await read_once(options, around, kubelet=line.kubelet)
    tree = msgspec.to_builtins(topology)
    # As people write objects: what it is comes first.
    tree = {name: tree.pop(name) for name in ("apiVersion", "kind")} | tree
    if line.output == _JSON:
        echo(msgspec.json.format(msgspec.json.encode(tree)).decode())
    else:
        echo(dump_yaml(tree))
    return 0


def _own_parameters() -> list[click.Parameter]:
    return [
        click.Argument(["roots"], nargs=-1, metavar="[ROOT]"),
        click.Option(["--config"], metavar="FILE", help="A configuration file."),
        click.Option(["--dry-run"], is_flag=True, help="Print what would be written, and end."),
        click.Option(
            ["--no-kubelet"], is_flag=True, help="With --dry-run: read sysfs, ask no kubelet."
        ),
        click.Option(
            ["-o", "--output"],
            type=click.Choice((_YAML, _JSON)),
            default=_YAML,
            show_default=True,
            help="Form of what a dry run prints.",
        ),
        click.Option(
            ["--dump-config"],
            type=click.Choice(_DUMPS),
            help=f"Print all settings; {DUMP_AND_EXIT} ends then.",
        ),
    ]
