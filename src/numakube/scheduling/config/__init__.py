"""Turns a KubeSchedulerConfiguration file into profiles that can run."""
