"""Types of Kubernetes objects and of the kubelet's files, with only the fields we use. Pure.

| module | what it has |
|---|---|
| `wire`, `meta` | the base of every type; metadata, references and selectors |
| `pod`, `containers`, `volumes` | Pod, Binding, and what a pod consists of |
| `pod_resources` | what a pod amounts to: QoS class, effective requests and limits |
| `pod_phase` | whether a pod has ended, and whether a kubelet rejected it |
| `nodes`, `affinity_and_taints` | nodes, and how pods are kept to or from them |
| `workloads`, `storage` | what makes pods, and what they mount |
| `selectors`, `selector_text` | what labels a selector matches, and selectors as text |
| `events`, `leases` | both kinds of events, and leases |
| `nrt`, `nodetopology`, `crds` | NodeResourceTopology, the operator's objects, their definitions |
| `koordinator` | Koordinator's annotations, labels and the Device resource |
| `scheduler_config` | KubeSchedulerConfiguration |
| `kubelet_config`, `kubelet_fields`, `kubelet_flags` | the kubelet's file and command line |
| `checkpoints`, `cadvisor` | the kubelet's state files, and MachineInfo |
| `field_errors`, `resource_*`, `decode_errors` | what is wrong with a field or a document |
| `codec`, `yaml_text`, `interning` | between bytes and types; equal parts kept once |
| `replay` | our answers to the recorded rows about values |
"""
