"""Makes a world that fails smaller, for as long as the same oracle still finds something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.worlds.play import played
from tests.worlds.quiet_loop import run
from tests.worlds.script import Command

_NEEDED = {"node": {"machine"}, "create": {"cpu"}}
"""Options that are kept, by the verb of the command."""


def shrunk(commands: Sequence[Command], seed: object, oracle: str) -> list[Command]:
    """Return as few commands as still make *oracle* find something, each as short as can be."""
    kept = list(commands)
    size = max(1, len(kept) // 2)
    while size:
        smaller = next((one for one in _without(kept, size) if _fails(one, seed, oracle)), None)
        if smaller is None:
            size //= 2
        else:
            kept = smaller
    for place in range(len(kept)):
        for option in list(kept[place].options):
            simpler = _simplified(kept, place, option)
            if simpler != kept and _fails(simpler, seed, oracle):
                kept = simpler
    return kept


def _without(commands: list[Command], size: int) -> Iterator[list[Command]]:
    for start in range(len(commands) - size, -1, -size):
        yield commands[:start] + commands[start + size :]


def _simplified(commands: list[Command], place: int, option: str) -> list[Command]:
    command = commands[place]
    if option in _NEEDED.get(command.words[0], ()):
        return commands
    options = {key: text for key, text in command.options.items() if key != option}
    return [*commands[:place], Command(command.words, options), *commands[place + 1 :]]


def _fails(commands: Sequence[Command], seed: object, oracle: str) -> bool:
    """Tell whether *oracle* finds something; a world that cannot even be played does not count."""
    try:
        found = run(played(commands, seed=seed))
    except Exception:
        return False
    return any(finding.oracle == oracle for finding in found)
