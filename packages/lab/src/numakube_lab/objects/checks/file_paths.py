"""Paths of files inside containers and volumes."""

from __future__ import annotations

from typing import Final

from numakube.api.field_errors import FieldError, invalid

MAX_MODE: Final = 0o777
MODE_WRONG: Final = "must be a number between 0 and 0777 (octal), both inclusive"


def validate_no_backsteps(path_text: str, path: str) -> list[FieldError]:
    """Refuse ``..`` as a part of a path."""
    if ".." not in path_text.split("/"):
        return []
    return [invalid(path, path_text, "must not contain '..'")]


def validate_descending(path_text: str, path: str) -> list[FieldError]:
    """Check that a path is relative and stays below its start."""
    absolute = path_text.startswith("/")
    errors = [invalid(path, path_text, "must be a relative path")] if absolute else []
    return errors + validate_no_backsteps(path_text, path)


def validate_not_reserved(path_text: str, path: str) -> list[FieldError]:
    """Check a path in a volume whose files starting with ``..`` belong to the kubelet."""
    errors = validate_descending(path_text, path)
    if path_text.startswith("..") and not path_text.startswith("../"):
        errors.append(invalid(path, path_text, "must not start with '..'"))
    return errors


def validate_mode(mode: int | None, path: str) -> list[FieldError]:
    """Check the permission bits of a file."""
    if mode is None or 0 <= mode <= MAX_MODE:
        return []
    return [invalid(path, mode, MODE_WRONG)]
