"""The plugins of kube-scheduler's default profile (1.37), with its verdicts and scores.

Each plugin has the form that judges one node, which preemption asks in what-ifs; those that are
asked about every node of a large cluster also have the vectorised one. `default_plugins`
lists them all.
"""
