"""Documents for the tests of this package."""

from typing import Any

from jackstay.openapi import Document, OpenApiError, Operation, Reader


def document(paths: dict[str, Any], version: str = "3.1.0", **more: Any) -> dict[str, Any]:
    return {"openapi": version, "info": {"title": "Pets", "version": "1.2"}, "paths": paths, **more}


def get(*parameters: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A path item with a GET."""
    return {"get": {"parameters": list(parameters), "responses": {}, **more}}


def parameter(name: str, location: str = "query", **more: Any) -> dict[str, Any]:
    schema = {} if "content" in more else {"schema": {"type": "string"}}
    return {"name": name, "in": location, **schema, **more}


def read(root: dict[str, Any], **options: Any) -> list[Operation | OpenApiError]:
    return list(Reader(Document(root), **options).operations())


def read_one(root: dict[str, Any], **options: Any) -> Operation:
    found = read(root, **options)
    assert len(found) == 1
    assert isinstance(found[0], Operation), found[0]
    return found[0]


def read_problem(root: dict[str, Any], **options: Any) -> OpenApiError:
    found = read(root, **options)
    assert len(found) == 1
    assert isinstance(found[0], OpenApiError), found[0]
    return found[0]


def posting(content: dict[str, Any], version: str = "3.1.0", **more: Any) -> dict[str, Any]:
    """A document with one POST that has this body."""
    body = {"content": content, **more}
    return document({"/things": {"post": {"requestBody": body, "responses": {}}}}, version)
