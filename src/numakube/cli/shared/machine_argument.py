"""What people pass to commands, a machine in any of its formats, read into values.

Errors name the file, the object in it and the field.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from numakube.errors import MalformedObject
from numakube.kubelet.machines.cadvisor_machine import from_cadvisor, read_devices
from numakube.kubelet.machines.shape import PRESETS
from numakube.kubelet.machines.shape_text import from_shape
from numakube.node.sysfs_machine import read_machine

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from numakube.kubelet.machine import Machine


class MachineParameter(click.ParamType[str]):
    """A machine: a shape, a preset, a file or a sysfs tree."""

    name = "machine"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer the presets, and files."""
        del ctx, param
        presets = [name for name in PRESETS if name.startswith(incomplete)]
        files = click.shell_completion.CompletionItem(incomplete, type="file")
        return [*map(click.shell_completion.CompletionItem, presets), files]


def load_machine(text: str) -> Machine:
    """Return the machine that *text* names or describes.

    A directory is a sysfs tree. A file has cAdvisor's MachineInfo, or an object with ``machine``
    and ``devices`` as recorded scenarios have, or a shape. Anything else is a shape itself.
    """
    path = Path(text)
    if _is_there(path):
        return read_machine(path) if path.is_dir() else _from_file(path)
    if _looks_like_a_path(text):
        raise MalformedObject(text, "no such file or directory, and not the shape of a machine")
    return from_shape(text)


def read_text(file: str) -> str:
    """Return the content of *file*, or of standard input for ``-``."""
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise MalformedObject("standard input" if file == "-" else file, "not UTF-8") from None


def read_bytes(file: str) -> bytes:
    """Return the content of *file*, or of standard input for ``-``, whatever it is."""
    return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a shape can be too long for a file name
        return False


def _looks_like_a_path(text: str) -> bool:
    return " " not in text and "," not in text and ("/" in text or text.endswith(".json"))


def _from_file(path: Path) -> Machine:
    content = path.read_text(encoding="utf-8")
    if not content.lstrip().startswith("{"):
        return from_shape(content.strip())
    return _from_document(_json_object(content, str(path)), str(path))


def _from_document(document: dict[str, Any], subject: str) -> Machine:
    if "machine" not in document:
        return from_cadvisor(document, subject=subject)
    devices = read_devices(document.get("devices") or {}, subject=f"{subject}: devices")
    return from_cadvisor(document["machine"], devices=devices, subject=f"{subject}: machine")


def _json_object(content: str, subject: str) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(content)
    except ValueError as error:
        raise MalformedObject(subject, f"not JSON: {error}") from None
    return document
