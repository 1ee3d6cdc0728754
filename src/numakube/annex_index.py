"""The manifests of all annexes of this repository, for those who have not installed them.

Written by ``UPDATE_ANNEXES=1 pytest tests/annexes`` from the annexes themselves.
"""

# ruff: noqa: E501

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from numakube.annexes import Added, Annex
from numakube.programs import FeatureGate, ProgramEntry, Stage

ANNEXES: Final = (
    Annex(
        name="conformance",
        summary="Recorded answers of Kubernetes and its neighbours, compared with ours.",
        extra="conformance",
        follows="Kubernetes 1.37",
        pages=("contribute/replay-formats.md",),
        replays=(
            Added(
                name="dra",
                summary="Claims for devices, allocated by kube-scheduler.",
            ),
            Added(
                name="exporter",
                summary="Scans of a node by the Resource Topology Exporter.",
            ),
            Added(
                name="filter",
                summary="Pods judged by NodeResourceTopologyMatch.",
            ),
            Added(
                name="kubelet",
                summary="Pods admitted and removed by a kubelet.",
            ),
            Added(
                name="scheduler",
                summary="Pods filtered and scored on nodes.",
            ),
            Added(
                name="values",
                summary="Quantities, CPU lists, requests of pods.",
            ),
        ),
        examples=MappingProxyType(
            {
                "replay dra": ("claims.jsonl.gz --check",),
                "replay exporter": ("scans.jsonl --check",),
                "replay filter": ("pods.jsonl --check",),
                "replay kubelet": ("cases.jsonl.gz --check",),
                "replay scheduler": ("pods.jsonl --check",),
                "replay values": ("values.jsonl --check",),
            }
        ),
    ),
    Annex(
        name="dra-driver",
        summary="A DRA driver that offers CPUs, memory and PCI functions, and makes claims true.",
        extra="dra-driver",
        follows="Kubernetes 1.34 to 1.37",
        pages=("how-to/choose-topology-manager-or-claims.md", "reference/dra-driver.md"),
        programs=(
            ProgramEntry(
                name="dra-driver",
                summary="Offer this node's CPUs and memory to claims, and make the claims true.",
                port=2115,
                extra="dra-driver",
                on_every_node=True,
            ),
            ProgramEntry(
                name="claim-writer",
                summary="Write claims into new pods, for what they ask for.",
                port=2116,
            ),
        ),
        commands=(
            Added(
                name="claim",
                summary="Write claims into pods, so that a DRA driver aligns them.",
                section="Deploy",
            ),
        ),
        checks=(
            Added(
                name="Claims for CPUs and memory",
                summary="Do nodes and pods have what claims for CPUs and memory take?",
            ),
        ),
        manifests=(
            Added(
                name="dra",
                summary="The DRA driver on every node. CPUs and memory of nodes come by claim.",
                on_request=True,
                uses_reports=False,
            ),
            Added(
                name="claims",
                summary="Writes claims into pods that ask for it. Needs the Secret numakube-claim-writer-tls.",
                on_request=True,
                uses_reports=False,
            ),
        ),
        node_groups=(
            Added(
                name="dra",
                summary="The DRA driver on these nodes.",
            ),
        ),
        examples=MappingProxyType(
            {
                "run dra-driver": ("", "--dry-run", "--cpu-devices l3 --cpu-step cpus"),
                "run claim-writer": ("--tls-cert-file tls.crt --tls-key-file tls.key",),
                "claim": ("-f pod.yaml", "-f pod.yaml --class numa-cpus"),
            }
        ),
    ),
    Annex(
        name="lab",
        summary="An embedded Kubernetes cluster with NUMA nodes, in one process.",
        extra="lab",
        follows="Kubernetes 1.37",
        pages=("how-to/run-a-lab.md", "contribute/lab-api.md"),
        commands=(
            Added(
                name="lab",
                summary="Run a cluster with NUMA nodes in one process.",
                section="Lab",
            ),
            Added(
                name="demo",
                summary="Place the same pods with and without NUMA awareness.",
                section="Lab",
            ),
        ),
        replays=(
            Added(
                name="api",
                summary="Requests to an API server, against the lab's.",
            ),
        ),
        examples=MappingProxyType(
            {
                "demo": ("",),
                "lab": ("up", "status", "down"),
                "lab up": (
                    "",
                    "--nodes 8 --machine dgx-h100 --kubelet policy=restricted",
                    "--detach",
                ),
                "lab down": ("", "--name other"),
                "lab status": ("", "--name lab -o json"),
                "lab node": ("add --count 2", "kill node-0", "start node-0"),
                "lab node add": ("--count 2 --machine dgx-h100",),
                "lab node set": ("node-0 --kubelet policy=restricted,scope=pod",),
                "lab node kill": ("node-0",),
                "lab node start": ("node-0",),
                "lab node restart": ("node-0",),
                "lab node pause": ("node-0",),
                "lab node resume": ("node-0",),
                "lab node path": ("node-0",),
                "lab node remove": ("node-0",),
                "lab fault": ("fail --code 503 --share 0.5", "list", "clear"),
                "lab fault fail": ("--code 503 --path /pods --times 3",),
                "lab fault delay": ("2 --method GET",),
                "lab fault drop": ("--share 0.1",),
                "lab fault list": ("",),
                "lab fault clear": ("",),
                "lab fault freeze-exporter": ("node-0",),
                "lab fault thaw-exporter": ("node-0",),
                "lab fault skew-reports": ("node-0 --amount cpu=-2",),
                "lab fault drop-watches": ("",),
                "lab fault expire-history": ("",),
                "replay api": ("requests.jsonl --check",),
            }
        ),
    ),
    Annex(
        name="levels",
        summary="Gangs over several levels of topology: racks, blocks and NVLink domains.",
        extra="levels",
        follows="Kueue 0.19, KAI 2026-08, Volcano 1.16",
        pages=("how-to/place-gangs-by-levels.md",),
        commands=(
            Added(
                name="top domains",
                summary="Which racks or NVLink domains are whole, and what breaks the others?",
                section="Look",
            ),
        ),
        plugins=(
            Added(
                name="TopologyLevels",
                summary="Places gangs by levels of topology, all domains costed.",
                by_default=True,
            ),
            Added(
                name="DomainProtection",
                summary="Keeps pods that ask for no level out of whole domains.",
                by_default=True,
                weight=5,
            ),
        ),
        examples=MappingProxyType(
            {
                "top domains": ("", "--level nvlink --shape cpu=64,nvidia.com/gpu=4 --size 16"),
            }
        ),
    ),
    Annex(
        name="measured",
        summary="What pods and NUMA nodes really use, measured, beside what was promised.",
        extra="measured",
        follows="Linux 6.12: control groups, sysfs, procfs, resctrl",
        pages=("reference/measured.md",),
        commands=(
            Added(
                name="bench",
                summary="How fast is memory of other NUMA nodes on this machine?",
                section="Check and plan",
            ),
        ),
        plugins=(
            Added(
                name="MeasuredRoom",
                summary="Prefers nodes whose zones have memory left as measured; off by default.",
            ),
        ),
        checks=(
            Added(
                name="Measured",
                summary="Do pods get what they were promised?",
            ),
        ),
        report_annotations=(
            Added(
                name="measured",
                summary="Where memory, threads and interrupts of pods really are.",
            ),
        ),
        observations=(
            Added(
                name="measured",
                summary="What pods and zones really have, in explanations and tables.",
            ),
        ),
        feature_gates=(
            FeatureGate(
                name="MeasuredLocality",
                summary="Exporters measure where memory and threads of pods really are.",
                asked_for="run exporter --measure",
                stage=Stage.BETA,
                since="1.0",
            ),
        ),
        examples=MappingProxyType(
            {
                "bench": ("node",),
                "bench node": (
                    "",
                    "-o svg --output-file memory.svg",
                    "-o annotation --node worker-0",
                ),
            }
        ),
    ),
    Annex(
        name="pages",
        summary="Web pages that show a cluster by NUMA zone, and maps of nodes as SVG and PNG.",
        extra="pages",
        pages=("reference/dashboard.md", "reference/map.md"),
        programs=(
            ProgramEntry(
                name="dashboard",
                summary="Serve pages that show a cluster by NUMA zone.",
                port=8090,
                extra="pages",
                section="Look",
            ),
        ),
        endpoints=(
            Added(
                name="dashboard",
                summary="The pages of the dashboard.",
                path="/dashboard/",
            ),
        ),
        drawings=(
            Added(
                name="svg",
                summary="A drawing for pages, light or dark as the reader has it.",
            ),
            Added(
                name="png",
                summary="The same drawing as an image.",
            ),
        ),
        examples=MappingProxyType(
            {
                "dashboard": (
                    "",
                    "--port 9000",
                    "--prometheus monitoring/prometheus-k8s:9090",
                    "--from numakube-bundle.tar.gz",
                ),
            }
        ),
    ),
    Annex(
        name="placement",
        summary="The scheduler places pods on NUMA nodes by annotations, and an agent enforces it.",
        extra="placement",
        follows="Koordinator 1.6",
        pages=(
            "how-to/align-without-the-kubelet.md",
            "how-to/migrate-from-scheduler-plugins.md",
            "reference/placement-by-scheduler.md",
            "reference/policy-by-annotation.md",
        ),
        programs=(
            ProgramEntry(
                name="enforcer",
                summary="Give containers what a scheduler allotted to them.",
                port=2114,
                extra="enforcer",
                on_every_node=True,
            ),
            ProgramEntry(
                name="webhook",
                summary="Refuse pods whose NUMA annotations are wrong.",
                port=8443,
            ),
        ),
        commands=(
            Added(
                name="check manifests",
                summary="Are NUMA annotations and labels in manifests right?",
                old_name="check",
            ),
        ),
        plugins=(
            Added(
                name="NodeNUMAResource",
                summary="Places pods on nodes whose kubelet aligns nothing.",
            ),
            Added(
                name="DeviceShare",
                summary="Is there for configurations that name it.",
            ),
        ),
        checks=(
            Added(
                name="Placement by the scheduler",
                summary="Do nodes where the scheduler places pods have what that takes?",
            ),
        ),
        manifests=(
            Added(
                name="enforcer",
                summary="The enforcer on every node.",
                on_request=True,
                uses_reports=False,
            ),
            Added(
                name="webhook",
                summary="The admission webhook.",
                on_request=True,
            ),
        ),
        definitions=(
            Added(
                name="nrt-v1beta1",
                summary="NodeResourceTopology with the proposed version v1beta1.",
            ),
        ),
        allotments=(
            Added(
                name="koordinator",
                summary="What Koordinator's and KAI's annotations say.",
            ),
        ),
        plugin_explainers=(
            Added(
                name="NodeNUMAResource",
                summary="By which rule a pod is placed, and what helps.",
            ),
        ),
        report_annotations=(
            Added(
                name="koordinator",
                summary="What koordlet writes into reports.",
            ),
        ),
        feature_gates=(
            FeatureGate(
                name="EnforcerNRI",
                summary="The enforcer sets containers before they start, as a plug-in of the runtime.",
                asked_for="run enforcer --nri",
                stage=Stage.BETA,
                since="0.9",
            ),
            FeatureGate(
                name="NodeResourceTopologyV1Beta1",
                summary="The proposed v1beta1 of NodeResourceTopology, and its conversion.",
                asked_for="deploy --nrt-v1beta1",
                stage=Stage.ALPHA,
                since="0.9",
            ),
        ),
        examples=MappingProxyType(
            {
                "run enforcer": ("--once",),
                "run webhook": ("--tls-cert-file tls.crt --tls-key-file tls.key",),
                "check manifests": ("deploy/", "- < pod.yaml"),
            }
        ),
    ),
    Annex(
        name="planning",
        summary="What would become of pods, and which to move so that others fit.",
        extra="planning",
        follows="Kueue 0.19, kube-controller-manager 1.35",
        pages=(
            "how-to/make-room-by-moving-pods.md",
            "how-to/queue-until-it-fits.md",
            "reference/simulate.md",
        ),
        programs=(
            ProgramEntry(
                name="admission-check",
                summary="Let queued work start only when all of its pods fit.",
                port=8082,
            ),
            ProgramEntry(
                name="rebalancer",
                summary="Move a few pods an hour so that others fit.",
                port=8083,
            ),
        ),
        commands=(
            Added(
                name="fits",
                summary="How many more of these pods fit, where, and what limits the next one?",
                section="Look",
            ),
            Added(
                name="report",
                summary="How was the cluster used, what was stranded, and who waited?",
                section="Look",
            ),
            Added(
                name="check pods",
                summary="Which pods want alignment and do not have it?",
                old_name="audit",
            ),
            Added(
                name="plan simulate",
                summary="What would become of pods on a cluster?",
                old_name="simulate",
                extra="simulate",
            ),
            Added(
                name="plan advise",
                summary="Which smaller request gives a pod more places?",
                old_name="advise",
            ),
            Added(
                name="plan defrag",
                summary="Which pods would have to move so that these fit?",
                old_name="defrag",
            ),
        ),
        explainers=(
            Added(
                name="moves",
                summary="The moves that would let a pod fit.",
            ),
        ),
        manifests=(
            Added(
                name="admission",
                summary="Lets queued work start when all of its pods fit.",
                on_request=True,
            ),
            Added(
                name="rebalancer",
                summary="Moves pods so that others fit.",
                on_request=True,
            ),
        ),
        companions=(
            Added(
                name="admissionCheck",
                summary="An admission check beside a scheduler.",
            ),
            Added(
                name="rebalancer",
                summary="A rebalancer beside a scheduler.",
            ),
        ),
        endpoints=(
            Added(
                name="fit",
                summary="Whether pods would fit.",
                path="/v1/fit",
            ),
        ),
        feature_gates=(
            FeatureGate(
                name="PodMoves",
                summary="Pods are moved so that others fit.",
                asked_for="run rebalancer",
                stage=Stage.BETA,
                since="0.9",
            ),
        ),
        examples=MappingProxyType(
            {
                "fits": (
                    "-f pod.yaml",
                    "--shape cpu=8,memory=32Gi,nvidia.com/gpu=1",
                    "-f job.yaml -o json",
                ),
                "report": (
                    "--prometheus monitoring/prometheus-k8s:9090 --weekly",
                    "--prometheus https://prometheus.example --days 30 -o json",
                ),
                "check pods": ("", "-n team -o wide", "pod/web -o json"),
                "plan simulate": (
                    '--nodes "10x 2 sockets, 16 cores, smt 2, 128Gi, gpu 4" -f mix.yaml --seeds 10',
                    "--from cluster.yaml --set topologyManagerPolicy=restricted",
                    "--trace openb_pod_list_default.csv --trace-nodes openb_node_list_all_node.csv",
                    "--drain node-3 --scheduler numakube",
                ),
                "plan advise": ("-f pod.yaml", "deployment/web", "pod web -n team -o json"),
                "plan defrag": (
                    "--shape cpu=16,memory=64Gi,nvidia.com/gpu=2 --count 4",
                    "pod/web --apply",
                    "--reduce-stranded --moves 10 --map",
                    "-f pod.yaml -o json",
                ),
                "run rebalancer": ("--dry-run", "--moves-per-hour 10 --quiet-hours 08:00-18:00"),
                "run admission-check": ("--no-gates --hold 5m", "--no-kueue"),
            }
        ),
    ),
    Annex(
        name="sriov",
        summary="A device plugin that tells the kubelet the NUMA nodes of PCI devices.",
        extra="sriov",
        follows="SR-IOV network device plugin 3.11",
        pages=("reference/sriov.md",),
        programs=(
            ProgramEntry(
                name="sriov",
                summary="Offer PCI devices to this node's kubelet.",
                port=2113,
                extra="sriov",
                on_every_node=True,
            ),
        ),
        manifests=(
            Added(
                name="sriov",
                summary="The SR-IOV device plugin: a DaemonSet. What it offers is in its ConfigMap.",
                uses_reports=False,
            ),
        ),
        node_groups=(
            Added(
                name="sriov",
                summary="The SR-IOV device plugin on these nodes.",
            ),
        ),
        examples=MappingProxyType(
            {
                "run sriov": ("--dry-run --explain", "--config-file pools.json"),
            }
        ),
    ),
    Annex(
        name="tracing",
        summary="OpenTelemetry traces of a pod's way: queue, attempt, bind, kubelet.",
        extra="tracing",
        follows="OpenTelemetry semantic conventions 1.37",
        pages=("reference/debug-endpoints.md",),
        endpoints=(
            Added(
                name="traces",
                summary="Whether traces are exported, and where to.",
                path="/debug/traces",
            ),
        ),
    ),
    Annex(
        name="virtual-machines",
        summary="Virtual machines of KubeVirt: what their pods ask for, and the guest's NUMA cells.",
        extra="virtual-machines",
        follows="KubeVirt 1.5",
        pages=("reference/virtual-machines.md",),
        explainers=(
            Added(
                name="virtual-machine",
                summary="What a machine's pod asks for, and guest cells.",
            ),
        ),
        pod_kinds=(
            Added(
                name="VirtualMachine",
                summary="The pod that a virtual machine runs in.",
            ),
            Added(
                name="VirtualMachineInstance",
                summary="The pod that an instance runs in.",
            ),
        ),
        observations=(
            Added(
                name="virtual-machine",
                summary="Which virtual machine runs in a pod.",
            ),
        ),
    ),
    Annex(
        name="zone-affinity",
        summary="Pods near and far from each other within a node, by NUMA node, PCI root or island.",
        extra="zone-affinity",
        pages=("how-to/keep-devices-close.md",),
        plugins=(
            Added(
                name="ZoneAffinity",
                summary="Keeps pods of a node apart or together, by NUMA node, PCI root or island.",
                by_default=True,
            ),
            Added(
                name="LinkedDevices",
                summary="Gives pods devices that are linked: NVLink, xGMI, HCCS.",
                by_default=True,
            ),
        ),
        checks=(
            Added(
                name="Zone affinity",
                summary="Are pods of a node apart or together as they ask?",
            ),
        ),
        explainers=(
            Added(
                name="zone-affinity",
                summary="Which zone a pod would get, and who is there.",
            ),
        ),
        observations=(
            Added(
                name="linked",
                summary="Whether the devices of pods are linked as they ask.",
            ),
            Added(
                name="zone-affinity",
                summary="Whether pods are apart or together as they ask.",
            ),
        ),
    ),
)
