"""The enforcer: writes CPUs and memory nodes that a scheduler allotted into control groups.

For nodes whose kubelet aligns nothing. `allowed_cpus` says, as a pure function of the node's pods
and its CPUs, what every container may run on; `group_settings` turns that into settings of control
groups, `group_writing` writes them and remembers what was there before, and `enforce_loop` does so
whenever something changes. Kubelets with a static CPU Manager keep what is theirs: pods that they
pinned are never touched.
"""
