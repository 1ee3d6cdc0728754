"""Clusters to be tested on: the lab, and a real kube-apiserver with the lab's nodes on it.

A test that takes the fixture `sites` runs on the lab, and a second time on a real server if
``KUBEBUILDER_ASSETS`` names a directory with ``etcd`` and ``kube-apiserver``. What it needs of
either is a `numakube_lab.testing.Site`.
"""
