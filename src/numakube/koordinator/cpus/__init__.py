"""Chooses the logical CPUs of a pod or container that gets exclusive ones.

Follows Koordinator's CPU accumulator (1.6): the same free CPUs give the same pick. `cpu_pick` tries
one pass after the other: whole cores (`whole_cores`), then single threads. `bind_policy` says which
CPUs can meet a policy that must be met, `shared_pools` which CPUs are left for pods without CPUs of
their own.
"""
