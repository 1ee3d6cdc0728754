"""What can go wrong with an expression: when it is read, and when it is evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from numakube.errors import NumakubeError

_MOST_SHOWN: Final = 100
"""How many mistakes a message tells, as in cel-go."""


@dataclass(frozen=True, slots=True)
class Issue:
    """One mistake in an expression, at an offset into its text."""

    offset: int
    message: str


class CompileError(NumakubeError):
    """An expression that cannot be used; the message points at each mistake, as cel-go's does."""

    def __init__(self, text: str, issues: list[Issue]) -> None:
        shown = [_shown(text, issue) for issue in issues[:_MOST_SHOWN]]
        if len(issues) > _MOST_SHOWN:
            shown.append(f"{len(issues) - _MOST_SHOWN} more errors were truncated")
        super().__init__("\n".join(shown))
        self.issues = tuple(issues)


class InstantiationError(CompileError):
    """An expression that is right in itself, but has a part that can never have a value."""

    def __init__(self, problem: str) -> None:
        NumakubeError.__init__(self, problem)
        self.issues = ()


class EvaluationError(NumakubeError):
    """An expression that has no value for these inputs."""


class EvaluationStopped(NumakubeError):
    """An evaluation that was stopped because it took too much; nothing absorbs it."""


class CostLimitExceeded(EvaluationStopped):
    """An evaluation that became too expensive."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class TimeLimitExceeded(EvaluationStopped):
    """An evaluation whose caller had no more time for it."""

    def __init__(self) -> None:
        super().__init__("operation interrupted: it took too long")


def _shown(text: str, issue: Issue) -> str:
    before = text[: issue.offset]
    line_number = before.count("\n") + 1
    start = before.rfind("\n") + 1
    line = text[start:].partition("\n")[0]
    column = issue.offset - start
    return (
        f"ERROR: <input>:{line_number}:{column + 1}: {issue.message}\n | {line}\n | {'.' * column}^"
    )
