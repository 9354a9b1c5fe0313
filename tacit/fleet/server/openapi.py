"""Additions to the OpenAPI document that FastAPI generates: raw request bodies, error answers, credentials."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from tacit.fleet.wire import signing
from tacit.fleet.wire.messages import Refused

_BINARY = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_HEADERS = {
    signing.DEVICE: "the device's number",
    signing.COUNTER: "higher than in any earlier request of this device",
    signing.DIGEST: "SHA-256 of the body, in hexadecimal",
    signing.SIGNATURE: "Ed25519 signature of the request (`tacit.fleet.wire.signing`), in hexadecimal",
}
ADMIN = "/v1/admin"
_OPEN = ("/v1/enrol",)


def json_body(model: type[BaseModel]) -> dict[str, Any]:
    """A request whose body is JSON of this model."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": model.model_json_schema()}}}}


def bytes_in() -> dict[str, Any]:
    """A request whose body is bytes."""
    return {"requestBody": {"required": True, "content": _BINARY}}


def bytes_out() -> dict[int | str, dict[str, Any]]:
    """An answer that is bytes."""
    return {200: {"description": "the bytes", "content": _BINARY}}


def refusals(*, not_yet: bool = False) -> dict[int | str, dict[str, Any]]:
    """The error answers; with `not_yet`, also 204."""
    wait: dict[int | str, dict[str, Any]] = {204: {"description": "not yet; ask again"}} if not_yet else {}
    return wait | {
        "4XX": {"model": Refused, "description": "refused; nothing has changed"},
        "5XX": {"model": Refused, "description": "the server cannot answer now"},
    }


def describe_credentials(app: FastAPI) -> None:
    """Add to the document which requests need which credentials."""
    generate = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = generate()
            schemes = {
                name: {"type": "apiKey", "in": "header", "name": name, "description": text}
                for name, text in _HEADERS.items()
            }
            schemes["administrator"] = {"type": "http", "scheme": "bearer"}
            document.setdefault("components", {})["securitySchemes"] = schemes
            for path, operations in document["paths"].items():
                by_admin = path.startswith(ADMIN) or path == "/metrics"
                needed: dict[str, list[str]] = {"administrator": []} if by_admin else {name: [] for name in _HEADERS}
                for operation in operations.values():
                    operation["security"] = [] if path in _OPEN else [needed]
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]
