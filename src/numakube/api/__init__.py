"""Wire types: only the fields we read or write, as frozen msgspec Structs. Pure.

| module | what it has |
|---|---|
| `core` | Pod, Binding, and by re-export Node, Container, Volume and the rest of core/v1 |
| `pods` | what a pod amounts to: QoS class, effective requests and limits |
| `events`, `leases`, `meta` | both kinds of events, leases, metadata and lists |
| `nrt`, `crds` | NodeResourceTopology, and its definition as YAML |
| `kubelet_config` | KubeletConfiguration with the kubelet's defaults and refusals |
| `checkpoints` | the kubelet's state files with their checksums |
| `cadvisor` | MachineInfo |
| `codec`, `yamls` | between bytes and types; errors name the object and the field |
| `replay` | our answers to the recorded rows about values |
"""
