"""``numakube help COMMAND``, the same as ``numakube COMMAND --help``; and ``help topic NAME``."""

from __future__ import annotations

from typing import Final

import click

_TOPIC: Final = ("topic", "topics")


@click.command("help")
@click.argument("words", metavar="[COMMAND]...|topic [NAME]", nargs=-1)
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Explain a command, or what several commands have in common.

    `help topic` lists what there is to know besides commands: how pods and machines are named, what
    is read instead of a live cluster, exit codes.
    """
    if words[:1] and words[0] in _TOPIC:
        click.echo(_topics(words[1:]))
        return
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


def _topics(names: tuple[str, ...]) -> str:
    """Return the text of the topic that is named, or the list of all."""
    from numakube.cli.help_topics import TOPICS

    if not names:
        width = max(map(len, TOPICS))
        return "\n".join(f"{name:<{width}}  {topic.summary}" for name, topic in TOPICS.items())
    topic = TOPICS.get(names[0])
    if topic is None or len(names) > 1:
        raise click.UsageError(f"No topic {' '.join(names)!r}; there are {', '.join(TOPICS)}.")
    return topic.text
