"""Every command of the program, by what people come for: ours, and behind them those of annexes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.annexes import Group, annexes
from numakube.cli.lazy_commands import AnyEntry, Hosted, Lazy, OfAnnex
from numakube.programs import PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.programs import ProgramEntry

_LOOK: Final[dict[str, Lazy | Hosted]] = {
    "explain": Lazy("numakube.cli.explain", "Say why a pod is where it is, or nowhere."),
    "top": Lazy("numakube.cli.top", "How full are nodes and NUMA zones, what still fits?"),
    "map": Lazy("numakube.cli.map", "Draw a node and the pods that hold its parts."),
    "doctor": Lazy(
        "numakube.cli.doctor",
        "Check everything that NUMA placement depends on, and say what to do.",
    ),
    "trace": Lazy("numakube.cli.trace", "Show what happened to a pod."),
    "queue": Lazy("numakube.cli.queue", "Show the pods that wait for a node."),
    "cache": Lazy("numakube.cli.cache", "Show what schedulers believe about nodes."),
    "reservations": Lazy(
        "numakube.cli.reservations", "Show what is reserved where, for which pod, and since when."
    ),
    "podresources": Lazy(
        "numakube.cli.podresources", "Show what a kubelet says that its pods hold."
    ),
    "resync": Lazy("numakube.cli.resync", "Have schedulers read a node's report again."),
    "loglevel": Lazy(
        "numakube.cli.loglevel", "Show what schedulers log, or change it without a restart."
    ),
    "bundle": Lazy("numakube.cli.bundle", "Collect everything about a cluster into one file."),
}
_PLAN: Final = {
    "admit": Lazy("numakube.cli.admit", "What would this node's kubelet do with these pods?"),
    "conformance": Lazy(
        "numakube.cli.conformance",
        "Do NodeResourceTopologies say what their readers understand?",
    ),
    "align": Lazy("numakube.cli.align", "Are all resources of this container on one NUMA node?"),
    "machine": Lazy("numakube.cli.machine", "Show a machine, or write it in another format."),
    "replay": Lazy("numakube.cli.replay", "Answer recorded cases and compare with the recording."),
}
_DEPLOY: Final = {
    "detect": Lazy(
        "numakube.cli.deploying.detect", "What kind of cluster is this, and what is on it?"
    ),
    "validate": Lazy("numakube.cli.deploying.validate", "Are the kubelets set up to align pods?"),
    "setup": Lazy("numakube.cli.deploying.setup", "Check the kubelets, then deploy."),
    "deploy": Lazy("numakube.cli.deploying.deploy", "Deploy components to a cluster."),
    "remove": Lazy("numakube.cli.deploying.remove", "Remove components from a cluster."),
    "render": Lazy("numakube.cli.deploying.render", "Print what would be deployed."),
    "static-pod": Lazy(
        "numakube.cli.deploying.static_pod", "Write the static pod of a main scheduler."
    ),
    "images": Lazy("numakube.cli.deploying.images", "Which images does a deployment need?"),
}
_RUN: Final[dict[str, Lazy | Hosted]] = {
    name: Hosted(name, entry.summary) for name, entry in PROGRAMS.items() if name not in _LOOK
}
# It has a command of its own below it.
_RUN["extender"] = Lazy("numakube.cli.extender", PROGRAMS["extender"].summary)
_PROGRAM: Final = {
    "completion": Lazy("numakube.cli.completion", "Print the completion script of a shell."),
    "version": Lazy("numakube.cli.version", "Print the versions of this program and the server."),
    "help": Lazy("numakube.cli.help", "Explain a command."),
}

COMMANDS: Final[dict[str, AnyEntry]] = {**_LOOK, **_PLAN, **_DEPLOY, **_RUN, **_PROGRAM}
"""Those of the heart."""

_SECTIONS: Final[dict[str, Iterable[str]]] = {
    "Look": _LOOK,
    "Plan": _PLAN,
    "Deploy": _DEPLOY,
    "Run": _RUN,
}
_LAST: Final = "This program"


def joined() -> dict[str, AnyEntry]:
    """Return the commands that annexes add, programs among them."""
    commands: dict[str, AnyEntry] = {}
    for annex in annexes():
        commands |= {entry.name: Hosted(entry.name, entry.summary) for entry in annex.programs}
        commands |= {
            added.name: OfAnnex(Group.COMMANDS, added.name, added.summary)
            for added in annex.commands
        }
    return commands


def sections() -> dict[str, tuple[str, ...]]:
    """Return what people come for, and the commands for it; ours come first."""
    names = {title: [*commands] for title, commands in _SECTIONS.items()}
    for annex in annexes():
        for entry in annex.programs:
            names.setdefault(entry.section, []).append(entry.name)
        for added in annex.commands:
            names.setdefault(added.section, []).append(added.name)
    names[_LAST] = [*_PROGRAM]
    return {title: tuple(commands) for title, commands in names.items()}


def program_called(name: str) -> ProgramEntry | None:
    """Return the program *name*, if it is one and no other command."""
    if name in COMMANDS:
        return PROGRAMS.get(name)
    return next(
        (entry for annex in annexes() for entry in annex.programs if entry.name == name), None
    )
