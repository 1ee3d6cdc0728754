"""Why a pod runs where it runs, or does not run, in values and in text.

    explanation = explain(facts, engine, subject)      # values: `explanation.Explanation`
    print(render(explanation))                         # text for people
    msgspec.json.encode(explanation)                   # for programs; docs/reference/explain.md

The verdict is that of the scheduler's own plugins (`numakube.insight.scheduler_engine`). Every
change that is suggested has been tried on them, the kubelet model included; what was not found to
help is not suggested.

What `__all__` names is public; it is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from numakube.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from numakube.insight.explain.explained_pod import Subject, manifest_subject, pod_subject
    from numakube.insight.explain.explanation_document import Explanation
    from numakube.insight.explain.explanation_text import lines_of, render
    from numakube.insight.explain.pod_explanation import explain
    from numakube.insight.explain.workload_explanation import (
        ExplainedWorkload,
        explain_workload,
        explained,
        in_its_gang,
        render_workload,
        workload_lines,
    )

__all__ = [
    "ExplainedWorkload",
    "Explanation",
    "Subject",
    "explain",
    "explain_workload",
    "explained",
    "in_its_gang",
    "lines_of",
    "manifest_subject",
    "pod_subject",
    "render",
    "render_workload",
    "workload_lines",
]

__getattr__ = lazy_names(
    __name__,
    {
        "explained_pod": "Subject manifest_subject pod_subject",
        "explanation_document": "Explanation",
        "explanation_text": "lines_of render",
        "pod_explanation": "explain",
        "workload_explanation": "ExplainedWorkload explain_workload explained in_its_gang"
        " render_workload workload_lines",
    },
)
