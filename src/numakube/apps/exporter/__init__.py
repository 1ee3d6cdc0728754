"""The exporter: publishes a node's state as a NodeResourceTopology object.

The computing half is pure: `report.topology_of` turns everything that one scan read
(`inputs.NodeInputs`) into what is published (`report.Report`). The other half reads, waits for
changes and writes.
"""
