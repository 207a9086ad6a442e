"""Check `jackstay.types` against the official JSON Schemas: `check_schemas.py DIR`, with a `REVISION.json` for each.

The schemas are not in this repository; run this by hand after changing a body or for a new revision. Checked are: a
field for each property, a lossless round trip of every permitted instance, and validity of the bodies that we build.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from jsonschema import Draft7Validator, Draft202012Validator  # type: ignore[import-untyped]  # it has no stubs

import jackstay.types
from jackstay.errors import McpError
from jackstay.types import decode, encode_json

Json = Any
Schema = dict[str, Any]

# Definitions that are not bodies, with the reason.
NOT_BODIES = {
    "Annotated": "a mixin: its members are in each class that uses it",
    "BaseMetadata": "a mixin",
    "Icons": "a mixin",
    "JSONArray": "JSON",
    "JSONObject": "JSON",
    "JSONValue": "JSON",
    "MetaObject": "an open map",
    "Cursor": "a string",
    "LoggingLevel": "an enumeration",
    "ProgressToken": "a string or an integer",
    "RequestId": "a string or an integer",
    "ResultType": "a string",
    "Role": "an enumeration",
    "TaskStatus": "an enumeration",
    "HeaderMismatchError": "an error without data",
    **dict.fromkeys(
        (
            "ClientNotification",
            "ClientRequest",
            "ClientResult",
            "ServerNotification",
            "ServerRequest",
            "ServerResult",
        ),
        "a union of messages",
    ),
    **dict.fromkeys(("Notification", "PaginatedRequest", "Request"), "an envelope"),
    **dict.fromkeys(
        ("ContentBlock", "ElicitRequestParams", "MultiSelectEnumSchema", "PrimitiveSchemaDefinition",
         "SamplingMessageContentBlock", "SingleSelectEnumSchema", "InputRequest", "InputRequests", "InputResponse",
         "InputResponses"),
        "a union or a map: its members are checked, and it is checked as part of other bodies",
    ),
}  # fmt: skip

# Definitions whose class has another name here: the newest one, or that of the base class.
RENAMED = {
    "ResourceReference": "ResourceTemplateReference",
    "ParseError": "Error",
    "InvalidRequestError": "Error",
    "MethodNotFoundError": "Error",
    "InvalidParamsError": "Error",
    "InternalError": "Error",
}

# Messages whose params do not have their own class.
PARAMS = {
    "DiscoverRequest": "RequestParams",
    "InitializedNotification": "NotificationParams",
    "ListPromptsRequest": "PaginatedRequestParams",
    "ListResourceTemplatesRequest": "PaginatedRequestParams",
    "ListResourcesRequest": "PaginatedRequestParams",
    "ListRootsRequest": "RequestParams",
    "ListTasksRequest": "PaginatedRequestParams",
    "ListToolsRequest": "PaginatedRequestParams",
    "PingRequest": "RequestParams",
    "PromptListChangedNotification": "NotificationParams",
    "ResourceListChangedNotification": "NotificationParams",
    "RootsListChangedNotification": "NotificationParams",
    "ToolListChangedNotification": "NotificationParams",
}

# Values for fields whose type is less specific than the schema.
SPECIFIC_VALUES = {
    "audience": ["user"],
    "cacheScope": "public",
    "format": "email",
    "includeContext": "none",
    "inputSchema": {"type": "object"},
    "outputSchema": {"type": "object"},
    "resultType": "complete",
    "structuredContent": {"a": 1},
    "taskSupport": "optional",
    "theme": "dark",
}


class Revision:
    """The schema of a revision."""

    def __init__(self, path: Path) -> None:
        self.name = path.stem
        self.document: Schema = json.loads(path.read_text(encoding="utf-8"))
        self.key = "$defs" if "$defs" in self.document else "definitions"
        self.definitions: dict[str, Schema] = self.document[self.key]
        self._validator = Draft202012Validator if self.key == "$defs" else Draft7Validator

    def resolved(self, schema: Schema) -> Schema:
        """Return the schema of a reference, and merge `allOf`."""
        if "$ref" in schema:
            return self.resolved(self.definitions[schema["$ref"].rsplit("/", 1)[1]])
        if "allOf" in schema:
            parts = [self.resolved(part) for part in schema["allOf"]]
            joined: Schema = {"type": "object", "properties": {}, "required": []}
            for part in parts:
                joined["properties"] |= part.get("properties", {})
                joined["required"] += part.get("required", [])
            return joined
        return schema

    def faults(self, schema: Schema, instance: Json) -> list[str]:
        validator = self._validator({**schema, self.key: self.definitions})
        return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(instance)]


def bodies(revision: Revision) -> Iterator[tuple[str, type[jackstay.types.Body], Schema]]:
    """Yield each definition that is or contains a body: its path, our class, its schema."""
    for name, schema in revision.definitions.items():
        if name in NOT_BODIES or name.startswith("JSONRPC") or name.endswith("ResultResponse"):
            continue
        is_old_enum = name == "EnumSchema" and "anyOf" not in schema
        if name == "EnumSchema" and not is_old_enum:
            continue
        properties = schema.get("properties", {})
        is_envelope = "jsonrpc" in properties
        if "error" in properties:
            data = revision.resolved(properties["error"])["properties"]["data"]
            yield f"{name}.error.data", getattr(jackstay.types, f"{name}Data"), data
        elif "method" in properties:
            if "params" in properties:
                own = getattr(jackstay.types, PARAMS.get(name, f"{name}Params"))
                yield f"{name}.params", own, properties["params"]
            if not is_envelope and hasattr(jackstay.types, name) and revision.name >= "2026-07-28":
                yield name, getattr(jackstay.types, name), schema
        else:
            class_name = "LegacyTitledEnumSchema" if is_old_enum else RENAMED.get(name, name)
            yield name, getattr(jackstay.types, class_name), schema


# --- fields for properties --------------------------------------------------------------------------------------------


def lacking(revision: Revision, schema: Schema, hint: object, where: str, seen: frozenset[str]) -> Iterator[str]:
    """Return the schema's properties that have no field in the type."""
    reference = schema.get("$ref", "")
    if reference in seen:
        return
    schema = revision.resolved(schema)
    seen = seen | {reference} if reference else seen
    if get_origin(hint) is Annotated or "anyOf" in schema or hint in (Any, msgspec.Raw):
        return  # a union: its members are separate definitions
    if get_origin(hint) in (Sequence, Mapping):
        item = schema.get("items") or schema.get("additionalProperties")
        if isinstance(item, dict):
            yield from lacking(revision, item, get_args(hint)[-1], f"{where}[]", seen)
        return
    if not (isinstance(hint, type) and issubclass(hint, jackstay.types.Body)):
        return
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(hint)}
    for name, part in schema.get("properties", {}).items():
        if name not in fields:
            yield f"{where}.{name}: {hint.__name__} has no field"
        else:
            yield from lacking(revision, part, fields[name], f"{where}.{name}", seen)


# --- instances that the schema permits --------------------------------------------------------------------------------


def instances(revision: Revision, schema: Schema, depth: int = 0) -> Iterator[Json]:
    """Yield the minimal instance, the full one, and one for each alternative."""
    schema = revision.resolved(schema)
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    if alternatives:
        for part in alternatives:
            yield from instances(revision, part, depth)
    elif "const" in schema:
        yield schema["const"]
    elif "enum" in schema:
        yield from schema["enum"]
    else:
        kinds = schema.get("type", "object" if "properties" in schema else ["null", "string", "object"])
        for kind in [kinds] if isinstance(kinds, str) else kinds:
            yield from instances_of_kind(revision, schema, kind, depth)


def instances_of_kind(revision: Revision, schema: Schema, kind: str, depth: int) -> Iterator[Json]:
    match kind:
        case "object":
            yield from objects(revision, schema, depth)
        case "array":
            items = schema.get("items", {})
            yield []
            if depth < 8:
                yield [*instances(revision, items, depth + 1)]
        case "string":
            yield "file:///a%20b" if schema.get("format") == "uri" else "été"
        case "integer":
            yield max(1, schema.get("minimum", 0))
        case "number":
            yield from (1, 0.5)
        case "boolean":
            yield from (True, False)
        case "null":
            yield None


def objects(revision: Revision, schema: Schema, depth: int) -> Iterator[Json]:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    more = schema.get("additionalProperties")
    values = {}
    for name, part in properties.items():
        if name == "resultType":
            # Any string in the schema, but the value selects the class.
            values[name] = ["input_required" if "inputRequests" in properties else "complete"]
        elif name in required or depth < 8:
            values[name] = [*instances(revision, part, depth + 1)]
    yield {name: values[name][0] for name in required}
    full: dict[str, Json] = {name: found[-1] for name, found in values.items()}
    if isinstance(more, dict) and depth < 8:
        full |= {f"key {index}": value for index, value in enumerate(instances(revision, more, depth + 1))}
    elif more is not False:
        full["vendor/member"] = {"kept": [1, None]}
    yield full
    for name, found in values.items():
        for value in found:
            yield {**{other: values[other][0] for other in required}, name: value}


def is_forbidden_by_text(cls: type[jackstay.types.Body], instance: Json) -> bool:
    """True for an input request without content: allowed by the schema, not by 2026-07-28 basic/patterns/mrtr."""
    return cls is jackstay.types.InputRequiredResult and not {"inputRequests", "requestState"} & instance.keys()


def round_trip(revision: Revision, cls: type[jackstay.types.Body], schema: Schema) -> Iterator[tuple[Json, list[str]]]:
    for instance in instances(revision, schema):
        if revision.faults(schema, instance) or is_forbidden_by_text(cls, instance):
            continue  # the whole has more constraints than its parts
        try:
            back = json.loads(encode_json(decode(cls, json.dumps(instance).encode())))
        except McpError as error:
            yield instance, [str(error)]
            continue
        faults = [] if back == instance else [f"was changed to {json.dumps(back)}"]
        yield instance, faults + revision.faults(schema, back)


# --- bodies that we build ---------------------------------------------------------------------------------------------


def built(hint: object, wire_name: str = "") -> Json:
    """Return a value for a field of this type; for a Body, with every field set."""
    origin, arguments = get_origin(hint), get_args(hint)
    if wire_name in SPECIFIC_VALUES:
        return SPECIFIC_VALUES[wire_name]
    if origin is Annotated:
        return {"a": 1} if arguments[0] is msgspec.Raw else built(arguments[0])
    if origin in (Union, UnionType):
        return built(next(part for part in arguments if part is not NoneType))
    if origin is Literal:
        return arguments[0]
    if origin is Sequence:
        return [built(arguments[0])]
    if origin is Mapping:
        return {"key": {"a": 1} if arguments[1] is Any else built(arguments[1])}
    if hint in (Any, str, int, float, bool, list, dict):
        return {Any: {"a": 1}, str: "x", int: 1, float: 0.5, bool: True, list: [1], dict: {"a": 1}}[hint]
    assert isinstance(hint, type), hint
    fields = {field.name: field for field in msgspec.structs.fields(hint) if field.name != "extra"}
    return hint(**{name: built(field.type, field.encode_name) for name, field in fields.items()})


def built_body(revision: Revision, cls: type[jackstay.types.Body], schema: Schema) -> jackstay.types.Body:
    """Add `_meta` and constant values that the schema requires and our types do not."""
    body: jackstay.types.Body = built(cls)
    properties = revision.resolved(schema).get("properties", {})
    changes: dict[str, Json] = {}
    if "_meta" in properties:
        changes["meta"] = next(instances(revision, properties["_meta"]))
    if "code" in properties and "const" in properties["code"]:
        changes["code"] = properties["code"]["const"]
    if cls is jackstay.types.InputRequiredResult:
        changes["result_type"] = "input_required"
    return msgspec.structs.replace(body, **changes)


def concrete(revision: Revision, cls: type[jackstay.types.Body]) -> list[type[jackstay.types.Body]]:
    """Return the concrete classes of a type that are in the revision."""
    if "choose" not in vars(cls):
        return [cls]
    known = [subclass for subclass in cls.__subclasses__() if subclass.__name__ in revision.definitions]
    return known or [jackstay.types.ElicitRequestFormParams]  # the only class in 2025-06-18, where it has no name


def main(directory: str) -> int:
    paths = sorted(Path(directory).glob("20*.json"))
    if not paths:
        print(f"no schemas in {directory}", file=sys.stderr)
        return 2
    wrong = 0
    for revision in map(Revision, paths):
        checked = 0
        found: list[str] = []
        rows = [*bodies(revision)]
        for where, cls, schema in rows:
            if "choose" not in vars(cls):
                found += lacking(revision, schema, cls, where, frozenset())
            for instance, faults in round_trip(revision, cls, schema):
                checked += 1
                found += [f"{where}: {json.dumps(instance)[:300]}: {fault}" for fault in faults]
            for concrete_class in concrete(revision, cls):
                body = built_body(revision, concrete_class, schema)
                faults = revision.faults(schema, json.loads(encode_json(body)))
                found += [f"{where}: built {concrete_class.__name__}: {fault}" for fault in faults]
        print(f"{revision.name}: {len(rows)} bodies, {checked} instances, {len(found)} problems")
        for line in dict.fromkeys(found):
            print(f"  {line}")
        wrong += len(found)
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print("usage: check_schemas.py DIR", file=sys.stderr)
        raise SystemExit(2)
    raise SystemExit(main(sys.argv[1]))
