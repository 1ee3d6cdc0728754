"""Record the terminal recordings of the documentation: ``python docs/record.py [NAME...]``.

A recording is the real output of the real program, in the format asciicast v2 (``asciinema play
docs/images/demo.cast``), with the command typed before it and pauses of at most two seconds. Its
last screen is drawn as SVG, which a test compares with the recording. Needs kubectl; a lab is
started for the recordings that need a cluster, and stopped in the end.
"""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
import time
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator

IMAGES: Final = Path(__file__).parent / "images"
WIDTH, HEIGHT = 110, 40
LONGEST_PAUSE: Final = 2.0
KEY_SECONDS: Final = 0.04
RECORDINGS: Final = {
    "demo": "numakube demo",
    "explain": "kubectl numa explain pod train-4",
    "map": "kubectl numa map node-0",
}
PODS: Final = Path(__file__).parent / "tutorial-cluster.md"
# The default template loads a font from the network; any monospaced font does. Programs that are no
# browsers know fonts by their own names only.
FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
FONT_FACE: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
LINE_ENDS: Final = re.compile(r"[ \t]+$", re.MULTILINE)


def svg_of(cast: str) -> str:
    """Return what is on the screen at the end of a recording, as SVG."""
    header, *events = map(json.loads, cast.splitlines())
    screen = "".join(text for _, kind, text in events if kind == "o").replace("\r\n", "\n")
    width = header["width"]
    console = Console(
        record=True, width=width, file=StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(Text.from_ansi(screen.rstrip("\n")), overflow="fold")
    svg = console.export_svg(title=header["title"], unique_id="recording")
    return LINE_ENDS.sub("", FONT_FACE.sub("", svg)).replace("Fira Code, monospace", FONT)


def record(command: str, env: dict[str, str]) -> str:
    """Run a command in a terminal of its own, and return the recording."""
    header: dict[str, Any] = {
        "version": 2,
        "width": WIDTH,
        "height": HEIGHT,
        "title": command,
        "env": {"SHELL": "/bin/sh", "TERM": "xterm-256color"},
    }
    lines = [json.dumps(header)]
    now = 0.0
    for pause, text in (*_typed(command), *_output(command, env)):
        now += min(pause, LONGEST_PAUSE)
        lines.append(json.dumps([round(now, 3), "o", text], ensure_ascii=False))
    return "\n".join(lines) + "\n"


def _typed(command: str) -> Iterator[tuple[float, str]]:
    yield 0.5, "\x1b[1m$ \x1b[0m"
    for letter in command:
        yield KEY_SECONDS, letter
    yield 0.3, "\r\n"


def _output(command: str, env: dict[str, str]) -> Iterator[tuple[float, str]]:
    """Yield what the command prints to a terminal, each piece with the time since the last."""
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe("/bin/sh", ["/bin/sh", "-c", f"exec {command}"], env)  # noqa: S606
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    last = time.monotonic()
    while data := _read(terminal):
        now = time.monotonic()
        if text := decoder.decode(data):
            yield now - last, text
            last = now
    os.waitpid(child, 0)
    os.close(terminal)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side is closed
        return b""


def surroundings(runtime: str) -> dict[str, str]:
    """Return the environment of somebody who has installed numakube."""
    kept = {name: text for name, text in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    return kept | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONUTF8": "1",
        "TERM": "xterm-256color",
        "TMPDIR": runtime,
        "XDG_RUNTIME_DIR": runtime,
        "KUBECONFIG": f"{runtime}/numakube/lab/kubeconfig",
    }


def prepare(env: dict[str, str]) -> None:
    """Start a lab, deploy onto it, and run the pods of the tutorial."""
    (pods,) = re.findall(r'```yaml title="train.yaml"\n(.*?)```', PODS.read_text(), re.DOTALL)
    _run("numakube lab up --nodes 2 --no-exporter --detach", env)
    _run("numakube deploy --wait", env)
    _run("kubectl apply -f -", env, pods)
    running = "jsonpath={.status.readyReplicas}=4"
    _run(f"kubectl wait --for={running} statefulset/train --timeout=60s", env)
    waits = 'jsonpath={.status.conditions[?(@.type=="PodScheduled")].reason}=Unschedulable'
    _run(f"kubectl wait --for='{waits}' pod/train-4 --timeout=60s", env)


def _run(command: str, env: dict[str, str], given: str = "") -> None:
    sys.stderr.write(f"+ {command}\n")
    subprocess.run(  # noqa: S603
        shlex.split(command), env=env, input=given, text=True, check=True, stdout=sys.stderr
    )


def main(names: list[str]) -> None:
    """Record *names*, or everything."""
    wanted = {name: RECORDINGS[name] for name in names or RECORDINGS}
    with tempfile.TemporaryDirectory(prefix="numakube-rec-") as runtime:
        env = surroundings(runtime)
        if set(wanted) - {"demo"}:
            prepare(env)
        try:
            for name, command in wanted.items():
                cast = record(command, env)
                (IMAGES / f"{name}.cast").write_text(cast, encoding="utf-8")
                (IMAGES / f"{name}.svg").write_text(svg_of(cast), encoding="utf-8")
        finally:
            if set(wanted) - {"demo"}:
                _run("numakube lab down", env)


if __name__ == "__main__":
    main(sys.argv[1:])
