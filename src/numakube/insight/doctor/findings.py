"""What a check finds, and the document that holds all findings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from numakube.insight.facts import ClusterFacts
from numakube.values.safe_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numakube.api.pod import Pod
    from numakube.insight.doctor.all_checks import Diagnosis, Entry


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
class FindingSubject:
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
    subject: FindingSubject
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
        rule=rule,
        subject=FindingSubject("Node", node, field=field),
        detail=detail,
        fix=fix,
        node=node,
    )


def about_report(rule: Rule, node: str, detail: str, *, field: str = "", fix: str = "") -> Finding:
    """Return a finding about the NodeResourceTopology of a node."""
    subject = FindingSubject("NodeResourceTopology", node, field=field)
    return Finding(rule=rule, subject=subject, detail=detail, fix=fix, node=node)


def about_cluster(rule: Rule, detail: str, *, field: str = "", fix: str = "") -> Finding:
    """Return a finding about no object in particular."""
    return Finding(
        rule=rule, subject=FindingSubject("Cluster", "", field=field), detail=detail, fix=fix
    )


# A diagnosis as a document for programs, and as lines for people.
#
# A finding that is the same on many objects is printed once: one line names the first few of them
# and how many there are. The document has all of them.


API_VERSION: Final = "insight.numakube.dev/v1alpha1"
KIND: Final = "Diagnosis"
_NAMED: Final = 3
_DETAILS: Final = 5
_NOUNS: Final = {
    Severity.ERROR: ("error", "errors"),
    Severity.WARNING: ("warning", "warnings"),
    Severity.INFO: ("note", "notes"),
}


def document_of(diagnosis: Diagnosis, *, taken_at: str) -> dict[str, Any]:
    """Return the diagnosis as plain data."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "takenAt": taken_at,
        "clean": diagnosis.is_clean,
        "nodes": diagnosis.nodes,
        "pods": diagnosis.pods,
        "waiting": diagnosis.waiting,
        "counts": {severity.value: diagnosis.count(severity) for severity in Severity},
        "findings": [_entry(entry) for entry in diagnosis.entries],
    }


def _entry(entry: Entry) -> dict[str, Any]:
    rule = entry.rule
    return {
        "id": rule.id,
        "severity": rule.severity.value,
        "title": rule.title,
        "why": rule.why,
        "count": len(entry.findings),
        "subjects": [_finding(finding) for finding in entry.findings],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    subject = finding.subject
    parts = {
        "kind": subject.kind,
        "namespace": subject.namespace,
        "name": subject.name,
        "field": subject.field,
        "node": finding.node,
    }
    told = {name: text for name, text in parts.items() if text}
    return {**told, "detail": finding.detail, "fix": finding.remedy}


def summary_of(diagnosis: Diagnosis) -> str:
    """Return one line about everything."""
    looked = f"{diagnosis.nodes:,} nodes and {diagnosis.pods:,} pods"
    if diagnosis.waiting:
        looked += f", {diagnosis.waiting:,} of which wait for a node"
    counts = {severity: diagnosis.count(severity) for severity in Severity}
    told = [
        f"{count} {_NOUNS[severity][count != 1]}" for severity, count in counts.items() if count
    ]
    return f"{', '.join(told) if told else 'Nothing wrong'} in {looked}"


def seen_lines(entry: Entry, *, wide: bool) -> Iterator[str]:
    """Yield where the rule is broken, and what was seen there."""
    groups: dict[tuple[str, str], list[FindingSubject]] = {}
    for finding in entry.findings:
        groups.setdefault((finding.subject.kind, finding.detail), []).append(finding.subject)
    largest = sorted(groups.items(), key=lambda group: -len(group[1]))
    for (kind, detail), subjects in largest if wide else largest[:_DETAILS]:
        yield f"{kind} {_listed(subjects, wide=wide)}: {detail}" if subjects[0].name else detail
    if not wide and len(largest) > _DETAILS:
        rest = sum(len(subjects) for _, subjects in largest[_DETAILS:])
        yield f"and {rest:,} more; -o wide shows all"


def _listed(subjects: Sequence[FindingSubject], *, wide: bool) -> str:
    names = list(dict.fromkeys(subject.key for subject in subjects))
    if wide or len(names) <= _NAMED + 1:
        return ", ".join(names)
    return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED:,} more"


def remedies_of(entry: Entry) -> tuple[str, int]:
    """Return the fix for the first finding, and how many others have one of their own."""
    fixes = list(dict.fromkeys(finding.remedy for finding in entry.findings))
    return fixes[0], len(fixes) - 1


def maker_of(pod: Pod) -> FindingSubject:
    """Return the workload that makes pods like *pod*, or the pod itself."""
    owner = pod.metadata.controller
    kind, name = ("Pod", pod.metadata.name) if owner is None else (owner.kind, owner.name)
    return FindingSubject(kind, name, pod.metadata.namespace)
