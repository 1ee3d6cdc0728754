"""``kubectl numa map`` on a bundle."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.cli.conftest import Ended
from tests.insight.node_map import nodes

from numakube.api.yaml_text import load_yaml

Run = Callable[..., Ended]

PROGRAM = "from numakube.cli.main import main; main()"
TERMINAL = {"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "50", "LC_ALL": "C.UTF-8"}
ARRIVING = """
kind: Pod
metadata: {name: NAME, namespace: team}
spec:
  containers:
  - name: app
    resources: {limits: {cpu: "CPUS", memory: 4Gi}}
"""


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Return a bundle of three nodes: one with a pod, one empty, one with amounts only."""
    web = nodes.on("a-1", nodes.named("web", cpu="6", memory="4Gi"))
    busy = nodes.admitted(nodes.kubelet(nodes.SMALL), web)
    empty = nodes.kubelet(nodes.SMALL)
    facts = nodes.facts({"a-1": busy, "a-2": empty, "b-1": empty}, web)
    counts = nodes.facts({"b-1": empty}, exact=False).topologies
    facts = facts.__class__(
        taken_at=facts.taken_at,
        nodes=facts.nodes,
        pods=facts.pods,
        topologies={**facts.topologies, **counts},
    )
    return nodes.bundle(tmp_path / "bundle.tar.gz", facts)


def test_a_node_is_drawn_as_text(numakube: Run, bundle: Path) -> None:
    """Without colours, since nobody looks at a pipe in colour."""
    ended = numakube("map", "a-1", "--from", bundle)
    assert ended.code == 0
    assert "A team/web  zone 0 · CPUs 1-3,9-11 · 4Gi" in ended.out
    assert "\x1b" not in ended.out
    assert all(len(line) <= 100 for line in ended.out.splitlines())


def test_closeness_is_told_as_a_matrix(numakube: Run, tmp_path: Path) -> None:
    """Instead of the drawing, and only as text; JSON has it anyway."""
    switched = nodes.kubelet("2 sockets, 4 cores, 32Gi, gpu 1, nic 1, 1 switch")
    bundle = nodes.bundle(tmp_path / "bundle.tar.gz", nodes.facts({"a-1": switched}))

    ended = numakube("map", "a-1", "--from", bundle, "--matrix", "--ascii")
    refused = numakube("map", "a-1", "--from", bundle, "--matrix", "-o", "svg")

    assert ended.code == 0
    assert "0     gpu 0 . X    SYS  PIX  SYS\n" in ended.out
    assert refused.code == 2
    assert "--matrix is text" in refused.err


def test_text_can_be_ascii_of_some_width(numakube: Run, bundle: Path) -> None:
    """For old terminals."""
    ended = numakube("map", "a-1", "--from", bundle, "--ascii", "--width", 60)
    assert ended.out.isascii()
    assert all(len(line) <= 60 for line in ended.out.splitlines() if line[:1] in "+|")


def test_nodes_are_chosen_by_label(numakube: Run, bundle: Path) -> None:
    """As kubectl chooses."""
    ended = numakube("map", "-l", "pool=a", "--from", bundle, "-o", "json")
    document = json.loads(ended.out)
    assert document["kind"] == "NodeMapList"
    assert [item["node"] for item in document["items"]] == ["a-1", "a-2"]


def test_json_is_one_document(numakube: Run, bundle: Path) -> None:
    """With who has what."""
    document = json.loads(numakube("map", "a-1", "--from", bundle, "-o", "json").out)
    assert document["kind"] == "NodeMap"
    assert document["exact"] is True
    cpus = document["zones"][0]["caches"][0]["cores"][1]["cpus"]
    assert cpus == [{"id": 1, "pod": "team/web"}, {"id": 9, "pod": "team/web"}]


def test_amounts_only_are_told(numakube: Run, bundle: Path) -> None:
    """A picture of what is known is better than none."""
    ended = numakube("map", "b-1", "--from", bundle)
    assert ended.code == 0
    assert "no exact data" in ended.out


def test_files_are_named_after_nodes(numakube: Run, bundle: Path, tmp_path: Path) -> None:
    """The form follows from the name."""
    ended = numakube(
        "map", "a-1", "a-2", "--from", bundle, "--output-file", tmp_path / "maps" / "{node}.svg"
    )
    assert (ended.code, ended.out) == (0, "")
    written = sorted(path.name for path in (tmp_path / "maps").iterdir())
    assert written == ["a-1.svg", "a-2.svg"]
    ElementTree.parse(tmp_path / "maps" / "a-1.svg")  # noqa: S314 - just written


def test_yaml_is_the_same_document(numakube: Run, bundle: Path, tmp_path: Path) -> None:
    """Asked for by -o, or by the name of the file."""
    document = json.loads(numakube("map", "a-1", "--from", bundle, "-o", "json").out)
    told = numakube("map", "a-1", "--from", bundle, "-o", "yaml")
    assert load_yaml(told.out, "yaml") == document
    file = tmp_path / "node.yaml"
    numakube("map", "a-1", "--from", bundle, "--output-file", file)
    assert file.read_text() == told.out


def test_a_form_that_is_not_known_is_refused(numakube: Run, bundle: Path, tmp_path: Path) -> None:
    """With those that are; nothing is written."""
    file = tmp_path / "node.pdf"
    ended = numakube("map", "a-1", "--from", bundle, "--output-file", file)
    assert (ended.code, file.exists()) == (2, False)
    assert "ends in none of .txt, .svg, .png, .json, .yaml, .yml; say by -o what" in ended.err
    assert numakube("map", "a-1", "--from", bundle, "--output-file", file, "-o", "svg").code == 0


def test_a_pipe_is_as_wide_as_columns_says(
    numakube: Run, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For pagers and scripts."""
    monkeypatch.setenv("COLUMNS", "60")
    told = numakube("map", "a-1", "--from", bundle).out
    assert told == numakube("map", "a-1", "--from", bundle, "--width", 60).out
    assert max(len(line) for line in told.splitlines() if line[:1] in "╭│") == 60


def test_a_png_is_written(numakube: Run, bundle: Path, tmp_path: Path) -> None:
    """To a file."""
    file = tmp_path / "node.png"
    assert numakube("map", "a-2", "--from", bundle, "--dark", "--output-file", file).code == 0
    assert file.read_bytes().startswith(b"\x89PNG")


def on_terminal(*arguments: str, **environment: str) -> tuple[int, str]:
    """Run a command whose output goes to a terminal of 120 columns; return code and output."""
    main, terminal = pty.openpty()
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", PROGRAM, *arguments],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, **TERMINAL, **environment},
    ) as process:
        os.close(terminal)
        output = b""
        # Reading fails when the last writer has gone.
        with contextlib.suppress(OSError):
            while part := os.read(main, 65536):
                output += part
    os.close(main)
    return process.returncode, output.decode()


def test_a_png_does_not_go_to_a_terminal(bundle: Path) -> None:
    """It would ring its bells."""
    code, output = on_terminal("map", "a-1", "--from", str(bundle), "-o", "png")
    assert code == 2
    assert "not for terminals" in output


def test_a_terminal_gets_colours_and_its_width(bundle: Path) -> None:
    """One background for each pod."""
    code, output = on_terminal("map", "a-1", "--from", str(bundle), NO_COLOR="")
    assert code == 0
    assert "\x1b[38;" in output
    assert ";48;" in output
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    assert max(map(len, plain.splitlines())) > 100


def test_no_color_is_respected(bundle: Path) -> None:
    """Letters tell pods apart without them."""
    code, output = on_terminal("map", "a-1", "--from", str(bundle), NO_COLOR="1")
    assert code == 0
    assert ";48;" not in output
    assert "38;5" not in output
    assert "38;2" not in output


def test_ascii_is_drawn_where_the_terminal_knows_nothing_else(bundle: Path) -> None:
    """By its encoding."""
    code, output = on_terminal("map", "a-1", "--from", str(bundle), PYTHONIOENCODING="ascii")
    assert code == 0
    assert output.isascii()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere",), "no node 'nowhere'; there are a-1, a-2, b-1"),
        (("-l", "pool=z"), "no node has the labels"),
        (("-l", "pool in"), "--selector"),
        (("a-1", "--without", "team/ghost"), "no such pod on node a-1: team/ghost"),
        (("b-1", "--without", "team/ghost"), "has no exact report"),
    ],
)
def test_what_cannot_be_drawn_is_told(
    numakube: Run, bundle: Path, arguments: tuple[str, ...], words: str
) -> None:
    """In one line."""
    ended = numakube("map", *arguments, "--from", bundle)
    assert ended.code == 1
    assert words in ended.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "NODE"),
        (("a-1", "-w"), "live cluster"),
        (("a-1", "a-2", "-o", "svg"), "{node}"),
    ],
)
def test_wrong_usage_is_told(
    numakube: Run, bundle: Path, arguments: tuple[str, ...], words: str
) -> None:
    """With how to do it."""
    ended = numakube("map", *arguments, "--from", bundle)
    assert ended.code == 2
    assert words in ended.err


def test_a_plan_is_drawn(numakube: Run, bundle: Path, tmp_path: Path) -> None:
    """What comes is marked as new, what goes as gone."""
    file = tmp_path / "pod.yaml"
    file.write_text(ARRIVING.replace("NAME", "db").replace("CPUS", "7"))
    ended = numakube("map", "a-1", "--from", bundle, "--with", file, "--without", "team/web")
    assert ended.code == 0
    assert "a-1 after the plan" in ended.out
    assert "gone; held zone 0" in ended.out
    assert "team/db" in ended.out
    assert "(new)" in ended.out


def test_a_plan_that_fails_ends_with_one(numakube: Run, bundle: Path, tmp_path: Path) -> None:
    """The picture is drawn all the same, with the kubelet's reason."""
    file = tmp_path / "pod.yaml"
    file.write_text(ARRIVING.replace("NAME", "huge").replace("CPUS", "9"))
    ended = numakube("map", "a-1", "--from", bundle, "--with", file)
    assert ended.code == 1
    assert "team/huge: TopologyAffinityError: Resources cannot be allocated" in ended.err
    assert "NUMA zone 0" in ended.out
