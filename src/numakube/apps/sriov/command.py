"""The command line of the plugin, for the program and for containers of the lab alike.

Go programs take flags with one dash as well as with two; so does this one, for upstream's flags.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from numakube.apps.host.command_line import parsed
from numakube.apps.sriov.dry_run_output import table, tree
from numakube.apps.sriov.process import look_once, run
from numakube.apps.sriov.settings import IGNORED_SWITCHES, IGNORED_VALUES, SETTINGS

if TYPE_CHECKING:
    import asyncio

    from numakube.apps.host.settings import Values
    from numakube.apps.host.surroundings import Surroundings

NAME: Final = "sriov"
TABLE, JSON, YAML = "table", "json", "yaml"

Echo: TypeAlias = Callable[[str], None]

HELP: Final = """Offer PCI devices to this node's kubelet.

SR-IOV virtual functions, mostly; the configuration and the flags are those of the SR-IOV network
device plugin. Every device has its NUMA node, so that the kubelet and schedulers can align pods
with it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A command line that makes sense by itself.

    Attributes:
        flags: the settings that it gives.
        dry_run: print what would be offered, and end.
        explain: and why other devices would not.
        output: the form of what a dry run prints.
    """

    flags: Values
    dry_run: bool = False
    explain: bool = False
    output: str = TABLE


class _GoFlags(click.Command):
    """A command whose options may be written as Go programs take them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse *args* as click wants them."""
        params = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        return super().parse_args(ctx, [_in_our_form(word, params) for word in args])


def _in_our_form(word: str, params: list[click.Option]) -> str:
    """Return ``-name``, ``-name=value``, ``-switch=true`` and ``-v=3`` in the form of click."""
    name, equals, value = word.partition("=")
    if not word.startswith("-"):
        return word
    if name == "-v" and equals:
        return f"--log-level={value}"
    long = name if name.startswith("--") else f"-{name}"
    meant = next((one for one in params if long in one.opts), None)
    if meant is None:
        return word
    if not meant.is_flag or not equals:
        return f"{long}{equals}{value}"
    off = value.casefold() in ("false", "f", "0")
    return meant.secondary_opts[0] if off and meant.secondary_opts else long


def make_command(act: Callable[[Line], Any]) -> click.Command:
    """Return the command, which calls *act* with its line and returns what that returns."""

    @click.pass_context
    def callback(ctx: click.Context, /, **_: object) -> Any:  # noqa: ANN401 - act's result
        given = ctx.params
        return act(
            Line(
                flags=SETTINGS.given(ctx),
                dry_run=given["dry_run"],
                explain=given["explain"],
                output=given["output"],
            )
        )

    params = [*_own_parameters(), *SETTINGS.options(), *_ignored()]
    return _GoFlags(NAME, params=params, callback=callback, help=HELP)


def parse(args: tuple[str, ...]) -> Line:
    """Return the line that *args* make.

    Raises:
        click.ClickException: they make none.
    """
    line: Line = parsed(make_command(lambda line: line), args)
    return line


def values_of(line: Line, around: Surroundings) -> Values:
    """Return what the environment and the line add up to.

    Raises:
        ConfigError: something makes no sense.
    """
    return SETTINGS.resolve(env=around.env, flags=line.flags)


async def perform(
    line: Line,
    values: Values,
    around: Surroundings,
    stop: asyncio.Event,
    echo: Echo,
    *,
    wake: asyncio.Event | None = None,
) -> int:
    """Do what the command line asks for; return the exit code."""
    if not line.dry_run:
        return await run(values, around, stop, wake=wake)
    survey = look_once(values, around)
    if line.output == TABLE:
        echo(table(survey, explain=line.explain))
    else:
        echo(_written(tree(survey, explain=line.explain), line.output))
    return 0


def _written(document: object, form: str) -> str:
    if form == JSON:
        return json.dumps(document, indent=2)
    from numakube.api.yamls import dump_yaml

    return dump_yaml(document)


def _own_parameters() -> list[click.Parameter]:
    return [
        click.Option(["--dry-run"], is_flag=True, help="Print what would be offered, and end."),
        click.Option(
            ["--explain"], is_flag=True, help="With --dry-run: tell why devices are not offered."
        ),
        click.Option(
            ["-o", "--output"],
            type=click.Choice((TABLE, JSON, YAML)),
            default=TABLE,
            show_default=True,
            help="Form of what a dry run prints.",
        ),
    ]


def _ignored() -> list[click.Parameter]:
    """Return upstream's flags that mean nothing here, so that its command lines work unchanged."""
    values = [
        click.Option([f"--{name}"], hidden=True) for name in IGNORED_VALUES if "-" not in name
    ]
    values += [click.Option(["--log-dir", "ignored_log_dir"], hidden=True)]
    switches = [click.Option([f"--{name}"], is_flag=True, hidden=True) for name in IGNORED_SWITCHES]
    return [*values, *switches]
