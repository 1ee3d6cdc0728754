"""``numakube completion SHELL``, and the answers to kubectl's own completion.

For ``numakube``, click's scripts are printed. kubectl instead runs ``kubectl_complete-numa`` with
the words typed so far and the incomplete one, and reads a candidate a line and a last line with a
directive: ``:4`` forbids falling back to file names, ``:0`` allows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import ShellComplete, get_completion_class

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NO_FILES: Final = ":4"
FILES: Final = ":0"
VARIABLE: Final = "_NUMAKUBE_COMPLETE"

SHELLS: Final = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", metavar="SHELL", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash   eval "$(numakube completion bash)"   in ~/.bashrc
    zsh    eval "$(numakube completion zsh)"   in ~/.zshrc
    fish   numakube completion fish > ~/.config/fish/completions/numakube.fish

    `kubectl numa` is completed by kubectl itself if both kubectl-numa and kubectl_complete-numa
    are on the PATH.
    """  # noqa: D301 - click wants the control character
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    root = ctx.find_root().command
    click.echo(kind(root, {}, "numakube", VARIABLE).source())


def kubectl_candidates(root: click.Command, words: Sequence[str]) -> Iterator[str]:
    """Yield the lines with which ``kubectl_complete-numa`` answers."""
    *typed, incomplete = words or [""]
    complete = ShellComplete(root, {}, "kubectl numa", VARIABLE)
    try:
        items = complete.get_completions(list(typed), incomplete)
    except ModuleNotFoundError:  # of a command whose extra is not installed
        items = []
    yield from (item.value for item in items if item.type == "plain")
    yield FILES if any(item.type != "plain" for item in items) else NO_FILES
