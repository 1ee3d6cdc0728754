"""OpenTelemetry traces of a pod's way: queue, attempt, bind, kubelet."""
