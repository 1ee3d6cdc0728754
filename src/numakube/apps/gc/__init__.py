"""The garbage collector of NodeResourceTopology objects whose node no longer exists.

Objects that name their Node as owner vanish by themselves. Those of other producers, or of a time
before owners were set, stay behind and would be scheduled to as if the node were there.
"""
