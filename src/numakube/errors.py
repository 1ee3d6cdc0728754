"""Every exception that numakube raises on purpose.

    NumakubeError
    ├── InvalidValue        a text that is not a quantity, cpuset, mask or resource name
    ├── MalformedObject     an object or file whose shape is wrong; names the object and the field
    ├── CorruptCheckpoint   a kubelet state file whose checksum or content cannot be trusted
    └── ConfigError         a configuration that cannot be used
        └── KubeletStartError   one that the kubelet itself would refuse to start with

An expected outcome (a pod that does not fit) is never an exception: it is a value with a reason.
Each message says what is wrong, where, and where possible what to do about it.
"""


class NumakubeError(Exception):
    """Root of the tree: catching it catches everything that is not a bug."""


class InvalidValue(NumakubeError, ValueError):
    """A text could not be parsed as the value it should be."""


class MalformedObject(NumakubeError):
    """An object does not have the shape it must have.

    Attributes:
        subject: what was being read, such as ``Pod default/web`` or a file's name.
        path: the offending field, such as ``spec.containers[0].name``; empty if not known.
    """

    def __init__(self, subject: str, detail: str, *, path: str = "") -> None:
        super().__init__(f"{subject}: {path}: {detail}" if path else f"{subject}: {detail}")
        self.subject = subject
        self.path = path
        self.detail = detail


class CorruptCheckpoint(NumakubeError):
    """A kubelet state file cannot be trusted."""


class ConfigError(NumakubeError):
    """A configuration cannot be used."""


class KubeletStartError(ConfigError):
    """The kubelet would refuse to start with this configuration, with exactly this text."""
