"""Virtual machines of KubeVirt, understood as the pods that they run in."""
