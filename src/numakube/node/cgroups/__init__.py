"""Control groups of pods and containers, versions 1 and 2, below a given root.

Groups are named by their path below the controllers' mount, such as
``kubepods.slice/kubepods-pod1_2.slice``; `group_names` knows how kubelets and runtimes name
them, `group_scan` finds those that exist, `group_files` reads and writes them, and `write_order`
puts writes into an order that the kernel accepts. `fake_groups` makes a tree of plain files for the
lab, and `strict_fake_groups` refuses what a kernel refuses.
"""
