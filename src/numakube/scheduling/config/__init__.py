"""From a KubeSchedulerConfiguration file to profiles that run."""
