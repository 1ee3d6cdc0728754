"""A real kubelet to try the stack on: in a virtual machine, or in a mount namespace of the host.

`python -m tests.vm --help` has the commands; docs/contribute/test-on-a-real-node.md tells how and
why.
"""
