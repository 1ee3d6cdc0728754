"""Exporters for the lab's nodes: the real ones, reading kubelets of the same process."""
