"""Checks that look once at parts which many objects share.

Replicas of a workload differ in little but their names. What a check says of one part, such as the
containers of a pod, it says of every equal part.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast

import msgspec

Check = TypeVar("Check", bound=Callable[..., list[Any]])


def remembered(check: Check) -> Check:
    """Return *check* with a memory; it must take JSON by position and look at nothing else."""

    @lru_cache(maxsize=1024)
    def answer(arguments: bytes) -> tuple[Any, ...]:
        return tuple(check(*msgspec.json.decode(arguments)))

    @wraps(check)
    def ask(*arguments: Any) -> list[Any]:  # noqa: ANN401 - what the check takes
        return list(answer(msgspec.json.encode(arguments)))

    return cast("Check", ask)
