"""Documentation pages whose examples are run.

* A fenced block with ``title="name"`` is written to that file.
* In a ``console`` block, lines that start with ``$ `` are commands for a shell, continued by a
  backslash; the lines after them are what they print, trailing blanks and progress aside.
  ``export`` lasts to the end of the page, as in a terminal. `RUNTIME`, where labs keep their files,
  is the page's own. A command of numakube that needs no shell runs in this process, which saves
  half a second.
* ``pycon`` blocks are doctests.

All blocks of a page share one directory and one Python namespace.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from numakube.cli.main import run

BLOCK = re.compile(r"^```(?P<info>[^\n`]+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r'title="(?P<name>[^"]+)"')
COMMAND = re.compile(r"^\$ (?P<command>(?:.*\\\n)*.*)\n(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)
EXPORT = re.compile(r"export (?P<name>\w+)=(?P<value>\S+)")
PLAIN = re.compile(r"numakube (?!lab |demo|.*help)[^|&;<>$*~`]+")
"""Commands of numakube that neither need a shell nor leave anything running.

Help is left out: click keeps the help option of a command as the first call in a process saw it.
"""
PROGRESS = re.compile(r"\d+ of \d+ (nodes|pods) are \w+")
"""What a lab says of its start if that takes ten seconds, which it does on busy machines alone."""
ROOT = Path(__file__).parents[2]
RUNTIME = "/run/user/1000"


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block."""

    info: str
    body: str

    @property
    def language(self) -> str:
        """The first word after the fence."""
        return self.info.split()[0]


@dataclass(frozen=True, slots=True)
class Terminal:
    """Somebody who has installed numakube and sits in *directory*.

    Attributes:
        runtime: what `RUNTIME` stands for; its path has to be short, for there are sockets in it.
        exported: variables that commands have set so far.
    """

    directory: Path
    runtime: str
    exported: dict[str, str]

    def enter(self, command: str) -> str:
        """Return what *command* prints."""
        command = command.replace(RUNTIME, self.runtime)
        if export := EXPORT.fullmatch(command):
            self.exported[export["name"]] = export["value"]
            return ""
        programs = Path(sys.executable).parent
        environment = (
            {name: text for name, text in os.environ.items() if name != "COLUMNS"}
            | {
                "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
                "VECTORS": str(ROOT / "tests" / "vectors"),
                "PYTHONUTF8": "1",
                "XDG_RUNTIME_DIR": self.runtime,
            }
            | self.exported
        )
        if PLAIN.fullmatch(command):
            return self._run_here(shlex.split(command.replace("\\\n", ""))[1:], environment)
        done = subprocess.run(  # noqa: S603
            ["/bin/sh", "-c", command],
            cwd=self.directory,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            check=False,
        )
        return done.stdout.replace(self.runtime, RUNTIME)

    def _run_here(self, arguments: list[str], environment: dict[str, str]) -> str:
        printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        with (
            mock.patch.dict(os.environ, environment, clear=True),
            contextlib.chdir(self.directory),
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
        ):
            run(arguments, program="numakube")
        printed.seek(0)
        return printed.read().replace(self.runtime, RUNTIME)


def run_page(text: str, directory: Path) -> str:
    """Return the page with the output that its commands really have."""
    namespace: dict[str, Any] = {}

    def run(match: re.Match[str]) -> str:
        block = Block(match["info"], match["body"])
        if title := TITLE.search(block.info):
            file = directory / title["name"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.body, encoding="utf-8")
        if block.language == "pycon":
            run_doctest(block.body, namespace)
        if block.language != "console":
            return match[0]
        return f"```{block.info}\n{run_console(block.body, terminal)}```"

    with tempfile.TemporaryDirectory(prefix="numakube-docs-") as runtime:
        terminal = Terminal(directory, runtime, {})
        return BLOCK.sub(run, text)


def run_console(body: str, terminal: Terminal) -> str:
    """Return the block with the real output of its commands."""

    def run(match: re.Match[str]) -> str:
        printed = map(str.rstrip, terminal.enter(match["command"]).splitlines())
        output = "\n".join(line for line in printed if not PROGRESS.fullmatch(line))
        return f"$ {match['command']}\n{output}\n" if output else f"$ {match['command']}\n"

    return COMMAND.sub(run, body)


def run_doctest(body: str, namespace: dict[str, Any]) -> None:
    """Run the examples of a ``pycon`` block, raising at the first that differs."""
    test = doctest.DocTestParser().get_doctest(body, namespace, "page", None, 0)
    test.globs = namespace
    doctest.DebugRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, clear_globs=False)
