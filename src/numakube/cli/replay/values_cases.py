"""``numakube replay values``: quantities, CPU lists, and what pods amount to."""

from __future__ import annotations

from numakube.cli.replay.case_loop import Format, replay_command


def _load() -> Format:
    from numakube.api.values_replay import values_answer

    return Format(answer=values_answer, recorded=dict, required=("kind",))


command = replay_command(
    "values", "Answer recorded questions about quantities, CPU lists and pods.", _load
)
