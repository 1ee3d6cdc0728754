"""Which logical CPUs a pod or a container gets, if it gets CPUs of its own.

Follows Koordinator's CPU accumulator (1.6): the same free CPUs give the same pick. `picking` tries
one pass after the other: whole cores (`whole_cores`), one thread a core (`spreading`), and for what
is still missing thread by thread (`leftovers`); `distributing` serves nodes that want all their
NUMA nodes used alike. `required` says which CPUs can meet a policy that must be met.
"""
