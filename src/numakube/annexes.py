"""Annexes: distributions that join numakube by entry points, and what each of them adds.

The heart names no annex. What an annex adds stands in two places of its own folder: in its manifest
(an `Annex`) as words, which help and completion show without importing more of it, and in its
``pyproject.toml`` as entry points of the groups in `Group`, which say where the code is. The annex
NAME is the distribution ``numakube-NAME`` with the package ``numakube_NAME``, in which a hyphen is
an underscore.

`numakube.annex_index` has the manifests of all annexes of this repository, so that a command of one
that is not installed can say which extra brings it.

Entry points are read here and not by `importlib.metadata`: to import that takes 30 ms of a core,
for its readers of mail and archives, and ``numakube --help`` takes 80 ms in all; pathlib is left
out for the same reason.
"""

# ruff: noqa: PTH118, PTH119, PTH123

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from numakube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.programs import FeatureGate, ProgramEntry

_INFO: Final = ".dist-info"
_MOST_BYTES: Final = 1 << 20
"""More than any list of entry points has; what is longer is none."""


class Group(StrEnum):
    """The groups of entry points by which an annex joins, and what an object in each is.

    Attributes:
        ANNEXES: an `Annex`, in a module that imports nothing but this one and `numakube.programs`.
        PROGRAMS: a `numakube.apps.host.program.Program`.
        COMMANDS: a `click.Command`; one below a group is called ``GROUP NAME``.
        PLUGINS: a factory of plugins of the scheduler, which profiles name.
        CHECKS: a module with ``RULES`` and ``CHECKS``, an area of the doctor.
        EXPLAINERS: a `numakube.insight.explain.explained_pod.Addition`.
        REPLAYS: a `click.Command` below ``numakube replay``.
        MANIFESTS: a function that makes the objects of a component of `numakube deploy`.
        COMPANIONS: a `numakube.manifests.controller_deployment.ControllerManifest`.
        NODE_GROUPS: a `numakube.apps.operator.group_additions.GroupAddition`.
        ENDPOINTS: a function that makes `numakube.apps.debugging.annex_endpoints.Endpoints`.
        DRAWINGS: a `numakube.insight.node_map.picture.Drawing`, a format of maps of nodes.
        DEFINITIONS: a function that makes a custom resource definition, instead of one of ours.
        ALLOTMENTS: a `numakube.topology.allotments.AllotmentReader`.
        PLUGIN_EXPLAINERS: a `numakube.insight.explain.plugin_explainer.PluginExplainer`, called as
            the plugin of the scheduler is that it explains.
        REPORT_ANNOTATIONS: a `numakube.apps.exporter.report_annotations.ReportAnnotations`.
        POD_KINDS: a function that makes the pod, as plain data, of an object of the kind that it is
            called as, read from a file; it raises MalformedObject.
        OBSERVATIONS: a `numakube.insight.observations.Observer`, called as the option is that has
            tables and maps show what it knows.
    """

    ANNEXES = "numakube.annexes"
    PROGRAMS = "numakube.programs"
    COMMANDS = "numakube.commands"
    PLUGINS = "numakube.scheduling.plugins"
    CHECKS = "numakube.checks"
    EXPLAINERS = "numakube.explainers"
    REPLAYS = "numakube.replays"
    MANIFESTS = "numakube.manifests"
    COMPANIONS = "numakube.companions"
    NODE_GROUPS = "numakube.node_groups"
    ENDPOINTS = "numakube.endpoints"
    DRAWINGS = "numakube.drawings"
    DEFINITIONS = "numakube.definitions"
    ALLOTMENTS = "numakube.allotments"
    PLUGIN_EXPLAINERS = "numakube.plugin_explainers"
    REPORT_ANNOTATIONS = "numakube.report_annotations"
    POD_KINDS = "numakube.pod_kinds"
    OBSERVATIONS = "numakube.observations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """One thing that an annex adds, and its line in lists of such things.

    Attributes:
        section: where the help lists a command; not of one below a group, ``plan defrag``.
        old_name: what a command was called before; it works for one more release.
        extra: what has all that it needs, if that is more than the annex itself.
        on_request: whether ``numakube deploy all`` leaves a component out.
        path: where an endpoint answers.
        by_default: whether profiles have a plugin unless they disable it.
        weight: of a plugin's scores in such profiles; 0 for 1.
        uses_reports: whether a component reads or writes reports, so that their kind has to stay.
    """

    name: str
    summary: str
    section: str = ""
    old_name: str = ""
    extra: str = ""
    on_request: bool = False
    path: str = ""
    by_default: bool = False
    weight: int = 0
    uses_reports: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Annex:
    """The manifest of an annex: what it adds, and what it follows.

    Attributes:
        name: also of its folder in ``packages``.
        summary: what it is for, in a sentence.
        extra: what ``pip install 'numakube[EXTRA]'`` brings it by.
        follows: the project and version whose behaviour it has, if there is one.
        pages: its documentation, below ``docs``.
        programs: each is a command too.
        explainers: what each adds to the explanation of a pod.
        companions: fields of a NUMAResourcesScheduler for which it makes objects.
        node_groups: fields of an operator's node groups for which it makes objects.
        endpoints: paths in the servers of schedulers, extenders and labs.
        drawings: formats of maps of nodes, as ``-o`` has them.
        examples: of its commands by their names, as in `numakube.cli.examples`.
    """

    name: str
    summary: str
    extra: str
    follows: str = ""
    pages: tuple[str, ...] = ()
    programs: tuple[ProgramEntry, ...] = ()
    commands: tuple[Added, ...] = ()
    plugins: tuple[Added, ...] = ()
    checks: tuple[Added, ...] = ()
    explainers: tuple[Added, ...] = ()
    replays: tuple[Added, ...] = ()
    manifests: tuple[Added, ...] = ()
    companions: tuple[Added, ...] = ()
    node_groups: tuple[Added, ...] = ()
    endpoints: tuple[Added, ...] = ()
    drawings: tuple[Added, ...] = ()
    definitions: tuple[Added, ...] = ()
    allotments: tuple[Added, ...] = ()
    plugin_explainers: tuple[Added, ...] = ()
    report_annotations: tuple[Added, ...] = ()
    pod_kinds: tuple[Added, ...] = ()
    observations: tuple[Added, ...] = ()
    feature_gates: tuple[FeatureGate, ...] = ()
    examples: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def package(self) -> str:
        """What it is imported as."""
        return f"numakube_{self.name.replace('-', '_')}"

    @property
    def is_installed(self) -> bool:
        """Whether it is here."""
        return self.name in points(Group.ANNEXES)

    def called(self) -> tuple[str, ...]:
        """Return the words that call its programs and commands."""
        return (
            *(program.path for program in self.programs),
            *(command.name for command in self.commands),
        )

    def extra_of(self, path: str) -> str:
        """Return the extra that has all that one of its programs or commands needs."""
        needed = {program.path: program.extra for program in self.programs}
        needed |= {command.name: command.extra for command in self.commands}
        return needed.get(path, "") or self.extra

    def added(self, group: Group) -> tuple[Added | ProgramEntry, ...]:
        """Return what it adds to *group*."""
        things: tuple[Added | ProgramEntry, ...] = getattr(self, group.name.lower())
        return things


def annexes() -> tuple[Annex, ...]:
    """Return every annex by name: those of this repository, and others that are installed."""
    from numakube.annex_index import ANNEXES

    by_name = {annex.name: annex for annex in ANNEXES}
    for name in points(Group.ANNEXES):
        if name not in by_name:
            by_name[name] = load(Group.ANNEXES, name)
    return tuple(by_name[name] for name in sorted(by_name))


def added_to(group: Group) -> dict[str, Annex]:
    """Return the annex of everything that annexes add to *group*, by name: annex after annex."""
    return {thing.name: annex for annex in annexes() for thing in annex.added(group)}


def programs() -> dict[str, ProgramEntry]:
    """Return every program: ours, and those of annexes."""
    from numakube.programs import PROGRAMS

    return {**PROGRAMS, **{entry.name: entry for annex in annexes() for entry in annex.programs}}


@cache
def feature_gates() -> Mapping[str, FeatureGate]:
    """Return every feature gate by name: ours, and those of annexes."""
    from numakube.programs import FEATURE_GATES

    ours = [*FEATURE_GATES, *(gate for annex in annexes() for gate in annex.feature_gates)]
    return MappingProxyType({gate.name: gate for gate in sorted(ours, key=lambda gate: gate.name)})


def points(group: Group) -> Mapping[str, str]:
    """Return what is installed of *group* by name, as ``module:object``, in order of names."""
    return _points(tuple(sys.path)).get(group, {})


def load(group: Group, name: str) -> Any:  # noqa: ANN401 - `Group` says what it is
    """Import what is called *name* in *group*.

    Raises:
        ModuleNotFoundError: its annex is not installed.
    """
    place = points(group).get(name)
    if place is None:
        annex = added_to(group)[name]
        raise ModuleNotFoundError(f"{annex.package} is not installed", name=annex.package)
    module, _, path = place.partition(":")
    loaded: Any = import_module(module)
    for attribute in path.split(".") if path else ():
        loaded = getattr(loaded, attribute)
    return loaded


def loaded(group: Group) -> dict[str, Any]:
    """Import everything in *group* that is installed; in order of names.

    What is left of the list of a distribution whose package is gone counts for nothing.
    """
    found: dict[str, Any] = {}
    for name, place in points(group).items():
        try:
            found[name] = load(group, name)
        except ModuleNotFoundError as error:
            if error.name != place.partition(".")[0]:
                raise
    return found


@cache
def _points(path: tuple[str, ...]) -> Mapping[str, Mapping[str, str]]:
    """Return the entry points of our groups, below *path*."""
    wanted = frozenset(Group)
    found: dict[str, dict[str, str]] = {}
    whose: dict[tuple[str, str], str] = {}
    for distribution, text in sorted(_texts(path).items()):
        for group, name, place in _lines(text):
            if group not in wanted:
                continue
            other = whose.setdefault((group, name), distribution)
            if other != distribution:
                raise ConfigError(
                    f"{distribution} and {other} both add {name!r} to {group}: uninstall one"
                )
            found.setdefault(group, {})[name] = place
    return {group: dict(sorted(names.items())) for group, names in found.items()}


def _texts(path: tuple[str, ...]) -> dict[str, str]:
    """Return the list of entry points of each distribution below *path* that has any of ours.

    Of a distribution that is there twice the first counts, as it does for imports.
    """
    texts: dict[str, str] = {}
    for folder in path:
        for info in _infos(folder or os.curdir):
            distribution = os.path.basename(info).partition("-")[0].lower()
            if distribution not in texts:
                texts[distribution] = _text_of(info)
    return {distribution: text for distribution, text in texts.items() if "[numakube." in text}


def _infos(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.path for entry in entries if entry.name.endswith(_INFO))
    except OSError:  # nothing there, or an archive
        return []


def _text_of(info: str) -> str:
    try:
        with open(os.path.join(info, "entry_points.txt"), encoding="utf-8") as file:
            return file.read(_MOST_BYTES)
    except (OSError, UnicodeDecodeError):  # most distributions have none
        return ""


def _lines(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield group, name and place of every entry point in *text*."""
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            group = line.strip("[]")
        elif "=" in line and not line.startswith(("#", ";")):
            name, _, place = line.partition("=")
            yield group, name.strip(), place.partition("[")[0].strip()
