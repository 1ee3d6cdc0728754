"""The node exporter: from a kubelet and sysfs to the node's NodeResourceTopology.

The computing half is pure: `report.topology_of` turns everything that one scan read
(`inputs.NodeInputs`) into what is published (`report.Report`). The other half reads, waits for
changes and writes.
"""
