"""Counts and shares in specifications and statuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.field_errors import FieldError, invalid, invalids
from numakube.values import names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube_lab.kinds import Json


def not_negative(owner: Json, fields: Iterable[str], path: str) -> list[FieldError]:
    """Check that those of *fields* that are there are not below zero."""
    return [
        invalid(f"{path}.{field}" if path else field, owner[field], names.NOT_NEGATIVE)
        for field in fields
        if (owner.get(field) or 0) < 0
    ]


def not_greater(
    owner: Json, fields: Iterable[str], than: str, path: str, detail: str
) -> list[FieldError]:
    """Check that none of *fields* exceeds the field *than*."""
    most = owner.get(than) or 0
    return [
        invalid(f"{path}.{field}", owner.get(field) or 0, detail)
        for field in fields
        if (owner.get(field) or 0) > most
    ]


def not_decremented(new: Json, old: Json, field: str, path: str) -> list[FieldError]:
    """Check that a counter does not go back; one that was never set is not a counter yet."""
    before, after = old.get(field), new.get(field) or 0
    if before is None or after >= before:
        return []
    return [invalid(f"{path}.{field}", after, "cannot be decremented")]


def int_or_percent(value: int | str, path: str) -> list[FieldError]:
    """Check a number that may be a share: ``3`` or ``25%``."""
    if isinstance(value, str):
        return invalids(path, value, names.percent(value))
    return [invalid(path, value, names.NOT_NEGATIVE)] if value < 0 else []


def at_most_all(value: int | str, path: str) -> list[FieldError]:
    """Check that a share is at most 100 %."""
    if isinstance(value, int) or names.percent(value) or int(value[:-1]) <= 100:
        return []
    return [invalid(path, value, "must not be greater than 100%")]


def amount_of(value: int | str | None) -> int:
    """Return the number in *value*, be it a share or not."""
    if isinstance(value, str):
        digits = value.removesuffix("%")
        return int(digits) if digits.isascii() and digits.isdigit() else 0
    return value or 0
