"""Every command of the program, by what people come for: ours, and behind them those of annexes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from numakube.annexes import Group, annexes
from numakube.cli.lazy_commands import AnyEntry, Below, Hosted, Lazy, OfAnnex
from numakube.cli.shared.connection_options import give_to_program
from numakube.programs import PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numakube.programs import ProgramEntry

_LOOK: Final = {
    "explain": Lazy("numakube.cli.explain", "Say why a pod is where it is, or nowhere."),
    "top": Lazy("numakube.cli.top", "How full are nodes and NUMA zones, what still fits?"),
    "map": Lazy("numakube.cli.map", "Draw a node and the pods that hold its parts."),
    "doctor": Lazy(
        "numakube.cli.doctor",
        "Check everything that NUMA placement depends on, and say what to do.",
    ),
    "bundle": Lazy("numakube.cli.bundle", "Collect everything about a cluster into one file."),
}
_DEBUG: Final = {
    "debug trace": Lazy("numakube.cli.trace", "Show what happened to a pod."),
    "debug queue": Lazy("numakube.cli.queue", "Show the pods that wait for a node."),
    "debug cache": Lazy("numakube.cli.cache", "Show what schedulers believe about nodes."),
    "debug reservations": Lazy(
        "numakube.cli.reservations", "Show what is reserved where, for which pod, and since when."
    ),
    "debug podresources": Lazy(
        "numakube.cli.podresources", "Show what a kubelet says that its pods hold."
    ),
    "debug resync": Lazy("numakube.cli.resync", "Have schedulers read a node's report again."),
    "debug loglevel": Lazy(
        "numakube.cli.loglevel", "Show what schedulers log, or change it without a restart."
    ),
}
_CHECK: Final = {
    "check cluster": Lazy(
        "numakube.cli.deploying.detect", "What kind of cluster is this, and what is on it?"
    ),
    "check kubelets": Lazy(
        "numakube.cli.deploying.validate", "Are the kubelets set up to align pods?"
    ),
    "check reports": Lazy(
        "numakube.cli.conformance",
        "Do NodeResourceTopologies say what their readers understand?",
    ),
    "check container": Lazy(
        "numakube.cli.align", "Are all resources of this container on one NUMA node?"
    ),
}
_PLAN: Final = {
    "plan admit": Lazy("numakube.cli.admit", "What would this node's kubelet do with these pods?"),
}
_MACHINE: Final = {
    "machine": Lazy("numakube.cli.machine", "Show a machine, or write it in another format."),
}
_DEPLOY: Final = {
    "deploy": Lazy("numakube.cli.deploying.deploy", "Deploy components to a cluster."),
    "remove": Lazy("numakube.cli.deploying.remove", "Remove components from a cluster."),
    "setup": Lazy("numakube.cli.deploying.setup", "Check the kubelets, then deploy."),
}
_MANIFESTS: Final = {
    "manifests render": Lazy("numakube.cli.deploying.render", "Print what would be deployed."),
    "manifests static-pod": Lazy(
        "numakube.cli.deploying.static_pod", "Write the static pod of a main scheduler."
    ),
    "manifests images": Lazy(
        "numakube.cli.deploying.images", "Which images does a deployment need?"
    ),
}
_RUN: Final[dict[str, Lazy | Hosted]] = {
    entry.path: Hosted(name, entry.summary) for name, entry in PROGRAMS.items()
}
# It has a command of its own below it.
_RUN["run extender"] = Lazy("numakube.cli.extender", PROGRAMS["extender"].summary)
_REPLAY: Final = {
    "replay": Lazy("numakube.cli.replay", "Answer recorded cases and compare with the recording."),
}
_PROGRAM: Final = {
    "completion": Lazy("numakube.cli.completion", "Print the completion script of a shell."),
    "version": Lazy("numakube.cli.version", "Print the versions of this program and the server."),
    "help": Lazy("numakube.cli.help", "Explain a command."),
}

COMMANDS: Final[dict[str, AnyEntry]] = {
    **_LOOK,
    **_DEBUG,
    **_CHECK,
    **_PLAN,
    **_MACHINE,
    **_DEPLOY,
    **_MANIFESTS,
    **_RUN,
    **_REPLAY,
    **_PROGRAM,
}
"""Those of the heart, by the words that call them: ``top``, ``debug queue``."""

GROUPS: Final = {
    "check": "Is it right: the cluster, kubelets, reports, pods, manifests?",
    "plan": "What would happen with other pods, nodes or settings?",
    "debug": "Look into schedulers and kubelets that run.",
    "manifests": "Print what would be deployed, and which images that needs.",
    "run": "Run a component until it is stopped.",
}
"""What stands before the names of commands, and its line in the list."""

_SECTIONS: Final[dict[str, Iterable[str]]] = {
    "Look": (*_LOOK, "debug"),
    "Check and plan": ("check", "plan", *_MACHINE),
    "Deploy": (*_DEPLOY, "manifests", "run"),
    "Lab": tuple(_REPLAY),
}
_LAST: Final = "This program"

_OLD_NAMES: Final = {
    "trace": "debug trace",
    "cache": "debug cache",
    "reservations": "debug reservations",
    "podresources": "debug podresources",
    "resync": "debug resync",
    "loglevel": "debug loglevel",
    "detect": "check cluster",
    "validate": "check kubelets",
    "conformance": "check reports",
    "align": "check container",
    "admit": "plan admit",
    "render": "manifests render",
    "static-pod": "manifests static-pod",
    "images": "manifests images",
}
"""What commands were called before version 1.0; these names go with version 2.0."""

_SHORT_NAMES: Final = {"queue": "debug queue"} | {
    name: entry.path for name, entry in PROGRAMS.items()
}
"""Names that stay, since containers and scripts call them."""


def joined() -> dict[str, AnyEntry]:
    """Return the commands that annexes add, programs among them."""
    commands: dict[str, AnyEntry] = {}
    for annex in annexes():
        commands |= {entry.path: Hosted(entry.name, entry.summary) for entry in annex.programs}
        commands |= {
            added.name: OfAnnex(Group.COMMANDS, added.name, added.summary)
            for added in annex.commands
        }
    return commands


def first_words() -> dict[str, AnyEntry]:
    """Return what can stand first of ours: commands, and the groups of commands."""
    groups: dict[str, AnyEntry] = {
        name: Below(
            name,
            summary,
            below(name, COMMANDS),
            partial(_joined_below, name),
            give_to_program if name == "run" else None,
        )
        for name, summary in GROUPS.items()
    }
    return {**below("", COMMANDS), **groups}


def below(group: str, commands: Mapping[str, AnyEntry]) -> dict[str, AnyEntry]:
    """Return those of *commands* that are in *group*, by their own names; "" for in none."""
    return {
        own: entry
        for path, entry in commands.items()
        for first, _, own in [path.rpartition(" ")]
        if first == group
    }


def _joined_below(group: str) -> dict[str, AnyEntry]:
    return below(group, joined())


def joined_first_words() -> dict[str, AnyEntry]:
    """Return what annexes add that is in no group."""
    return _joined_below("")


def sections() -> dict[str, tuple[str, ...]]:
    """Return what people come for, and what can stand first for it; ours come first."""
    names = {title: [*commands] for title, commands in _SECTIONS.items()}
    for annex in annexes():
        for entry in annex.programs:
            if entry.path == entry.name:
                names.setdefault(entry.section, []).append(entry.name)
        for added in annex.commands:
            if " " not in added.name:
                names.setdefault(added.section, []).append(added.name)
    names[_LAST] = [*_PROGRAM]
    return {title: tuple(commands) for title, commands in names.items()}


@dataclass(frozen=True, slots=True)
class Renamed:
    """How a command is called now, and whether whoever used another name is told so."""

    path: str
    told: bool


def renamed(name: str) -> Renamed | None:
    """Return what another name than that in the list means, if it means anything."""
    if name in _SHORT_NAMES:
        return Renamed(_SHORT_NAMES[name], told=False)
    if name in _OLD_NAMES:
        return Renamed(_OLD_NAMES[name], told=True)
    if name in COMMANDS:
        return None
    return _joined_renamed().get(name)


def _joined_renamed() -> dict[str, Renamed]:
    found: dict[str, Renamed] = {}
    for annex in annexes():
        for entry in annex.programs:
            if entry.path != entry.name:
                found[entry.name] = Renamed(entry.path, told=False)
        for added in annex.commands:
            if added.old_name:
                found[added.old_name] = Renamed(added.name, told=True)
    return found


def other_names() -> dict[str, Renamed]:
    """Return every name that commands have besides those in the list."""
    old = {name: Renamed(path, told=True) for name, path in _OLD_NAMES.items()}
    short = {name: Renamed(path, told=False) for name, path in _SHORT_NAMES.items()}
    return {**old, **short, **_joined_renamed()}


def path_in(words: Sequence[str]) -> str | None:
    """Return the command that a command line calls, by what is in the list."""
    known = {**COMMANDS, **joined()}
    others = other_names()
    for place, word in enumerate(words):
        if " ".join(words[place : place + 2]) in known:
            return " ".join(words[place : place + 2])
        if word in others:
            return others[word].path
        if word in known:
            return word
    return None


def program_called(words: Sequence[str]) -> ProgramEntry | None:
    """Return the program that *words* begin with, if it is one and no other command."""
    name = words[1] if words[:1] == ["run"] and len(words) > 1 else next(iter(words), "")
    if name in PROGRAMS:
        return PROGRAMS[name]
    if name in below("", COMMANDS) or name in GROUPS or name in _OLD_NAMES:
        return None
    return next(
        (entry for annex in annexes() for entry in annex.programs if entry.name == name), None
    )
