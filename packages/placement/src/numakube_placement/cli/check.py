"""``numakube check manifests``: are the NUMA annotations and labels in manifests right?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from numakube.api.yaml_text import load_manifests
from numakube.cli.shared.machine_argument import read_text
from numakube.cli.shared.output_option import Output, output_option, print_document
from numakube.cli.shared.terminal import say
from numakube.errors import MalformedObject
from numakube_placement.koordinator.annotation_checks import findings_in

if TYPE_CHECKING:
    from collections.abc import Iterator

FOUND: Final = 1
UNUSABLE: Final = 2
_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})


@dataclass(frozen=True, slots=True)
class ManifestFinding:
    """One thing that is wrong: ``Pod shop/web: metadata.annotations[...]...: unknown word``."""

    file: str
    object: str
    message: str


@dataclass(slots=True)
class _Tally:
    """What has been seen so far."""

    objects: int
    findings: list[ManifestFinding]
    unusable: list[str]


@click.command("check")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@output_option(Output.TABLE, Output.JSON, Output.YAML)
def command(*, files: tuple[str, ...], output: Output) -> int:
    """Are NUMA annotations and labels in manifests right?

    Reads files, all .yaml, .yml and .json files below directories, and standard input (-). Looks at
    Pods, at the templates of Deployments, StatefulSets, DaemonSets, ReplicaSets, Jobs and CronJobs,
    and at Nodes; other kinds are ignored. Exits with 1 if something is wrong, and with 2 if
    something cannot be read.
    """
    tally = _Tally(0, [], [])
    for file in files:
        _check(file, tally)
    _report(tally, output)
    return UNUSABLE if tally.unusable else FOUND if tally.findings else 0


def _check(argument: str, tally: _Tally) -> None:
    """Check what *argument* names."""
    try:
        for file in _files_of(argument):
            _check_file(file, tally)
    except OSError as error:
        tally.unusable.append(f"{error.filename or argument}: {error.strerror}")


def _files_of(argument: str) -> Iterator[str]:
    path = Path(argument)
    if argument == "-" or not path.is_dir():
        yield argument
        return
    below = sorted(
        other for other in path.rglob("*") if other.suffix in _SUFFIXES and other.is_file()
    )
    if not below:
        raise FileNotFoundError(0, f"no {', '.join(sorted(_SUFFIXES))} file below", argument)
    yield from map(str, below)


def _check_file(file: str, tally: _Tally) -> None:
    subject = "standard input" if file == "-" else file
    try:
        trees = load_manifests(read_text(file), subject)
    except MalformedObject as error:
        tally.unusable.append(str(error))
        return
    for tree in trees:
        if not isinstance(tree, dict):
            tally.unusable.append(f"{subject}: each item of a list must be an object")
            continue
        found = findings_in(tree)
        if found is not None:
            tally.objects += 1
            tally.findings += [ManifestFinding(subject, _name_of(tree), line) for line in found]


def _name_of(tree: dict[str, Any]) -> str:
    """Return what an object is called: ``Pod shop/web``."""
    meta = tree.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    name = meta.get("name") or meta.get("generateName") or "<unnamed>"
    place = f"{meta['namespace']}/" if meta.get("namespace") else ""
    return f"{tree.get('kind')} {place}{name}"


def _report(tally: _Tally, output: Output) -> None:
    for line in tally.unusable:
        click.echo(f"error: {line}", err=True)
    if output is not Output.TABLE:
        found = [asdict(finding) for finding in tally.findings]
        print_document({"objects": tally.objects, "findings": found}, output)
        return
    for finding in tally.findings:
        say(f"{finding.object}: {finding.message}")
    if not tally.findings and not tally.unusable:
        plural = "" if tally.objects == 1 else "s"
        click.echo(f"nothing is wrong with {tally.objects} object{plural}")
