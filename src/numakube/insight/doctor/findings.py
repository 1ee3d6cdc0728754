"""What a check finds: a rule that is broken, where, and how it can be seen there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from numakube.insight.facts import ClusterFacts
from numakube.values.safe_text import printable


class Severity(StrEnum):
    """How bad a finding is; the worst first."""

    ERROR = "error"
    """Pods are not placed, or not aligned, because of it."""
    WARNING = "warning"
    """They are placed worse than they could be, or soon will be."""
    INFO = "info"
    """Worth knowing; no reason to act."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One thing that can be wrong.

    Attributes:
        id: stable; people write it into scripts.
        title: what is wrong, in one line.
        why: what comes of it.
        fix: what to do, as a command or a snippet; words in capitals stand for names.
    """

    id: str
    severity: Severity
    title: str
    why: str
    fix: str

    def fix_for(self, **names: str) -> str:
        """Return the fix with *names* in place of its words in capitals: ``NODE=worker-0``.

        People paste it into a shell, and a bundle may come from anybody.
        """
        words = re.compile(rf"\b(?:{'|'.join(names)})\b")
        return words.sub(lambda found: shlex.quote(printable(names[found[0]])), self.fix)


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """The object that a finding is about, and the field of it."""

    kind: str
    name: str
    namespace: str = ""
    field: str = ""

    @property
    def key(self) -> str:
        """``namespace/name``, or the name alone."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A rule broken by one object.

    Attributes:
        detail: what was seen there, with the values.
        fix: the fix for this very case; that of the rule if empty.
        node: the node that it is about, if it is about one.
    """

    rule: Rule
    subject: Subject
    detail: str
    fix: str = ""
    node: str = ""

    @property
    def remedy(self) -> str:
        """What to do."""
        return self.fix or self.rule.fix


Check: TypeAlias = Callable[[ClusterFacts], Iterable[Finding]]


def about_node(rule: Rule, node: str, detail: str, *, field: str = "", fix: str = "") -> Finding:
    """Return a finding about a Node."""
    return Finding(
        rule=rule, subject=Subject("Node", node, field=field), detail=detail, fix=fix, node=node
    )


def about_report(rule: Rule, node: str, detail: str, *, field: str = "", fix: str = "") -> Finding:
    """Return a finding about the NodeResourceTopology of a node."""
    subject = Subject("NodeResourceTopology", node, field=field)
    return Finding(rule=rule, subject=subject, detail=detail, fix=fix, node=node)


def about_cluster(rule: Rule, detail: str, *, field: str = "", fix: str = "") -> Finding:
    """Return a finding about no object in particular."""
    return Finding(rule=rule, subject=Subject("Cluster", "", field=field), detail=detail, fix=fix)
