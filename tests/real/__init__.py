"""Real Kubernetes binaries for tests, when there are any.

They are found by ``KUBEBUILDER_ASSETS``, the variable by which the test kits of the Kubernetes
projects find theirs: a directory with ``etcd``, ``kube-apiserver`` and, for some, ``kubectl``.
"""
