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


class EvaluationError(NumakubeError):
    """An expression that has no value for these inputs."""


def _shown(text: str, issue: Issue) -> str:
    before = text[: issue.offset]
    line_number = before.count("\n") + 1
    start = before.rfind("\n") + 1
    line = text[start:].partition("\n")[0]
    column = issue.offset - start
    return (
        f"ERROR: <input>:{line_number}:{column + 1}: {issue.message}\n | {line}\n | {'.' * column}^"
    )
