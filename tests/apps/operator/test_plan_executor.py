"""What others add to configuration and pods of the operator is taken back, and nothing else."""

from __future__ import annotations

from typing import Any

from numakube.apps.operator.plan_executor import removal_of_additions

US = "us"


def managed(fields: dict[str, Any], *, manager: str = "them", subresource: str = "") -> Any:
    """Return an entry of ``managedFields``."""
    entry = {"manager": manager, "operation": "Update", "fieldsV1": fields}
    return {**entry, **({"subresource": subresource} if subresource else {})}


def document(kind: str, *entries: Any, **content: Any) -> dict[str, Any]:
    """Return an object with a record of who has set what."""
    metadata = {"name": "x", "resourceVersion": "7", "managedFields": list(entries)}
    return {"kind": kind, "metadata": metadata, **content}


OUR_POD: dict[str, Any] = {
    "f:spec": {
        "f:template": {
            "f:spec": {
                "f:containers": {'k:{"name":"a"}': {".": {}, "f:name": {}, "f:image": {}}},
            }
        }
    }
}


def deployment(*entries: Any, **pod: Any) -> dict[str, Any]:
    """Return a Deployment whose container ``a`` with its image is ours."""
    spec = {"replicas": 3, "template": {"spec": pod}}
    return document("Deployment", managed(OUR_POD, manager=US), *entries, spec=spec)


def theirs(pod: dict[str, Any]) -> Any:
    """Return the entry of somebody who has set these fields of the pods."""
    return managed({"f:spec": {"f:template": {"f:spec": pod}}})


def test_keys_of_others_are_taken_from_configuration() -> None:
    """And the patch is only for the object that was seen."""
    found = document(
        "ConfigMap",
        managed({"f:data": {".": {}, "f:ours": {}}}, manager=US),
        managed({"f:data": {"f:ours": {}, "f:more": {}}}),
        data={"ours": "1", "more": "2"},
    )
    assert removal_of_additions(found, US) == {
        "metadata": {"resourceVersion": "7"},
        "data": {"more": None},
    }


def test_containers_and_fields_of_others_are_taken_from_pods() -> None:
    """Defaults, which nobody has set, stay."""
    ours = {"name": "a", "image": "i", "imagePullPolicy": "Always"}
    found = deployment(
        theirs(
            {
                "f:hostname": {},
                "f:containers": {
                    'k:{"name":"a"}': {"f:tty": {}},
                    'k:{"name":"b"}': {".": {}, "f:name": {}},
                },
            }
        ),
        containers=[{**ours, "tty": True}, {"name": "b"}],
        hostname="other",
        restartPolicy="Always",
    )
    patch = removal_of_additions(found, US)
    assert patch is not None
    assert patch["spec"] == {"template": {"spec": {"containers": [ours], "hostname": None}}}


def test_what_is_nobodys_business_stays() -> None:
    """Labels and annotations, subresources, and kinds that others have a say in."""
    scaled = managed({"f:spec": {"f:replicas": {}}}, subresource="scale")
    restarted = managed({"f:spec": {"f:template": {"f:metadata": {"f:annotations": {}}}}})
    found = deployment(scaled, restarted, containers=[{"name": "a", "image": "i"}])
    found["spec"]["template"]["metadata"] = {"annotations": {"restarted": "now"}}
    assert removal_of_additions(found, US) is None
    account = document("ServiceAccount", managed({"f:secrets": {}}), secrets=[{"name": "s"}])
    assert removal_of_additions(account, US) is None


def test_a_value_that_we_have_set_back_is_ours() -> None:
    """Even if others still claim it."""
    found = deployment(
        theirs({"f:containers": {'k:{"name":"a"}': {"f:image": {}}}}),
        containers=[{"name": "a", "image": "i"}],
    )
    assert removal_of_additions(found, US) is None
