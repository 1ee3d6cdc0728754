"""Random sequences of requests, each made from a seed.

Names are few, so that requests meet: the same object is created twice, changed from an old version,
deleted while somebody else holds it. What a request needs of an earlier answer it takes from there
(`RecordedStep.captures`), so both servers get the requests that fit their own state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from tests.lab.differential.bodies import COMMON_EDITS, KINDS, Json, Kind

from numakube_lab.replay.recorded_cases import RecordedStep

NAMES: Final = ("a", "b", "c")
LABELS: Final[tuple[Json, ...]] = ({"app": "a"}, {"app": "a", "x": "y"}, {"app": "b"}, {})
SELECTORS: Final = (
    "app=a",
    "app!=a",
    "app in (a,b)",
    "!app",
    "x",
    "app notin (a),x",
    "app=",
    "a b",
)
MANAGERS: Final = ("first", "second")

MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY: Final = "application/apply-patch+yaml"
TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL: Final = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


@dataclass(frozen=True, slots=True)
class Sequence:
    """Requests, and the kinds that they are about."""

    seed: int
    kinds: tuple[Kind, ...]
    steps: tuple[RecordedStep, ...]


def make_sequence(
    seed: int,
    *,
    length: int = 40,
    kinds: tuple[Kind, ...] = KINDS,
    without: tuple[str, ...] = (),
) -> Sequence:
    """Return the sequence of *seed*: about *length* requests on up to three of *kinds*.

    Actions named in *without* (``apply``, ``bind``) are left out.
    """
    rng = Random(seed)
    chosen = tuple(rng.sample(kinds, min(3, len(kinds))))
    maker = _Maker(rng, chosen, without)
    while len(maker.steps) < length:
        maker.add()
    return Sequence(seed, chosen, tuple(maker.steps))


@dataclass
class _Maker:
    """Adds random requests to a sequence."""

    rng: Random
    kinds: tuple[Kind, ...]
    without: tuple[str, ...]
    steps: list[RecordedStep] = field(default_factory=list)
    documents: dict[str, list[str]] = field(default_factory=dict)
    versions: dict[str, list[str]] = field(default_factory=dict)
    captures: int = 0

    def add(self) -> None:
        """Add a request, or a few that belong together."""
        kind = self.rng.choice(self.kinds)
        actions = {
            self.create: 8,
            self.get: 2,
            self.list: 3,
            self.page: 1,
            self.update: 4,
            self.merge_patch: 3,
            self.strategic_patch: 3,
            self.json_patch: 2,
            self.apply: 4,
            self.delete: 3,
            self.delete_collection: 1,
        }
        if kind.status:
            actions[self.status] = 3
        if kind.scale:
            actions[self.scale] = 2
        if kind.kind == "Pod":
            actions |= {self.bind: 2, self.evict: 1}
        weights = [
            0 if action.__name__ in self.without else weight for action, weight in actions.items()
        ]
        (action,) = self.rng.choices([*actions], weights=weights)
        action(kind)

    def create(self, kind: Kind) -> None:
        """Create an object; sometimes of a bad form, sometimes only for show."""
        metadata = self._metadata(kind)
        if self.rng.random() < 0.1:
            metadata.pop("name")
            metadata["generateName"] = kind.name(f"gen{len(self.steps)}-")
        body = kind.object(self.rng, metadata)
        if self.rng.random() < 0.1:
            self._spoil(body)
        self._send("POST", kind.collection, body=body, query=self._write_query())

    def get(self, kind: Kind) -> None:
        """Read an object in one of its forms."""
        self._send("GET", self._path(kind), headers=self._accept(PARTIAL))

    def list(self, kind: Kind) -> None:
        """List a collection, or the part that selectors leave."""
        query = self._selection(kind)
        if self.rng.random() < 0.2 and self.versions.get(kind.resource):
            version = self.rng.choice(self.versions[kind.resource])
            query["resourceVersion"] = f"${{{version}}}"
            query["resourceVersionMatch"] = self.rng.choice(("NotOlderThan", "Exact", "Odd"))
        query = self._own(kind, query)
        self._send("GET", kind.collection, headers=self._accept(PARTIAL_LIST), query=query)

    def page(self, kind: Kind) -> None:
        """Read the first pages of a collection."""
        query = self._own(kind, {"limit": str(self.rng.choice((1, 2)))})
        token = self._capture()
        self._send("GET", kind.collection, query=query, captures={token: "/metadata/continue"})
        query = query | {"continue": f"${{{token}}}"}
        self._send("GET", kind.collection, query=query)

    def update(self, kind: Kind) -> None:
        """Replace an object by what it was some time ago, with changes."""
        known = self.documents.setdefault(kind.resource, [])
        if not known or self.rng.random() < 0.6:
            name = self._capture()
            version = self._capture()
            path = self._path(kind)
            captures = {name: "", version: "/metadata/resourceVersion"}
            self._send("GET", path, captures=captures)
            known.append(f"{name} {path}")
            self.versions.setdefault(kind.resource, []).append(version)
        name, path = self.rng.choice(known[-4:]).split()
        changes: Json = {"$from": name, "$set": self._edits(kind)}
        if self.rng.random() < 0.2:
            changes["$set"]["/metadata/resourceVersion"] = None
        self._send("PUT", path, body=changes, query=self._write_query())

    def merge_patch(self, kind: Kind) -> None:
        """Change an object by a merge patch."""
        self._patch(kind, MERGE, _tree(self._edits(kind)))

    def strategic_patch(self, kind: Kind) -> None:
        """Change an object by a strategic merge patch; custom kinds have none."""
        patch = _tree(self._edits(kind))
        metadata = patch.setdefault("metadata", {})
        # With both, what a real server does depends on chance.
        if "finalizers" not in metadata and self.rng.random() < 0.2:
            metadata["$deleteFromPrimitiveList/finalizers"] = ["test.io/hold"]
        self._patch(kind, STRATEGIC, patch)

    def json_patch(self, kind: Kind) -> None:
        """Change an object by a JSON patch."""
        operations = [
            {
                "op": self.rng.choice(("add", "replace", "remove", "test")),
                "path": path,
                "value": value,
            }
            for path, value in self._edits(kind).items()
        ]
        self._patch(kind, JSON_PATCH, operations)

    def apply(self, kind: Kind) -> None:
        """Apply a configuration, as one of two managers that may be at odds."""
        name = self.rng.choice(NAMES)
        metadata: Json = {"name": kind.name(name)}
        if self.rng.random() < 0.5:
            metadata["labels"] = self.rng.choice(LABELS)
        body = kind.object(self.rng, metadata)
        if self.rng.random() < 0.4:
            body = {key: body[key] for key in ("apiVersion", "kind", "metadata")}
            body |= _tree({p: v for p, v in self._edits(kind).items() if "/0/" not in p})
            body.setdefault("metadata", {})["name"] = kind.name(name)
        query = {"fieldManager": self.rng.choice(MANAGERS)}
        if self.rng.random() < 0.4:
            query["force"] = "true"
        headers = {"Content-Type": APPLY}
        path = f"{kind.collection}/{kind.name(name)}"
        self._send("PATCH", path, body=body, query=query, headers=headers)

    def delete(self, kind: Kind) -> None:
        """Delete an object, sometimes on conditions."""
        options = self._delete_options(kind)
        if options is None:
            self._send("DELETE", self._path(kind))
        else:
            self._send("DELETE", self._path(kind), body=options)

    def delete_collection(self, kind: Kind) -> None:
        """Delete what selectors leave of a collection."""
        if kind.kind == "Namespace":
            return
        query = self._own(kind, self._selection(kind))
        self._send("DELETE", kind.collection, query=query)

    def status(self, kind: Kind) -> None:
        """Report the status of an object."""
        status = self.rng.choice(kind.status)
        path = f"{self._path(kind)}/status"
        if self.rng.random() < 0.3:
            self._send("GET", path)
        body = {
            "status": status,
            "metadata": {"labels": {"from": "status"}},
            "spec": {"replicas": 9},
        }
        kind_of_patch = self.rng.choice((MERGE, STRATEGIC))
        self._send("PATCH", path, body=body, headers={"Content-Type": kind_of_patch})

    def scale(self, kind: Kind) -> None:
        """Read the scale of an object, or change it."""
        path = f"{self._path(kind)}/scale"
        if self.rng.random() < 0.3:
            self._send("GET", path)
            return
        patch = {"spec": {"replicas": self.rng.choice((0, 4, -1, "many"))}}
        self._send("PATCH", path, body=patch, headers={"Content-Type": MERGE})

    def bind(self, kind: Kind) -> None:
        """Bind a pod to a node."""
        name = self.rng.choice(NAMES)
        target = self.rng.choice(
            ({"kind": "Node", "name": "n1"}, {"name": "n2"}, {"kind": "Pod", "name": "x"}, {})
        )
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        self._send("POST", f"{kind.collection}/{name}/binding", body=body)

    def evict(self, kind: Kind) -> None:
        """Evict a pod."""
        name = self.rng.choice(NAMES)
        body: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        options = self._delete_options(kind)
        if options:
            body["deleteOptions"] = options
        self._send("POST", f"{kind.collection}/{name}/eviction", body=body)

    def _patch(self, kind: Kind, content_type: str, patch: Any) -> None:
        headers = {"Content-Type": content_type}
        query = self._write_query()
        self._send("PATCH", self._path(kind), body=patch, headers=headers, query=query)

    def _send(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Json | None = None,
        headers: dict[str, str] | None = None,
        captures: dict[str, str] | None = None,
    ) -> None:
        given = {} if body is None else {"body": body}
        self.steps.append(
            RecordedStep(
                method=method,
                path=path,
                query=query or {},
                headers=headers or {},
                captures=captures or {},
                **given,
            )
        )

    def _path(self, kind: Kind) -> str:
        return f"{kind.collection}/{kind.name(self.rng.choice(NAMES))}"

    def _accept(self, partial: str) -> dict[str, str]:
        """Ask for one of the forms of an answer: whole, as a table, or the metadata."""
        accept = self.rng.choice(("", "", TABLE, partial))
        if not accept or (accept == TABLE and "table" in self.without):
            return {}
        return {"Accept": accept}

    def _capture(self) -> str:
        self.captures += 1
        return f"c{self.captures}"

    def _metadata(self, kind: Kind) -> Json:
        metadata: Json = {"name": kind.name(self.rng.choice(NAMES))}
        metadata["labels"] = self.rng.choice(LABELS)
        if self.rng.random() < 0.2:
            metadata["finalizers"] = ["test.io/hold"]
        if self.rng.random() < 0.2:
            metadata["annotations"] = {"note": "0"}
        return metadata

    def _edits(self, kind: Kind) -> Json:
        """Return one to three places to change, and what to."""
        places = kind.edits + COMMON_EDITS
        chosen = self.rng.sample(places, self.rng.choice((1, 1, 2, 3)))
        edits = {path: self.rng.choice(values) for path, values in chosen}
        return {p: v for p, v in edits.items() if not any(p.startswith(q + "/") for q in edits)}

    def _write_query(self) -> Json:
        query: Json = {}
        if self.rng.random() < 0.07:
            query["dryRun"] = self.rng.choice(("All", "All", "Some"))
        if self.rng.random() < 0.3:
            query["fieldValidation"] = self.rng.choice(("Strict", "Warn", "Ignore", "Odd"))
        if self.rng.random() < 0.2:
            query["fieldManager"] = self.rng.choice(MANAGERS)
        return query

    def _selection(self, kind: Kind) -> Json:
        query: Json = {}
        if self.rng.random() < 0.5:
            query["labelSelector"] = self.rng.choice(SELECTORS)
        if kind.fields and self.rng.random() < 0.4:
            query["fieldSelector"] = self.rng.choice(kind.fields)
        return query

    def _own(self, kind: Kind, query: Json) -> Json:
        """Keep a query to the objects of this sequence: others share what has no namespace."""
        if kind.namespaced:
            return query
        name = kind.name(self.rng.choice(NAMES))
        return {k: v for k, v in query.items() if k != "fieldSelector"} | {
            "fieldSelector": f"metadata.name={name}"
        }

    def _delete_options(self, kind: Kind) -> Json | None:
        if self.rng.random() < 0.5:
            return None
        options: Json = {}
        if self.rng.random() < 0.5:
            options["gracePeriodSeconds"] = self.rng.choice((0, 0, 1, 60, -1))
        # The finalizers of a namespace come in any order.
        if kind.kind != "Namespace" and self.rng.random() < 0.4:
            options["propagationPolicy"] = self.rng.choice(
                ("Background", "Foreground", "Orphan", "Backwards")
            )
        if self.rng.random() < 0.2:
            options["preconditions"] = {"uid": "00000000-0000-4000-8000-000000000000"}
        known = self.versions.get(kind.resource)
        if known and self.rng.random() < 0.3:
            options["preconditions"] = {"resourceVersion": f"${{{self.rng.choice(known)}}}"}
        return options

    def _spoil(self, body: Json) -> None:
        """Make *body* one that no server takes, or only with a warning."""
        spoilt: tuple[tuple[str, Any], ...] = (
            ("kind", "Nonsense"),
            ("apiVersion", "v9"),
            ("surplus", 1),
            ("metadata", {"name": "Bad_Name"}),
            ("metadata", "none"),
            ("metadata", {}),
            ("metadata", body["metadata"] | {"namespace": "elsewhere"}),
            ("metadata", body["metadata"] | {"resourceVersion": "5"}),
            ("metadata", body["metadata"] | {"labels": {"a b": "c"}}),
            ("metadata", body["metadata"] | {"unknown": True}),
            ("spec", []),
            ("spec", 7),
        )
        key, value = self.rng.choice(spoilt)
        body[key] = value


def _tree(edits: Json) -> Json:
    """Return the object that has the values of *edits* at their pointers."""
    root: Json = {}
    for pointer, value in edits.items():
        *parents, last = pointer.split("/")[1:]
        if "0" in parents:
            continue
        at = root
        for part in parents:
            at = at.setdefault(part, {})
        at[last] = value
    return root
