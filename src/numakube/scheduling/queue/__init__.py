"""Pods that wait for a node, and what wakes them.

`entries.QueuedPod` is one of them with its history; `queue.SchedulingQueue` says whose turn it is.
"""
