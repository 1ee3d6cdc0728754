"""What several commands have in common: ``numakube help topic NAME``.

Pages have more: these texts are for people in a terminal without them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from numakube.annexes import feature_gates
from numakube.cli.shared.terminal import column_lines


@dataclass(frozen=True, slots=True)
class Topic:
    """A text, and its line in the list."""

    summary: str
    text: str


_GATES: Final = """\
As in Kubernetes: what is alpha is off and may go, what is beta is on. A gate
allows a feature; its own flag asks for it.

  numakube run scheduler --feature-gates SchedulerShards=false
  numakube deploy --feature-gates AllBeta=false,ReportUpdates=true
  NUMAKUBE_FEATURE_GATES=PodMoves=false numakube run rebalancer

Files of the exporter have featureGates, and so have the values of the chart.
The operator tells its own to all programs that it starts. Metrics say what is
on: kubernetes_feature_enabled.

"""


def _gates() -> str:
    rows = [
        (gate.name, f"{gate.stage.value} {gate.since}", str(gate.default).lower(), gate.asked_for)
        for gate in feature_gates().values()
    ]
    heads = ("NAME", "STAGE", "DEFAULT", "ASKED FOR BY")
    return _GATES + "\n".join(column_lines(heads, rows))


TOPICS: Final = {
    "cluster": Topic(
        "Which cluster is asked, and as whom.",
        """\
The cluster is found as kubectl finds it: --kubeconfig, then KUBECONFIG, then
~/.kube/config, then the account of the pod. These options stand before a
command or after it:

  --kubeconfig FILE  --context NAME  -s, --server URL
  --as USER  --as-group GROUP  --request-timeout DURATION  -v LEVEL

Who may only see a namespace gets answers without names of others, once an
administrator allows it. The ClusterRole numakube-view is a part of view.

  numakube top --context production
  kubectl numa explain pod web -n team --as jane""",
    ),
    "sources": Topic(
        "Other places than a live cluster to look at: --from.",
        """\
--from FILE reads a file instead of a live cluster, and - is standard input:

  a bundle   what `kubectl numa bundle` writes: everything, to be sent
  a dump     what `kubectl get nodes,pods,noderesourcetopologies -A -o yaml`
             prints, also with other kinds; what it lacks is said
  live       the cluster itself, which is the default

  numakube bundle --anonymise -o cluster.tar.gz
  numakube explain pod web --from cluster.tar.gz
  numakube lab up --from cluster.tar.gz""",
    ),
    "names": Topic(
        "How nodes, pods and other objects are named.",
        """\
As for kubectl: `pod web` and `pod/web` are the same, kinds may be singular,
plural or short, and where only one kind is possible it can be left out. A
namespace is that of the context, or -n, or stands before the name: team/web.
What `-o name` prints can be given to any command, and to kubectl.

  numakube map node-0
  numakube explain pod team/web
  numakube top nodes -o name""",
    ),
    "pods": Topic(
        "Saying which pod is meant: by name, -f or --shape.",
        """\
  pod/web, deployment/web   what is there
  -f FILE                   what would come: a Pod, Deployment, Job, ... ; - is
                            standard input
  --shape RESOURCES         what a pod asks for, each resource once, amounts as
                            in manifests: cpu=8,memory=32Gi,nvidia.com/gpu=1

Short names of resources are taken where they are clear: gpu=1. Requests equal
limits in a shape, so that its pods are aligned wherever any are.

  numakube fits --shape cpu=8,memory=32Gi,nvidia.com/gpu=1
  numakube explain pod -f job.yaml
  numakube plan defrag --shape cpu=16,memory=64Gi --count 2""",
    ),
    "machines": Topic(
        "Saying which machine, or which nodes: shapes, presets, like NODE.",
        """\
A MACHINE is a shape, a preset, a file (cAdvisor's MachineInfo) or a sysfs tree:

  "2 sockets, 2 numa each, 16 cores, smt 2, 96Gi, hugepages-1Gi 16, gpu 2"
  "dgx-h100, 512Gi"     a preset, changed; `machine --presets` lists them
  /sys                  the machine that you are on

Nodes that do not exist are so many of a machine, and a kubelet after a
semicolon; or so many like one that is there:

  "10x dgx-h100; policy=single-numa-node,scope=pod"
  "10x like node-0"

  numakube machine dgx-h100
  numakube fits --shape cpu=8 --nodes "10x like node-0"
  numakube lab up --nodes 4 --machine "2 sockets, 8 cores, smt 2, 64Gi, gpu 2\"""",
    ),
    "kubelets": Topic(
        "Words for a kubelet's settings.",
        """\
WORDS are NAME=VALUE with commas; names are short, or those of the
KubeletConfiguration:

  policy=none|best-effort|restricted|single-numa-node
  scope=container|pod
  full-pcpus-only=true      and other options of the CPU Manager
  memoryManagerPolicy=None|Static

-k FILE takes a KubeletConfiguration, /configz, or a KubeletConfig of OpenShift.

  numakube plan admit --machine telco-2s --kubelet policy=restricted -f du.yaml
  numakube check kubelets""",
    ),
    "feature-gates": Topic("Features that can be switched on or off, and their stages.", _gates()),
    "output": Topic(
        "Forms of output, colours and widths.",
        """\
-o table is for people, wide has more, json and yaml have everything, name is
for scripts. What -o json prints keeps its fields; tables may change.

Colours need a terminal and respect NO_COLOR. Output that is not for a terminal
is never cut, unless COLUMNS says how wide it is to be. Durations are written as
5s, 2m or 1h30m; a bare number is seconds. Answers go to standard output, errors
and warnings to standard error.""",
    ),
    "exit-codes": Topic(
        "What a command's exit code says.",
        """\
  0    yes: everything asked for is so
  1    no, or not known, or an error in what was given
  2    wrong usage
  3    the cluster cannot be reached
  130  interrupted by Control-C
  141  the reader of the output has gone, such as head

An error is one line that starts with `error:`; --debug shows the traceback.""",
    ),
}
