"""What can go wrong with an expression: when it is read, and when it is evaluated."""

from __future__ import annotations

from dataclasses import dataclass

from numakube.errors import NumakubeError


@dataclass(frozen=True, slots=True)
class Issue:
    """One mistake in an expression, at an offset into its text."""

    offset: int
    message: str


class CompileError(NumakubeError):
    """An expression that cannot be used; the message points at each mistake, as cel-go's does."""

    def __init__(self, text: str, issues: list[Issue]) -> None:
        super().__init__("\n".join(_shown(text, issue) for issue in issues))
        self.issues = tuple(issues)


class InstantiationError(CompileError):
    """An expression that is right in itself, but has a part that can never have a value."""

    def __init__(self, problem: str) -> None:
        NumakubeError.__init__(self, problem)
        self.issues = ()


class EvaluationError(NumakubeError):
    """An expression that has no value for these inputs."""


class CostLimitExceeded(NumakubeError):
    """An evaluation that was stopped because it became too expensive; nothing absorbs it."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


def _shown(text: str, issue: Issue) -> str:
    before = text[: issue.offset]
    line_number = before.count("\n") + 1
    start = before.rfind("\n") + 1
    line = text[start:].partition("\n")[0]
    column = issue.offset - start
    return (
        f"ERROR: <input>:{line_number}:{column + 1}: {issue.message}\n | {line}\n | {'.' * column}^"
    )
