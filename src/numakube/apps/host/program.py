"""A program: its command line, how its options are read, and what runs.

    PROGRAM = Program(name="gc", about="...", settings=SETTINGS, read=SETTINGS.read, run=run)

`numakube.cli` makes a command of it, and the lab a program of containers; both parse the same
command line, read the same options and run the same code.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

import click
import structlog

from numakube.apps.host.go_flags import NONE, GoCommand, OtherFlags, without_effect
from numakube.programs import PROGRAMS

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Sequence

    from numakube.apps.host.common_settings import LogSettings
    from numakube.apps.host.process_environment import Surroundings
    from numakube.apps.host.settings_sources import SettingsTable, Values


class Options(Protocol):
    """What a program was told; its settings, or something made of them."""

    @property
    def logs(self) -> LogSettings:
        """What is logged, and how."""


OptionsT = TypeVar("OptionsT", bound=Options)

WITHOUT_EFFECT: Final = "flags without effect"
"""Stands beside the settings that were given; no setting is called so."""
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Program(Generic[OptionsT]):
    """A program that runs until it is stopped.

    Attributes:
        name: its name in `numakube.programs`.
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
        return f"{PROGRAMS[self.name].summary}\n\n{self.about}"

    def command(self, act: Callable[[Values], Any]) -> click.Command:
        """Return the command, which calls *act* with the flags that were given."""

        @click.pass_context
        def callback(ctx: click.Context, /, **_: object) -> Any:  # noqa: ANN401 - act's result
            told = without_effect(ctx)
            more = {WITHOUT_EFFECT: told} if told else {}
            return act(self.settings.given(ctx) | more)

        return GoCommand(
            self.name,
            params=self.settings.parameters(),
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
        options = self.read(flags, around)
        tell_without_effect(told)
        return await self.run(options, around, stop)


def tell_without_effect(flags: Sequence[str]) -> None:
    """Say in one line of the log which flags were taken for nothing."""
    if flags:
        _log.warning("flags_without_effect", flags=" ".join(flags))


def load_program(name: str) -> Program[Any]:
    """Return the program *name*, whose code is imported now."""
    package = name.replace("-", "_")
    program: Program[Any] = import_module(f"numakube.apps.{package}.process").PROGRAM
    return program
