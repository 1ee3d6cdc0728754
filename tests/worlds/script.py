"""Scenarios as text: what is done to a cluster, and what comes of it.

    # Gangs whose pods have claims of a template start.
    node n0 machine="2 sockets, 4 cores, smt 2, 16Gi, gpu 2" claims=gpu
    scheduler start
    create gang train pods=2 cpu=2 claim=gpu
    wait
    get pods
    ----
    train-0  Running  n0
    train-1  Running  n0

A line is a command: a verb, words, and options as ``name=value``. What the commands above ``----``
print stands below it, up to an empty line.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

_BREAK: Final = "----"
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Command:
    """One thing that is done.

    Attributes:
        words: the verb and what it is about, such as ``("create", "pod", "web")``.
        options: the rest, by name.
    """

    words: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=lambda: _NOTHING)

    @classmethod
    def of(cls, *words: str, **options: object) -> Command:
        """Return a command; options that are empty are left out."""
        told = {key: str(value) for key, value in options.items() if value}
        return cls(words, told)

    @classmethod
    def parse(cls, line: str) -> Command:
        """Read a line."""
        words: list[str] = []
        options: dict[str, str] = {}
        for part in shlex.split(line):
            name, equals, value = part.partition("=")
            if equals and name.replace("-", "").replace(".", "").replace("/", "").isalnum():
                options[name] = value
            else:
                words.append(part)
        return cls(tuple(words), options)

    def __str__(self) -> str:
        """Return the line."""
        parts = [*self.words]
        parts += [
            f'{name}="{text}"' if _is_odd(text) else f"{name}={text}"
            for name, text in self.options.items()
        ]
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Block:
    """Commands, and what they print together."""

    commands: tuple[Command, ...]
    output: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scenario:
    """A whole file.

    Attributes:
        title: what it shows, in sentences.
    """

    title: tuple[str, ...]
    blocks: tuple[Block, ...]

    @classmethod
    def parse(cls, text: str) -> Scenario:
        """Read a file."""
        title: list[str] = []
        blocks: list[Block] = []
        commands: list[Command] = []
        output: list[str] | None = None
        for line in text.splitlines():
            if output is not None and line.strip():
                output.append(line)
            elif output is not None:
                blocks.append(Block(tuple(commands), tuple(output)))
                commands, output = [], None
            elif line == _BREAK:
                output = []
            elif line.startswith("#"):
                title.append(line[1:].strip())
            elif line.strip():
                commands.append(Command.parse(line))
        if commands:
            blocks.append(Block(tuple(commands), tuple(output or ())))
        return cls(tuple(title), tuple(blocks))

    def __str__(self) -> str:
        """Return the file."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield from (f"# {line}" for line in self.title)
        for number, block in enumerate(self.blocks):
            if number or self.title:
                yield ""
            yield from map(str, block.commands)
            yield _BREAK
            yield from block.output


def listed(commands: Iterable[Command]) -> str:
    """Return commands as lines."""
    return "\n".join(map(str, commands))


def _is_odd(text: str) -> bool:
    return any(one in text for one in " ,;'\"")
