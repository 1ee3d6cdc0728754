"""The contract between scheduling plugins and those who run them.

Extension points, their order and the meaning of their results follow kube-scheduler 1.35
(k8s.io/kube-scheduler/framework), so that its documentation holds for our plugins too. Two things
differ. A plugin may judge all nodes at once (`VectorFilter`, `VectorScore`) beside or instead of
one after the other. And a cycle is an ordinary function: nothing changes while it runs.
"""
