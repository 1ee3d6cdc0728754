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
    from numakube.insight.explain.explained_pod import (
        Subject,
        manifest_subject,
        pod_subject,
        with_planned_claims,
    )
    from numakube.insight.explain.explanation_document import Explanation
    from numakube.insight.explain.explanation_text import (
        EMPTY,
        Line,
        LineRole,
        lines_of,
        render,
        table_lines,
    )
    from numakube.insight.explain.node_verdicts import Judgement, judge
    from numakube.insight.explain.plugin_explainer import PluginPlacement
    from numakube.insight.explain.pod_explanation import (
        ExplainOptions,
        explain,
        nodes_again,
        placement_now,
    )
    from numakube.insight.explain.what_if import Bench
    from numakube.insight.explain.workload_explanation import (
        ExplainedWorkload,
        explain_workload,
        explained,
        in_its_gang,
        render_workload,
        workload_lines,
    )

__all__ = [
    "EMPTY",
    "Bench",
    "ExplainOptions",
    "ExplainedWorkload",
    "Explanation",
    "Judgement",
    "Line",
    "LineRole",
    "PluginPlacement",
    "Subject",
    "explain",
    "explain_workload",
    "explained",
    "in_its_gang",
    "judge",
    "lines_of",
    "manifest_subject",
    "nodes_again",
    "placement_now",
    "pod_subject",
    "render",
    "render_workload",
    "table_lines",
    "with_planned_claims",
    "workload_lines",
]

__getattr__ = lazy_names(
    __name__,
    {
        "explained_pod": "Subject manifest_subject pod_subject with_planned_claims",
        "explanation_document": "Explanation",
        "explanation_text": "lines_of render EMPTY Line LineRole table_lines",
        "pod_explanation": "explain ExplainOptions nodes_again placement_now",
        "workload_explanation": (
            "ExplainedWorkload explain_workload explained in_its_gang "
            "render_workload workload_lines"
        ),
        "node_verdicts": "Judgement judge",
        "what_if": "Bench",
        "plugin_explainer": "PluginPlacement",
    },
)
