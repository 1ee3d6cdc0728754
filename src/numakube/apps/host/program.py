"""A program: its command line, how its options are read, and what runs.

    PROGRAM = Program(name="gc", about="...", settings=SETTINGS, read=SETTINGS.read, run=run)

`numakube.cli` makes a command of it, and the lab a program of containers; both parse the same
command line, read the same options and run the same code.

Command lines may be in the spelling of Go programs, so that files that were written for others
work. Go's switches take a value (``--oneshot=false``), one dash is as good as two (``-config=x``),
the level of logs is a number (``-v=4``, ``--v 4``), and ``--version`` may stand behind anything.
All programs of ours take that. Flags of a program that ours stands in for, which have no meaning
here, are taken too, and told in one line of the log: nobody is to believe that they do something.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

import click
import structlog

from numakube.apps.host.settings_sources import FLAG_OPTION, activate
from numakube.programs import PROGRAMS
from numakube.version import VERSION

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from numakube.apps.host.common_settings import LogSettings
    from numakube.apps.host.process_life import Surroundings
    from numakube.apps.host.settings_sources import SettingsTable, Values


_YES: Final = ("1", "t", "true")
_NO: Final = ("0", "f", "false")
_VERBOSITY: Final = ("-v", "--v")
_LEVEL: Final = "--log-level"
_OTHER: Final = "other_flag_"


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherFlags:
    """Flags of a program that ours stands in for, without a meaning here and without dashes.

    Attributes:
        values: those that take a value.
        switches: those that do not have to.
    """

    values: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()

    def __add__(self, other: OtherFlags) -> OtherFlags:
        return OtherFlags(
            values=(*self.values, *other.values), switches=(*self.switches, *other.switches)
        )

    def parameters(self) -> list[click.Parameter]:
        """Return them as hidden parameters of a command."""
        return [
            click.Option(
                [f"--{name}", _OTHER + name.replace("-", "_").lower()],
                is_flag=name in self.switches,
                multiple=name not in self.switches,
                hidden=True,
            )
            for name in (*self.values, *self.switches)
        ]


NONE: Final = OtherFlags()
KLOG: Final = OtherFlags(
    values=(
        *("log-dir", "log_dir", "log_backtrace_at", "stderrthreshold", "vmodule", "log_link"),
        *("logbuflevel", "log_file", "log_file_max_size", "log-flush-frequency"),
    ),
    switches=(
        *("logtostderr", "alsologtostderr", "skip_headers", "skip_log_headers"),
        *("add_dir_header", "one_output"),
    ),
)
"""Flags of the logs of Go programs: ours go to standard error."""


class GoCommand(click.Command):
    """A command whose options may be written as Go programs take them."""

    def __init__(
        self,
        name: str,
        *,
        params: list[click.Parameter],
        other: OtherFlags = NONE,
        **attributes: Any,  # noqa: ANN401 - click's
    ) -> None:
        super().__init__(name, params=[*params, *other.parameters()], **attributes)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse *args* as click wants them."""
        options = [param for param in self.params if isinstance(param, click.Option)]
        known = {name for option in options for name in (*option.opts, *option.secondary_opts)}
        asked = any(word.partition("=")[0] == "--version" for word in args)
        if asked and "--version" not in known:
            click.echo(f"numakube {VERSION}")
            ctx.exit(0)
        return super().parse_args(ctx, list(_in_our_form(args, options, known)))


def without_effect(ctx: click.Context) -> tuple[str, ...]:
    """Return the flags of another program that stood on the command line."""
    given = click.core.ParameterSource.COMMANDLINE
    return tuple(
        param.opts[0]
        for param in ctx.command.params
        if (param.name or "").startswith(_OTHER)
        and ctx.get_parameter_source(param.name or "") is given
    )


def _in_our_form(
    args: Sequence[str], options: Sequence[click.Option], known: set[str]
) -> Iterator[str]:
    words = iter(args)
    for word in words:
        if word == "--":
            yield word
            yield from words
            return
        name, equals, value = word.partition("=")
        if name in _VERBOSITY and _LEVEL in known and (equals or "-v" not in known):
            yield f"{_LEVEL}={value if equals else next(words, '')}"
            continue
        long = name if name.startswith("--") else f"-{name}"
        if not name.startswith("-") or long not in known or (name in known and not equals):
            yield word
            continue
        meant = next(option for option in options if long in (*option.opts, *option.secondary_opts))
        yield from (
            _switched(meant, long, value)
            if meant.is_flag and equals
            else (f"{long}{equals}{value}",)
        )


def _switched(option: click.Option, name: str, value: str) -> Iterator[str]:
    """Yield a switch that was given a value as click has it; one that is off may be no word."""
    said = value.casefold()
    if said not in (*_YES, *_NO):
        raise click.UsageError(f"{name}={value}: true or false is expected.")
    if said in _YES:
        yield name
    elif name in option.secondary_opts:
        yield option.opts[0]
    else:
        yield from option.secondary_opts[:1]


class Options(Protocol):
    """What a program was told; its settings, or something made of them."""

    @property
    def logs(self) -> LogSettings:
        """What is logged, and how."""


OptionsT = TypeVar("OptionsT", bound=Options)

WITHOUT_EFFECT: Final = "flags without effect"
FEATURE_GATES: Final = "feature gates"
"""Stand beside the settings that were given; no setting is called so."""
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Program(Generic[OptionsT]):
    """A program that runs until it is stopped.

    Attributes:
        name: its name in `numakube.annexes.programs`.
        about: what its help says after the summary.
        settings: what can be set.
        read: makes options of the flags that were given and of what surrounds the process; raises
            `ConfigError` or a `click.UsageError` if they make no sense.
        run: works until the event is set, and returns the exit code.
        holds_cluster: whether it keeps the state of a whole cluster in memory.
        other: flags of a program that it stands in for, which have no meaning here.
    """

    name: str
    about: str
    settings: SettingsTable[Any]
    read: Callable[[Values, Surroundings], OptionsT]
    run: Callable[[OptionsT, Surroundings, asyncio.Event], Awaitable[int]]
    holds_cluster: bool = False
    other: OtherFlags = NONE

    @property
    def help(self) -> str:
        """What the help says of it."""
        from numakube.annexes import programs  # only the help needs it

        return f"{programs()[self.name].summary}\n\n{self.about}"

    def command(self, act: Callable[[Values], Any]) -> click.Command:
        """Return the command, which calls *act* with the flags that were given."""

        @click.pass_context
        def callback(ctx: click.Context, /, **_: object) -> Any:  # noqa: ANN401 - act's result
            told = without_effect(ctx)
            more: Values = {WITHOUT_EFFECT: told} if told else {}
            if ctx.params["feature_gates"]:
                more[FEATURE_GATES] = ",".join(ctx.params["feature_gates"])
            return act(self.settings.given(ctx) | more)

        return GoCommand(
            self.name,
            params=[*self.settings.parameters(), FLAG_OPTION],
            other=self.other,
            callback=callback,
            help=self.help,
        )

    def parse(self, args: tuple[str, ...]) -> Values:
        """Return the flags in *args*.

        Raises:
            click.ClickException: they make no command line.
        """
        command, name = self.command(lambda flags: flags), f"numakube {self.name}"
        flags: Values = command.main(list(args), prog_name=name, standalone_mode=False)
        return flags

    def options(self, flags: Values, around: Surroundings) -> OptionsT:
        """Activate the feature gates that *flags* name, and return what else they make.

        Raises:
            ConfigError: they make no sense.
        """
        activate(flags.pop(FEATURE_GATES, ""), around.env)
        return self.read(flags, around)

    async def perform(
        self, args: tuple[str, ...], around: Surroundings, stop: asyncio.Event
    ) -> int:
        """Do what the command line *args* asks for; return the exit code.

        Raises:
            click.ClickException: they make no command line.
            ConfigError: it cannot even start.
        """
        flags = self.parse(args)
        told = flags.pop(WITHOUT_EFFECT, ())
        options = self.options(flags, around)
        tell_without_effect(told)
        return await self.run(options, around, stop)


def tell_without_effect(flags: Sequence[str]) -> None:
    """Say in one line of the log which flags were taken for nothing."""
    if flags:
        _log.warning("flags_without_effect", flags=" ".join(flags))


def load_program(name: str) -> Program[Any]:
    """Return the program *name*, whose code is imported now.

    Raises:
        ModuleNotFoundError: its annex is not installed.
    """
    program: Program[Any]
    if name in PROGRAMS:
        package = name.replace("-", "_")
        program = import_module(f"numakube.apps.{package}.process").PROGRAM
    else:
        from numakube.annexes import Group, load

        program = load(Group.PROGRAMS, name)
    return program
