"""Roles and who has them (rbac.authorization.k8s.io/v1), as far as tools look at them."""

from numakube.api.codec import Wire
from numakube.api.meta import ObjectMeta


class PolicyRule(Wire, frozen=True):
    """What a role allows; a star stands for everything."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()


class Role(Wire, frozen=True):
    """A Role, or without namespace a ClusterRole; its rules may be ``null``."""

    metadata: ObjectMeta = ObjectMeta()
    rules: tuple[PolicyRule, ...] | None = None


class RoleReference(Wire, frozen=True):
    """The role that a binding gives."""

    kind: str = ""
    name: str = ""


class Grantee(Wire, frozen=True):
    """Who gets a role: a ServiceAccount, a User or a Group."""

    kind: str = ""
    name: str = ""
    namespace: str = ""


class RoleBinding(Wire, frozen=True):
    """A RoleBinding, or without namespace a ClusterRoleBinding."""

    metadata: ObjectMeta = ObjectMeta()
    role_ref: RoleReference = RoleReference()
    subjects: tuple[Grantee, ...] | None = None
