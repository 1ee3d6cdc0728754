"""``kubectl numa check reports``: do NodeResourceTopologies say what their readers understand?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from numakube.cli.shared.cluster_options import cluster_options, collected_for
from numakube.cli.shared.kubectl_names import names_argument
from numakube.cli.shared.output_option import Output, output_option, print_document
from numakube.cli.shared.terminal import say
from numakube.errors import ConfigError
from numakube.values.display import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numakube.cli.shared.connection_options import ClusterOptions
    from numakube.topology.conformance import BrokenRule

_API_VERSION: Final = "insight.numakube.dev/v1alpha1"
_KIND: Final = "NodeResourceTopology"


@dataclass(frozen=True, slots=True)
class _Checked:
    """An object, and what is wrong with it."""

    name: str
    findings: list[BrokenRule]

    def count(self, severity: str) -> int:
        return sum(finding.rule.severity == severity for finding in self.findings)


@click.command("conformance")
@names_argument("node", metavar="[NODE]...")
@cluster_options
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE",
    help="Check the objects of this file (- for standard input) instead of a cluster's.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings too.")
@click.option("--list-rules", is_flag=True, help="List the rules, and exit.")
@output_option(Output.TABLE, Output.JSON, Output.YAML)
def command(
    *,
    what: str,
    names: tuple[str, ...],
    cluster: ClusterOptions,
    files: tuple[str, ...],
    strict: bool,
    list_rules: bool,
    output: Output,
) -> int:
    """Do NodeResourceTopologies say what their readers understand?

    For authors of programs that write them: problems are reported field by field. Looks at all
    objects of the cluster, at those of the named nodes, or at those in files, where other kinds are
    ignored. Exits with 1 if there are errors; a problem that only affects some readers is a
    warning.
    """
    del what
    if list_rules:
        _print_rules()
        return 0
    from numakube.topology.conformance import findings_in

    trees = _in_files(files) if files else _in_cluster(cluster)
    chosen = [tree for tree in trees if not names or _name_of(tree) in names]
    if absent := sorted(set(names) - {_name_of(tree) for tree in chosen}):
        raise ConfigError(f"there is no {_KIND} {absent[0]}")
    if not chosen:
        raise ConfigError(f"there is no {_KIND} to check")
    checked = [_Checked(_name_of(tree), findings_in(tree)) for tree in chosen]
    _print(checked, output)
    counted_ones = ("error", "warning") if strict else ("error",)
    return int(any(other.count(severity) for other in checked for severity in counted_ones))


def _in_files(files: Sequence[str]) -> list[dict[str, Any]]:
    from numakube.api.yaml_text import load_manifests
    from numakube.cli.shared.machine_argument import read_text

    trees: list[dict[str, Any]] = []
    for file in files:
        subject = "standard input" if file == "-" else file
        for tree in load_manifests(read_text(file), subject):
            if not isinstance(tree, dict):
                raise ConfigError(f"{subject}: each item of a list must be an object")
            trees += [tree] if tree.get("kind") == _KIND else []
    return trees


def _in_cluster(cluster: ClusterOptions) -> list[dict[str, Any]]:
    from numakube.api.codec import decode_tree
    from numakube.insight.collected import TOPOLOGIES, list_file

    collected = collected_for(cluster, what=[TOPOLOGIES])
    content = collected.files.get(list_file(TOPOLOGIES))
    if content is None:
        raise ConfigError(f"the cluster has no {TOPOLOGIES}, or you may not list them")
    listing = decode_tree(content, TOPOLOGIES)
    # The items of a list leave out what the list says.
    version = {"apiVersion": listing.get("apiVersion"), "kind": _KIND}
    return [{**version, **item} for item in listing.get("items") or ()]


def _name_of(tree: Mapping[str, Any]) -> str:
    metadata = tree.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, dict) else ""


def _print(checked: Sequence[_Checked], output: Output) -> None:
    if output is not Output.TABLE:
        print_document(_document(checked), output)
        return
    for other in checked:
        for finding in other.findings:
            rule = finding.rule
            say(f"{other.name}: {finding.field}: {rule.severity}: {finding.message} [{rule.id}]")
    errors, warnings = (
        sum(other.count(kind) for other in checked) for kind in ("error", "warning")
    )
    objects = counted(len(checked), "object")
    click.echo(f"{objects}: {counted(errors, 'error')}, {counted(warnings, 'warning')}")


def _document(checked: Sequence[_Checked]) -> dict[str, Any]:
    return {
        "apiVersion": _API_VERSION,
        "kind": "ConformanceReport",
        "items": [
            {
                "name": other.name,
                "conformant": not other.count("error"),
                "findings": [
                    {
                        "rule": finding.rule.id,
                        "severity": str(finding.rule.severity),
                        "field": finding.field,
                        "message": finding.message,
                    }
                    for finding in other.findings
                ],
            }
            for other in checked
        ],
    }


def _print_rules() -> None:
    from numakube.topology.conformance import RULES

    width = max(len(rule.id) for rule in RULES)
    for rule in RULES:
        click.echo(f"{rule.id:{width}}  {rule.severity:7}  {rule.title}")
