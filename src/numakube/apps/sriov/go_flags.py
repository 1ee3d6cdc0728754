"""Flags of the SR-IOV network device plugin, in every form in which it takes them.

Go programs take flags with one dash as well as with two; so does this one, for upstream's flags.
Some of them mean nothing here and are taken all the same.
"""

from __future__ import annotations

from typing import Any, Final

import click

_IGNORED_VALUES: Final = (
    "log-dir",
    "log_dir",
    "log_backtrace_at",
    "stderrthreshold",
    "vmodule",
    "log_link",
    "logbuflevel",
)
_IGNORED_SWITCHES: Final = ("logtostderr", "alsologtostderr")


class GoFlags(click.Command):
    """A command whose options may be written as Go programs take them."""

    def __init__(self, name: str, *, params: list[click.Parameter], **attributes: Any) -> None:  # noqa: ANN401 - click's
        super().__init__(name, params=[*params, *_ignored()], **attributes)

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


def _ignored() -> list[click.Parameter]:
    """Return upstream's flags that mean nothing here, so that its command lines work unchanged."""
    switches = len(_IGNORED_VALUES)
    return [
        click.Option([f"--{name}", f"ignored_{number}"], is_flag=number >= switches, hidden=True)
        for number, name in enumerate((*_IGNORED_VALUES, *_IGNORED_SWITCHES))
    ]
