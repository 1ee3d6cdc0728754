"""Why a pod runs where it runs, or does not run, in values and in text.

    explanation = explain(facts, engine, subject)      # values: `explanation.Explanation`
    print(render(explanation))                         # text for people
    msgspec.json.encode(explanation)                   # for programs; docs/reference/explain.md

The verdict is that of the scheduler's own plugins (`numakube.insight.scheduler_engine`). Every
change that is suggested has been tried on them, the kubelet model included; what was not found to
help is not suggested.
"""

from numakube.insight.explain.explained_pod import Subject, manifest_subject, pod_subject
from numakube.insight.explain.explanation_document import Explanation
from numakube.insight.explain.explanation_text import lines_of, render
from numakube.insight.explain.pod_explanation import explain
from numakube.insight.explain.workload_explanation import (
    Workload,
    explain_workload,
    render_workload,
    workload_lines,
)
from numakube.insight.explain.workload_pods import in_its_gang

__all__ = [
    "Explanation",
    "Subject",
    "Workload",
    "explain",
    "explain_workload",
    "in_its_gang",
    "lines_of",
    "manifest_subject",
    "pod_subject",
    "render",
    "render_workload",
    "workload_lines",
]
