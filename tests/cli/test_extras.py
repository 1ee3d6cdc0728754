"""What is missing is named with what brings it, for every command and every library."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import grimp
import pytest
from tests.hiding import Ran, run_hiding, run_lines, without_extras
from tests.insight.explain.bundling import collected_of

from numakube.annexes import Group, annexes, points
from numakube.apps.bundle import pack
from numakube.cli.command_table import COMMANDS, joined, path_in
from numakube.cli.lazy_commands import AnyEntry, Below, Hosted, Lazy, OfAnnex
from numakube.cli.main import OPTIONAL, extra_of
from numakube.programs import PROGRAMS
from numakube.testing import World, pod

CORE = {
    name: name
    for name in (
        *("aiohttp", "jinja2", "msgspec", "numpy", "prometheus_client", "rich", "structlog"),
        "yaml",
    )
} | {"markupsafe": "jinja2"}
"""Libraries of every installation, with what of them we import; nothing starts without click."""

ENDS = {0, 1, 2}
INSTALLED = [annex for annex in annexes() if annex.is_installed]
MISSING = {name for annex in annexes() if not annex.is_installed for name in annex.called()}
ALL: dict[str, AnyEntry] = {
    name: entry for name, entry in {**COMMANDS, **joined()}.items() if name not in MISSING
}
EXTRAS = {name: extra for name in ALL if (extra := extra_of(name))}
ANNEXES = {annex.package: annex for annex in INSTALLED}
"""By what is imported."""
IN_EXTRAS = sorted(
    {"run exporter"} | {name for annex in INSTALLED for name in annex.called()} - {"demo"}
)
"""Commands that need one; the demo is not run here, since it takes long."""


@pytest.fixture
def lines(tmp_path: Path) -> list[list[str]]:
    """Command lines that go far enough to need what their command needs; none asks a cluster."""
    world = World()
    world.add_node("node-a")
    world.run(pod("runs", cpu="4"), "node-a")
    world.pods.append(pod("waits", cpu="10"))
    bundle = tmp_path / "bundle.tgz"
    bundle.write_bytes(pack(collected_of(world.facts())))
    taken = ["--from", str(bundle)]
    given = {
        "plan admit": ["--example"],
        "bundle": [*taken, "-o", str(tmp_path / "again.tgz")],
        "debug cache": taken,
        "check manifests": ["-"],
        "completion": ["bash"],
        "dashboard": [*taken, "--bind-address", "0.0.0.0:0", "--insecure-serving"],
        "deploy": ["--dry-run=client"],
        "check cluster": [],
        "doctor": taken,
        "explain": ["pod", "waits", *taken],
        "manifests images": [],
        "lab": ["up", "--host", "192.0.2.1"],
        "debug loglevel": [],
        "machine": ["dgx-h100"],
        "map": ["node-a", *taken],
        "debug queue": taken,
        "remove": ["--dry-run=server"],
        "manifests render": [],
        "replay": ["bundle", str(bundle), "--check"],
        "debug reservations": taken,
        "debug resync": ["--all"],
        "setup": [],
        "plan simulate": [*taken, "--scheduler", "numakube"],
        "top": taken,
        "debug trace": ["pod", "waits", *taken],
        "check kubelets": taken,
    }
    return [[*name.split(), *given.get(name, ["--help"])] for name in ALL if name != "demo"]


def called(line: Sequence[str]) -> str:
    """Return the command that *line* calls."""
    return path_in(line) or line[0]


def complaints(ran: list[Ran], extra_of: dict[str, str]) -> list[Ran]:
    """Return what ended other than well, or with another word than which extra is missing."""
    return [
        other
        for other in ran
        if other.code not in ENDS
        or "this is a bug" in other.err
        or ("not installed" in other.err and extra_of.get(called(other.line), "-") not in other.err)
    ]


def test_every_installation_has_what_its_commands_need(
    lines: list[list[str]], tmp_path: Path
) -> None:
    """All but those that talk to kubelets, and the lab, work after a plain installation."""
    ran = run_lines(without_extras(), lines, tmp_path)

    named = {name: f"numakube[{extra}]" for name, extra in EXTRAS.items()}
    assert complaints(ran, named) == []
    stopped = {called(other.line) for other in ran if "not installed" in other.err}
    assert stopped == {*IN_EXTRAS} & {called(line) for line in lines}


@pytest.mark.parametrize("command", IN_EXTRAS)
def test_the_extra_that_is_named_is_enough(
    command: str, lines: list[list[str]], tmp_path: Path
) -> None:
    """Alone: nothing of another extra is needed."""
    own = [line for line in lines if called(line) == command]
    (ran,) = run_lines(without_extras(EXTRAS[command]), own, tmp_path)

    assert "not installed" not in ran.err
    assert (ran.code, ran.err[:25]) in {
        (0, ""),
        (1, "error: --from with --bind"),
        (2, "error: --host 192.0.2.1 c"),
    }


@pytest.mark.parametrize("module", [*CORE, *OPTIONAL, *ANNEXES])
def test_a_missing_library_is_never_called_a_bug(
    module: str, lines: list[list[str]], tmp_path: Path
) -> None:
    """Whichever it is: commands that may import it work without, or say what to install."""
    concerned = [line for line in lines if CORE.get(module, module) in imports()[called(line)]]
    ran = run_lines([module], concerned, tmp_path)

    assert len(ran) == len(concerned)
    assert concerned or not ANNEXES[module].called(), "no command needs it"
    optional = {name: f"pip install 'numakube[{extra}]'" for name, extra in EXTRAS.items()}
    plain = dict.fromkeys(ALL, "pip install numakube\n")
    if module in ANNEXES:
        annex = ANNEXES[module]
        plain = {name: f"pip install 'numakube[{annex.extra_of(name)}]'\n" for name in ALL}
    assert complaints(ran, optional if module in OPTIONAL else plain) == []


def test_completion_is_silent_about_what_is_missing(tmp_path: Path) -> None:
    """A shell shows what it writes in the middle of the line that is being typed."""
    program = (
        "from numakube.cli.completion import kubectl_candidates; from numakube.cli.main import cli;"
        "print(*kubectl_candidates(cli, ['exporter', '--']))"
    )
    done = run_hiding(["h2"], program, env={"HOME": str(tmp_path)})
    assert (done.stdout, done.stderr) == (":4\n", "")


def _module_of(name: str, entry: AnyEntry) -> str:
    match entry:
        case Below():
            raise AssertionError(f"{name} is a group")
        case Lazy(module=module):
            return module
        case Hosted(name=own) if own in PROGRAMS:
            return f"numakube.apps.{own.replace('-', '_')}.process"
        case Hosted(name=own):
            return points(Group.PROGRAMS)[own].partition(":")[0]
        case OfAnnex(group=group):
            return points(group)[name].partition(":")[0]


@functools.cache
def imports() -> dict[str, set[str]]:
    """Return the packages that each command can come to import, however late."""
    graph = grimp.build_graph(
        "numakube", "kube_lab_server", *ANNEXES, include_external_packages=True
    )
    found = {}
    for name, entry in ALL.items():
        module = _module_of(name, entry)
        reached = {module, *graph.find_upstream_modules(module, as_package=True)}
        found[name] = {one.partition(".")[0] for one in reached}
    return found


def test_no_command_can_come_to_need_what_its_extra_does_not_bring() -> None:
    """Whatever is imported late counts too."""
    for name, reached in imports().items():
        extras = [EXTRAS[name]] if name in EXTRAS else []
        assert reached.isdisjoint(without_extras(*extras)), name
