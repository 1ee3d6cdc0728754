"""OpenAPI v3, which kubectl reads to validate, explain and apply.

    openapi_index({"api/v1": digest})           the answer to /openapi/v3
    openapi_document(routes, schemas)           the answer to /openapi/v3/api/v1

Built-in types have no descriptions; those of custom resources are the ones in their definitions.
"""

from __future__ import annotations

from kube_lab_server.schema.openapi.openapi_documents import (
    Route,
    builtin_schemas,
    custom_schemas,
    digest,
    document_path,
    openapi_document,
    openapi_index,
)

__all__ = [
    "Route",
    "builtin_schemas",
    "custom_schemas",
    "digest",
    "document_path",
    "openapi_document",
    "openapi_index",
]
