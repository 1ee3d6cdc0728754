"""``numakube help COMMAND``: the same as ``numakube COMMAND --help``."""

from __future__ import annotations

import click


@click.command("help")
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Explain a command."""
    here, left = ctx.find_root(), [*words]
    while left:
        group = here.command
        if not isinstance(group, click.Group):
            raise click.UsageError(f"{here.command_path} has no commands below it.")
        name, found, left = group.resolve_command(here, left)
        if found is None:
            raise click.UsageError(f"No such command {name!r}.")
        here = click.Context(found, info_name=name, parent=here)
    click.echo(here.get_help())
