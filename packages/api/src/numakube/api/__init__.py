"""Types of Kubernetes objects and of the kubelet's files, with only the fields we use. Pure.

| module | what it has |
|---|---|
| `codec` | the base of every type, and how it is read and written |
| `meta` | metadata, references and selectors; both kinds of events, and leases |
| `pod` | Pod, Binding, and what a pod consists of |
| `pod_resources` | what a pod amounts to: QoS class, effective requests and limits |
| `kubelet_rejections` | whether a kubelet rejected a pod |
| `nodes`, `affinity_and_taints` | nodes, and how pods are kept to or from them |
| `workloads`, `storage_objects` | what makes pods, and what they mount |
| `selectors`, `selector_text` | what labels a selector matches, and selectors as text |
| `nrt`, `numaresources`, `crds` | NodeResourceTopology, the operator's objects, their definitions |
| `volcano_numatopology`, `kueue`, `pod_groups` | the same, and groups of pods, as others say it |
| `resource_claims`, `resource_slices` | dynamic resource allocation: claims and devices |
| `fit_question`, `strictness` | numakube's own: would it fit, and how strict a scheduler is |
| `koordinator` | Koordinator's annotations, labels and the Device resource |
| `scheduler_config` | KubeSchedulerConfiguration |
| `kubelet_config`, `kubelet_flags`, `kubelet_sources` | the kubelet's file and command line |
| `checkpoints` | the kubelet's state files |
| `field_errors`, `resource_names`, `resource_requirements` | what is wrong with a field |
| `yaml_text`, `interning` | YAML as JSON; equal parts of objects kept once |
"""
