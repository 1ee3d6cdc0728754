"""Wire types: only the fields we read or write, as frozen msgspec Structs. Pure.

| module | what it has |
|---|---|
| `pod`, `containers`, `volumes` | Pod, Binding, and what a pod consists of |
| `pod_resources` | what a pod amounts to: QoS class, effective requests and limits |
| `pod_phase` | whether a pod has ended, and whether a kubelet rejected it |
| `nodes`, `placement`, `placement_rules` | nodes, and how pods are kept to or from them |
| `workloads`, `storage` | what makes pods, and what they mount |
| `selectors`, `selector_text` | what labels a selector matches, and selectors as text |
| `events`, `leases`, `meta` | both kinds of events, leases, metadata and references |
| `field_errors`, `resource_*` | what is wrong with a field, in kube-apiserver's words |
| `nrt`, `crds` | NodeResourceTopology, and its definition as YAML |
| `kubelet_config` | KubeletConfiguration with the kubelet's defaults and refusals |
| `checkpoints` | the kubelet's state files with their checksums |
| `cadvisor` | MachineInfo |
| `codec`, `yamls` | between bytes and types; errors name the object and the field |
| `replay` | our answers to the recorded rows about values |
"""
