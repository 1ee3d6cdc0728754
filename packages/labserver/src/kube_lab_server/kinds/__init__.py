"""What the API server knows of built-in kinds: defaults, checks, admission and columns.

A kind is one value, `KindRules`, made of small functions that stand in the kind's module. Pods are
too much for one: `pods` has what is theirs alone, `pod` what templates of pods have as well.
"""
