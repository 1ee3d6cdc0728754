"""Would it fit? The question that schedulers answer at ``POST /v1/fit``, and their answer.

A hold keeps the room for a while. Pods that come for it carry the annotation `HOLD` with the value
that the pods of the question had, or else the name of the hold.
"""

from typing import Final

from numakube.api.codec import Wire
from numakube.api.nodes import Node
from numakube.api.nrt import NodeResourceTopology
from numakube.api.pod import Pod

PATH: Final = "/v1/fit"
HOLD: Final = "numakube.dev/hold"
STAND_IN: Final = "fit:"
"""How the uids of pods that do not exist begin."""


class Hold(Wire, frozen=True):
    """Room that is to be kept.

    Attributes:
        name: the same name again asks for the same room, and takes no more of it.
        seconds: from now on; 0 gives the room back.
    """

    name: str
    seconds: float


class AskedPodSet(Wire, frozen=True):
    """A number of equal pods."""

    pod: Pod
    count: int = 1


class NewNodes(Wire, frozen=True):
    """Nodes that do not exist.

    Attributes:
        node: what they are like; without a *topology*, that of its group is looked for.
        topology: what they report when they have just joined.
        like: or the name of a node that is there.
        count: how many.
    """

    node: Node | None = None
    topology: NodeResourceTopology | None = None
    like: str = ""
    count: int = 1


class FitQuestion(Wire, frozen=True):
    """What is asked.

    Attributes:
        pods: pods that are placed one after the other.
        pod: or one kind of pod, *count* times.
        pod_sets: or several kinds.
        nodes: nodes that do not exist; a text is as ``plan simulate --nodes`` describes them.
        gang: whether the pods are of use together only, and follow the rules of their pod group.
        preemption: whether pods of lower priority may be thought away.
        hold: keep the room if all of them fit.
    """

    pods: tuple[Pod, ...] = ()
    pod: Pod | None = None
    count: int = 1
    pod_sets: tuple[AskedPodSet, ...] = ()
    nodes: tuple[str | NewNodes, ...] = ()
    gang: bool = False
    preemption: bool = False
    hold: Hold | None = None


class Refusal(Wire, frozen=True):
    """Why a pod would go nowhere."""

    pod: str = ""
    reason: str = ""


class Fit(Wire, frozen=True):
    """The part of the answer that programs act on."""

    wanted: int = 0
    fits: int = 0
    refused: tuple[Refusal, ...] = ()
