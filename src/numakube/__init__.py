"""NUMA-aware scheduling for Kubernetes, built on one exact model of the kubelet."""

__version__ = "0.1.0"
