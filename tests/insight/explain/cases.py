"""One case for every way in which a pod can be refused, and a few in which it is not."""

from __future__ import annotations

from tests.insight.explain import claim_cases, koordinator_cases, refusal_cases, state_cases
from tests.insight.explain.case import CASES, Case

__all__ = ["CASES", "Case", "claim_cases", "koordinator_cases", "refusal_cases", "state_cases"]
