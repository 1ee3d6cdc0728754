"""What the readers of all state files share: parsing, versions, and the kubelet's complaints."""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from numakube.api.checkpoints.checksum import checksum_of_text
from numakube.api.codec import BROKEN_JSON, Wire, convert, decode_tree
from numakube.errors import CorruptCheckpoint, MalformedObject
from numakube.values.gotext import go_quote

CORRUPTED: Final = "checkpoint is corrupted"

State = TypeVar("State")
Fields = TypeVar("Fields", bound=msgspec.Struct)
Loader: TypeAlias = Callable[[dict[str, Any]], State]
"""Turns the JSON object of a state file into a state, or raises `CorruptCheckpoint`."""


class Seal(Wire, frozen=True):
    """The checksums of a file, and the string that holds the content since 1.37."""

    checksum: int = 0
    data: str = ""
    data_checksum: int = 0

    @property
    def has_data(self) -> bool:
        """Tell whether the file is of the newest kind, even if it is damaged."""
        return bool(self.data or self.data_checksum)


def decode_as_written(kind: type[Fields], data: bytes | str) -> Fields:
    """Return the fields of *kind* from *data*, JSON with keys spelled as the kubelet writes them.

    Much faster than `parse_object` and `read_fields`, which also take what Go would take.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except BROKEN_JSON as error:
        raise CorruptCheckpoint(str(error)) from None


def parse_object(data: bytes | str) -> dict[str, Any]:
    """Return the JSON object *data*."""
    try:
        tree = decode_tree(data, "checkpoint")
    except MalformedObject as error:
        raise CorruptCheckpoint(error.detail) from None
    if not isinstance(tree, dict):
        raise CorruptCheckpoint("not a JSON object")
    return tree


def parse_sealed(data: str, checksum: int) -> dict[str, Any]:
    """Return the JSON object in the string *data* that *checksum* belongs to."""
    tree = parse_object(data)
    require(checksum_of_text(data) == checksum, CORRUPTED)
    return tree


def require(condition: bool, reason: str) -> None:
    """Refuse the file for *reason* unless *condition* holds."""
    if not condition:
        raise CorruptCheckpoint(reason)


def require_policy(recorded: str, configured: str | None, *, prefix: str = "") -> None:
    """Refuse a file that another policy than the configured one has written."""
    require(
        configured is None or recorded == configured,
        f"{prefix}configured policy {go_quote(configured or '')} differs from state checkpoint"
        f" policy {go_quote(recorded)}",
    )


def read_fields(kind: type[Fields], tree: dict[str, Any]) -> Fields:
    """Return the fields of *kind* from *tree*; as in Go, the case of the keys does not matter."""
    names = {field.encode_name.lower(): field.encode_name for field in msgspec.structs.fields(kind)}
    folded = {names.get(key.lower(), key): value for key, value in tree.items()}
    try:
        return convert(kind, folded)
    except MalformedObject as error:
        raise CorruptCheckpoint(f"{error.path}: {error.detail}") from None


def first_that_loads(tree: dict[str, Any], loaders: Iterable[Loader[State]]) -> State:
    """Return what the first of *loaders* that accepts *tree* makes of it; else the last error."""
    refusal = CorruptCheckpoint("no version of this file can be read")
    for load in loaders:
        try:
            return load(tree)
        except CorruptCheckpoint as error:
            refusal = error
    raise refusal


def cannot_restore(reason: object, *, manager: str, path: str) -> CorruptCheckpoint:
    """Return the error that the kubelet ends with, in its words."""
    return CorruptCheckpoint(
        f"could not restore state from checkpoint: {reason}, please drain this node and delete "
        f'the {manager} checkpoint file "{path}" before restarting Kubelet'
    )
