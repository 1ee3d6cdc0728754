"""Faults to order: requests that fail, lag or break off, for tests and for curious users.

A rule matches requests by method and path and applies to a share of them, for a number of times or
until it is removed. Rules are tried in order; delays add up, and the first failure ends the search.
Only requests over HTTP are hit; the lab's own controllers and kubelets do not use sockets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from numakube.errors import ConfigError

if TYPE_CHECKING:
    from random import Random


class FaultKind(StrEnum):
    """What happens to a request."""

    FAIL = "fail"
    DELAY = "delay"
    DROP = "drop"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRule:
    """One kind of fault.

    Attributes:
        methods: HTTP methods that are hit; empty means all.
        path: a regular expression that the path and query must contain a match of.
        code: the HTTP status of a failure.
        seconds: how long a delay lasts.
        share: the share of matching requests that are hit, from 0 to 1.
        times: how often the rule applies before it is spent; ``None`` for ever.
    """

    kind: FaultKind
    methods: tuple[str, ...] = ()
    path: str = ""
    code: int = 500
    seconds: float = 0.0
    share: float = 1.0
    times: int | None = None

    def __post_init__(self) -> None:
        """Refuse rules that make no sense."""
        try:
            re.compile(self.path)
        except re.error as error:
            raise ConfigError(
                f"fault: path {self.path!r} is no regular expression: {error}"
            ) from None
        if not 0 <= self.share <= 1:
            raise ConfigError(f"fault: share {self.share} must be between 0 and 1")
        if self.kind is FaultKind.FAIL and not 400 <= self.code <= 599:
            raise ConfigError(f"fault: code {self.code} must be between 400 and 599")

    def matches(self, method: str, target: str) -> bool:
        """Tell whether a request could be hit."""
        return (not self.methods or method in self.methods) and bool(re.search(self.path, target))


class Fault(NamedTuple):
    """What to do to one request."""

    delay: float = 0.0
    code: int | None = None
    drop: bool = False


@dataclass(slots=True)
class Faults:
    """The rules in force."""

    rng: Random
    _rules: dict[int, FaultRule] = field(default_factory=dict)
    _left: dict[int, int] = field(default_factory=dict)
    _last: int = 0

    def add(self, rule: FaultRule) -> int:
        """Put a rule in force; return its number."""
        self._last += 1
        self._rules[self._last] = rule
        if rule.times is not None:
            self._left[self._last] = rule.times
        return self._last

    def remove(self, number: int) -> None:
        """Lift a rule; unknown numbers are fine, the rule may be spent."""
        self._rules.pop(number, None)
        self._left.pop(number, None)

    def clear(self) -> None:
        """Lift all rules."""
        self._rules.clear()
        self._left.clear()

    def rules(self) -> dict[int, FaultRule]:
        """Return the rules in force by number."""
        return dict(self._rules)

    def strike(self, method: str, target: str) -> Fault:
        """Return what happens to a request; usually nothing."""
        delay = 0.0
        for number, rule in tuple(self._rules.items()):
            if not rule.matches(method, target) or self.rng.random() >= rule.share:
                continue
            self._use(number)
            if rule.kind is FaultKind.DELAY:
                delay += rule.seconds
            elif rule.kind is FaultKind.DROP:
                return Fault(delay, drop=True)
            else:
                return Fault(delay, code=rule.code)
        return Fault(delay)

    def _use(self, number: int) -> None:
        if number in self._left:
            self._left[number] -= 1
            if self._left[number] <= 0:
                self.remove(number)
