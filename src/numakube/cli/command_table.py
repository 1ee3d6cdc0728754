"""Every command of the program, by what people come for."""

from __future__ import annotations

from typing import Final

from numakube.cli.lazy_commands import LAB, Contributed, Hosted, Lazy
from numakube.programs import PROGRAMS

_LOOK: Final[dict[str, Lazy | Hosted]] = {
    "explain": Lazy("numakube.cli.explain", "Say why a pod is where it is, or nowhere."),
    "top": Lazy("numakube.cli.top", "How full are nodes and NUMA zones, what still fits?"),
    "fits": Lazy(
        "numakube.cli.fits", "How many more of these pods fit, where, and what limits the next one?"
    ),
    "map": Lazy("numakube.cli.map", "Draw a node and the pods that hold its parts."),
    "doctor": Lazy(
        "numakube.cli.doctor",
        "Check everything that NUMA placement depends on, and say what to do.",
    ),
    "audit": Lazy("numakube.cli.audit", "Which pods want alignment and do not have it?"),
    "dashboard": Hosted("dashboard", PROGRAMS["dashboard"].summary),
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
    "simulate": Lazy("numakube.cli.simulate", "What would become of pods on a cluster?"),
    "advise": Lazy("numakube.cli.advise", "Which smaller request gives a pod more places?"),
    "defrag": Lazy("numakube.cli.defrag", "Which pods would have to move so that these fit?"),
    "check": Lazy("numakube.cli.check", "Are NUMA annotations and labels in manifests right?"),
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
_LAB: Final = {
    "lab": Contributed("lab", LAB, "Run a cluster with NUMA nodes in one process."),
    "demo": Contributed("demo", LAB, "Place the same pods with and without NUMA awareness."),
}
_PROGRAM: Final = {
    "completion": Lazy("numakube.cli.completion", "Print the completion script of a shell."),
    "version": Lazy("numakube.cli.version", "Print the versions of this program and the server."),
    "help": Lazy("numakube.cli.help", "Explain a command."),
}

COMMANDS: Final[dict[str, Lazy | Hosted | Contributed]] = {
    **_LOOK, **_PLAN, **_DEPLOY, **_RUN, **_LAB, **_PROGRAM,
}  # fmt: skip
SECTIONS: Final = {
    "Look": tuple(_LOOK),
    "Plan": tuple(_PLAN),
    "Deploy": tuple(_DEPLOY),
    "Run": tuple(_RUN),
    "Lab": tuple(_LAB),
    "This program": tuple(_PROGRAM),
}
