"""What pods and NUMA nodes really use, measured on the node, beside what the kubelet promised."""
