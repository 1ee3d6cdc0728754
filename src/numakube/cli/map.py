"""``kubectl numa map NODE``: draw a node and who has what, as it is or as a plan would leave it."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import click

from numakube.annexes import Group, added_to, load
from numakube.cli.shared.cluster_options import (
    cluster_options,
    facts_for,
    selector_option,
    warn_of_refusal,
)
from numakube.cli.shared.kubectl_names import names_argument
from numakube.cli.shared.output_option import can_draw, make_console, text_width
from numakube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numakube.api.pod import Pod
    from numakube.cli.shared.connection_options import ClusterOptions
    from numakube.insight.facts import ClusterFacts
    from numakube.insight.node_map.picture import Drawing, NodePicture
    from numakube.insight.node_map.planned_picture import RejectedPod
    from numakube.insight.node_map.terminal_map import Line

DRAWINGS: Final = tuple(added_to(Group.DRAWINGS))
FORMS: Final = ("text", *DRAWINGS, "json", "yaml")
_ENDINGS: Final = {".txt": "text", **{f".{form}": form for form in FORMS[1:]}, ".yml": "yaml"}
_PIPED_WIDTH: Final = 100
_NODE: Final = "{node}"


@click.command("map")
@names_argument("node", metavar="NODE...")
@selector_option
@cluster_options
@click.option(
    "-o",
    "--output",
    type=click.Choice(FORMS),
    help="Format of the drawing.  [default: by the name of --output-file, else text]",
)
@click.option(
    "--output-file",
    metavar="FILE",
    help="Where to write it; for several nodes a name with {node} in it.",
)
@click.option(
    "--with",
    "arriving",
    type=click.Path(dir_okay=False, allow_dash=True),
    multiple=True,
    help="Draw the node as it would be after its kubelet admitted the pods of this file.",
)
@click.option(
    "--without",
    "leaving",
    metavar="NAMESPACE/POD",
    multiple=True,
    help="Draw the node as it would be if this pod were gone.",
)
@click.option(
    "--matrix",
    is_flag=True,
    help="Instead of the drawing, show how close the devices are to each other: PIX, NODE, SYS...",
)
@click.option(
    "--measured", is_flag=True, help="Also say what each zone really has, where it is measured."
)
@click.option("--width", type=click.IntRange(min=40), help="Columns of the text.")
@click.option("--ascii", "plain", is_flag=True, help="Draw with plain characters.")
@click.option("--dark", is_flag=True, help="Dark colours in a PNG; an SVG follows the system.")
@click.option("-w", "--watch", is_flag=True, help="Draw again whenever something changes.")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    what: str,
    names: tuple[str, ...],
    selector: str,
    cluster: ClusterOptions,
    output: str | None,
    output_file: str | None,
    arriving: tuple[str, ...],
    leaving: tuple[str, ...],
    matrix: bool,
    measured: bool,
    width: int | None,
    plain: bool,
    dark: bool,
    watch: bool,
) -> None:
    """Draw a node and the pods that hold its parts.

    Shows sockets, NUMA zones, L3 caches, cores and threads, memory, hugepages, devices, distances.
    --with and --without draw the node after a plan, with the changes marked. The exit code is 1 if
    the kubelet would refuse a pod of the plan; the reason goes to standard error.
    """
    del what
    if matrix and _form(output, output_file) in DRAWINGS:
        raise click.UsageError("--matrix is text; JSON and YAML have it as `connections`.")
    if not names and not selector:
        raise click.UsageError("Missing argument 'NODE...'; or give --selector.")
    drawing = _Drawing(
        form=_form(output, output_file),
        file=output_file,
        width=width,
        plain=plain or not can_draw(sys.stdout.encoding),
        dark=dark,
        arriving=_read(arriving),
        leaving=leaving,
        matrix=matrix,
        observer="measured" if measured else "",
        follows=watch,
    )
    if watch:
        if not cluster.live:
            raise click.UsageError("--watch needs a live cluster; a bundle does not change.")
        from numakube.cli.shared.watch_option import follow

        follow(cluster, lambda facts: _draw(drawing, facts, names, selector))
        return
    from numakube.apps.gathering import ZONES

    facts = facts_for(cluster, what=ZONES)
    refused = _draw(drawing, facts, names, selector)
    warn_of_refusal(facts)
    if refused:
        ctx.exit(1)


def _form(output: str | None, file: str | None) -> str:
    """Return the form, which the name of the file tells if nothing else does."""
    form = output or _form_by_name(file)
    if form == "png" and file is None and sys.stdout.isatty():
        raise click.UsageError("PNG is not for terminals; give --output-file, or redirect it.")
    return form


def _form_by_name(file: str | None) -> str:
    if file is None:
        return "text"
    form = _ENDINGS.get(Path(file).suffix.lower())
    if form is None:
        raise click.UsageError(
            f"--output-file {file}: its name ends in none of {', '.join(_ENDINGS)}; say by -o what"
            " to write."
        )
    return form


def _read(files: Sequence[str]) -> tuple[Pod, ...]:
    from numakube.cli.admit.pod_inputs import read_pods
    from numakube.cli.shared.machine_argument import read_text

    return tuple(pod for file in files for pod in read_pods(read_text(file), file))


def _draw(
    drawing: _Drawing, facts: ClusterFacts, nodes: Sequence[str], selector: str
) -> tuple[RejectedPod, ...]:
    """Draw the chosen nodes and return which pods of the plan were refused."""
    from numakube.cli.shared.selection import chosen_nodes

    pictures = []
    refused: list[RejectedPod] = []
    for name in chosen_nodes(facts, nodes, selector):
        picture, some = drawing.picture(facts, name)
        pictures.append(picture)
        refused += some
    drawing.write(pictures)
    for other in refused:
        why = f" ({other.why})" if other.why else ""
        click.echo(f"{other.pod}: {other.reason}: {other.message}{why}", err=True)
    return tuple(refused)


class _Drawing:
    """How nodes are drawn, and where to."""

    def __init__(
        self,
        *,
        form: str,
        file: str | None,
        width: int | None,
        plain: bool,
        dark: bool,
        arriving: tuple[Pod, ...],
        leaving: tuple[str, ...],
        matrix: bool,
        observer: str,
        follows: bool,
    ) -> None:
        self._form = form
        self._file = file
        self._width = width
        self._plain = plain
        self._dark = dark
        self._arriving = arriving
        self._leaving = leaving
        self._matrix = matrix
        self._observer = observer
        self._follows = follows
        self._drawn: Sequence[NodePicture] = ()

    def picture(
        self, facts: ClusterFacts, node: str
    ) -> tuple[NodePicture, tuple[RejectedPod, ...]]:
        """Return the node as it is, or as the plan would leave it."""
        from numakube.insight.node_map.picture_from_facts import node_picture
        from numakube.insight.node_map.planned_picture import PlannedNode, planned

        if not self._arriving and not self._leaving:
            return self._observed(facts, node_picture(facts, node)), ()
        plan = planned(facts, node, arriving=self._arriving, leaving=self._leaving)
        if isinstance(plan, PlannedNode):
            return plan.picture, plan.refused
        raise ConfigError(f"node {node}: no plan can be drawn: {plan.reason}")

    def _observed(self, facts: ClusterFacts, picture: NodePicture) -> NodePicture:
        """Return *picture* with what was seen of its zones, if that is wanted."""
        if not self._observer:
            return picture
        from numakube.insight.observations import observed, observer

        watcher, node = observer(self._observer), observed(facts, picture.node)
        seen = {zone.id: watcher.of_zone(node, zone.id) for zone in picture.zones}
        return replace(picture, observed=MappingProxyType(seen))

    def write(self, pictures: Sequence[NodePicture]) -> None:
        """Write all of *pictures*, to one file each if there is a place for their names."""
        if self._follows and pictures == self._drawn:
            return
        self._drawn = pictures
        if self._file is not None and _NODE in self._file:
            for picture in pictures:
                self._write_file(self._file.replace(_NODE, picture.node), [picture])
        elif len(pictures) > 1 and self._form in DRAWINGS:
            raise click.UsageError(
                f"Several nodes do not fit into one {self._form.upper()};"
                " give --output-file with {node} in it."
            )
        elif self._file is not None:
            self._write_file(self._file, pictures)
        else:
            self._print(pictures)

    def _write_file(self, file: str, pictures: Sequence[NodePicture]) -> None:
        path = Path(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self._encoded(pictures))

    def _encoded(self, pictures: Sequence[NodePicture]) -> bytes:
        if self._form in DRAWINGS:
            draw: Drawing = load(Group.DRAWINGS, self._form)
            return draw(pictures[0], dark=self._dark)
        if self._form == "json":
            return (json.dumps(_document(pictures), indent=2, ensure_ascii=False) + "\n").encode()
        if self._form == "yaml":
            from numakube.api.yaml_text import dump_yaml

            return dump_yaml(_document(pictures)).encode()
        from numakube.insight.node_map.terminal_map import plain_text

        width = self._width or _PIPED_WIDTH
        return "\n".join(plain_text(self._lines(one, width)) for one in pictures).encode()

    def _lines(self, picture: NodePicture, width: int) -> Iterator[Line]:
        from numakube.insight.node_map.terminal_map import lines_of, matrix_lines

        lines = matrix_lines if self._matrix else lines_of
        return lines(picture, width=width, ascii_only=self._plain)

    def _print(self, pictures: Sequence[NodePicture]) -> None:
        if self._form != "text":
            click.echo(self._encoded(pictures), nl=False)
            return
        from numakube.cli.shared.terminal import print_drawing

        console = make_console()
        if self._follows and console.is_terminal:
            console.clear()
        width = self._width or text_width(console, _PIPED_WIDTH)
        for number, picture in enumerate(pictures):
            if number:
                console.print()
            print_drawing(console, self._lines(picture, width))
        if self._follows and not console.is_terminal:
            console.print()


def _document(pictures: Sequence[NodePicture]) -> dict[str, Any]:
    """Return one document; several pictures are a list as Kubernetes has them."""
    from numakube.insight.node_map.map_json import API_VERSION, KIND, picture_document

    documents = [picture_document(picture) for picture in pictures]
    if len(documents) == 1:
        return documents[0]
    return {"apiVersion": API_VERSION, "kind": f"{KIND}List", "items": documents}
