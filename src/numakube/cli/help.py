"""``numakube help COMMAND``: the same as ``numakube COMMAND --help``."""

from __future__ import annotations

import click


@click.command("help")
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Explain a command."""
    here = ctx.find_root()
    for word in words:
        group = here.command
        if not isinstance(group, click.Group):
            raise click.UsageError(f"{here.command_path} has no commands below it.")
        name, found, _ = group.resolve_command(here, [word])
        if found is None:
            raise click.UsageError(f"No such command {word!r}.")
        here = click.Context(found, info_name=name, parent=here)
    click.echo(here.get_help())
