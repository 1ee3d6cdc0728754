"""How the programs start and how every command ends."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest

from numakube.cli.command_table import COMMANDS, joined
from numakube.cli.lazy_commands import Lazy
from numakube.cli.main import cli, run
from numakube.errors import ClusterUnreachable, InvalidValue
from numakube.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cli.conftest import Ended

HEAVY = ("aiohttp", "msgspec", "numpy", "rich", "yaml", "asyncio", "grpc")


@pytest.fixture
def failing() -> Iterator[Callable[[BaseException], None]]:
    """Add a command ``fail`` that raises a given exception."""

    def add(error: BaseException) -> None:
        def fail() -> None:
            raise error

        cli.add_command(click.Command("fail", callback=fail))

    yield add
    cli.commands.pop("fail", None)


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Run *code* in an interpreter of its own."""
    return subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_import_nothing_heavy(option: str) -> None:
    """They answer at once because libraries and commands stay unloaded."""
    code = (
        "import sys; from numakube.cli.main import run;"
        f"run([{option!r}], program='numakube');"
        "print(*sorted(sys.modules), file=sys.stderr)"
    )

    ended = python(code)

    loaded = set(ended.stderr.split())
    assert "numakube.cli.main" in loaded
    assert loaded.isdisjoint(HEAVY)
    assert not {entry.module for entry in COMMANDS.values() if isinstance(entry, Lazy)} & loaded
    assert "numakube_lab" not in loaded


def test_version(numakube: Callable[..., Ended]) -> None:
    """The version is the package's."""
    assert numakube("--version") == ended(0, f"numakube {VERSION}\n")


def ended(code: int, out: str = "", err: str = "") -> Ended:
    """Return an expected ending."""
    from tests.cli.conftest import Ended

    return Ended(code, out, err)


def test_every_command_is_listed_and_can_be_loaded(numakube: Callable[..., Ended]) -> None:
    """The list shows the same summaries as the commands' own help begins with."""
    for name, entry in {**COMMANDS, **joined()}.items():
        *groups, last = name.split()
        listing = numakube(*groups, "--help").out
        own = numakube(*groups, last, "--help")
        assert last in listing
        assert own.code == 0
        assert entry.summary.rstrip(".?") in " ".join(own.out.split())


def test_an_unknown_command_is_wrong_usage(numakube: Callable[..., Ended]) -> None:
    """Exit code 2, one line, and where to look."""
    result = numakube("frobnicate")

    assert result.code == 2
    assert result.err == "error: No such command 'frobnicate'.\nsee `numakube --help`\n"


def test_our_errors_are_one_line(
    numakube: Callable[..., Ended], failing: Callable[[BaseException], None]
) -> None:
    """An error of ours ends with 1 and no traceback, even if its text has several lines."""
    failing(InvalidValue("first\nsecond"))

    assert numakube("fail") == ended(1, err="error: first second\n")


def test_an_unreachable_cluster_has_its_own_code(
    numakube: Callable[..., Ended], failing: Callable[[BaseException], None]
) -> None:
    """Scripts can tell "no" from "nobody there"."""
    failing(ClusterUnreachable("https://10.0.0.1:6443: connection refused", sent=False))

    assert numakube("fail") == ended(3, err="error: https://10.0.0.1:6443: connection refused\n")


def test_a_missing_file_is_named(
    numakube: Callable[..., Ended], failing: Callable[[BaseException], None]
) -> None:
    """Errors of the operating system that concern a file are no bugs."""
    failing(FileNotFoundError(2, "No such file or directory", "pods.yaml"))

    assert numakube("fail") == ended(1, err="error: pods.yaml: No such file or directory\n")


def test_a_bug_is_admitted_without_a_traceback(
    numakube: Callable[..., Ended], failing: Callable[[BaseException], None]
) -> None:
    """What we did not expect says that it is our fault and how to see more."""
    failing(KeyError("x"))

    result = numakube("fail")

    assert result.code == 1
    assert result.err.startswith("error: unexpected KeyError: 'x'; this is a bug")


@pytest.mark.parametrize("line", [["--debug", "fail"], ["fail", "--debug"]])
def test_debug_lets_the_traceback_through(
    line: list[str], failing: Callable[[BaseException], None]
) -> None:
    """``--debug`` works before and after the command."""
    failing(InvalidValue("wrong"))

    with pytest.raises(InvalidValue):
        run(line, program="numakube")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_an_interruption_is_quiet(
    error: BaseException,
    numakube: Callable[..., Ended],
    failing: Callable[[BaseException], None],
) -> None:
    """Control-C ends with the shell's code for it and without a traceback."""
    failing(error)

    result = numakube("fail")

    assert (result.code, result.out, result.err.strip()) == (130, "", "")


def test_a_closed_pipe_is_quiet() -> None:
    """``numakube ... | head`` ends without a word when the reader has gone."""
    program = os.path.join(os.path.dirname(sys.executable), "numakube")  # noqa: PTH118, PTH120
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        ended = subprocess.run(  # noqa: S603
            [program, "machine", "--presets"], stdout=pipe, stderr=subprocess.PIPE, check=False
        )

    assert (ended.returncode, ended.stderr) == (141, b"")


def test_kubectl_plugin_calls_itself_by_its_name(capfd: pytest.CaptureFixture[str]) -> None:
    """``kubectl numa`` is the same program under another name."""
    assert run(["--help"], program="kubectl numa") == 0
    assert "Usage: kubectl numa [OPTIONS] COMMAND" in capfd.readouterr().out
