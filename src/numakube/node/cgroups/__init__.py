"""Control groups of pods and containers, version 1 and version 2, under a root that is given.

Groups are named by their path below the controllers' mount, such as
``kubepods.slice/kubepods-pod1_2.slice``; `names` knows how kubelets and runtimes call them,
`scanning` finds those that exist, `files` reads and writes them, and `ordering` puts writes into an
order that the kernel accepts. `fake` makes a tree of plain files for the lab, and `strict_fake`
refuses what a kernel refuses.
"""
