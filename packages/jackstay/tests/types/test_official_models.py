"""Our bodies against the official models of `mcp-types`: the same classes, the same members, and each reads the other.

`mcp-types` has its models three times: one set for all revisions, and what the wire of 2025-11-25 and of 2026-07-28
says exactly. Tables name every class that has no counterpart here or is called differently, and why.
"""

import inspect
import json
from collections.abc import Mapping, Sequence
from types import ModuleType, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import mcp_types._types as every_revision
import mcp_types._v2025_11_25 as v2025
import mcp_types._v2026_07_28 as v2026
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import methods

import jackstay.types
from jackstay.types import Body, InputRequiredResult, decode, encode_json

Model = type[pydantic.BaseModel]
MODULES = {"every revision": every_revision, "2025-11-25": v2025, "2026-07-28": v2026}

# --- which class is which ---------------------------------------------------------------------------------------------

EMPTY_CAPABILITY = "a capability without members is a JSON object here"
ENVELOPE = "envelopes are jackstay.protocol's"
MIXIN = "a mixin: Structs have one base, so its members stand in each class"
SCHEMA = "the schemas of a tool are JSON objects here: JSON Schema is not ours to narrow"

# Models without a counterpart, and why.
NO_COUNTERPART = {
    "BaseMetadata": MIXIN,
    "Icons": MIXIN,
    "MCPModel": "the base of all",
    "MetaObject": "an open map is a JSON object here",
    "Request": ENVELOPE,
    "PaginatedRequest": ENVELOPE,
    "Notification": ENVELOPE,
    "InputSchema": SCHEMA,
    "OutputSchema": SCHEMA,
    "SamplingContextCapability": EMPTY_CAPABILITY,
    "SamplingToolsCapability": EMPTY_CAPABILITY,
    "FormElicitationCapability": EMPTY_CAPABILITY,
    "UrlElicitationCapability": EMPTY_CAPABILITY,
    "TasksListCapability": EMPTY_CAPABILITY,
    "TasksCancelCapability": EMPTY_CAPABILITY,
    "TasksCreateMessageCapability": EMPTY_CAPABILITY,
    "TasksCreateElicitationCapability": EMPTY_CAPABILITY,
    "TasksCallCapability": EMPTY_CAPABILITY,
    "LoggingCapability": EMPTY_CAPABILITY,
    "CompletionsCapability": EMPTY_CAPABILITY,
}

# Models that are called differently: ours have the schema's names, and names where the schema has none.
RENAMED = {
    "every revision": {
        "CreateMessageResultWithTools": "CreateMessageResult",
        "ElicitCompleteNotificationParams": "ElicitationCompleteNotificationParams",
        "ElicitationRequiredErrorData": "URLElicitationRequiredErrorData",
    },
    "2025-11-25": {
        "AnyOfItem": "EnumOption",
        "Argument": "CompletionArgument",
        "Context": "CompletionContext",
        "Data": "URLElicitationRequiredErrorData",
        "Elicitation": "ElicitationCapability",
        "Elicitation1": "TasksElicitationCapability",
        "Error1": "Error",
        "Items": "TitledItems",
        "Items1": "UntitledItems",
        "Meta": "RequestMetaObject",
        "OneOfItem": "EnumOption",
        "Params": "CancelTaskRequestParams",
        "Params1": "ElicitationCompleteNotificationParams",
        "Params2": "GetTaskPayloadRequestParams",
        "Params3": "GetTaskRequestParams",
        "Prompts": "PromptsCapability",
        "Requests": "ClientTasksRequestsCapability",
        "Requests1": "ServerTasksRequestsCapability",
        "Resources": "ResourcesCapability",
        "Roots": "RootsCapability",
        "Sampling": "SamplingCapability",
        "Sampling1": "TasksSamplingCapability",
        "Tasks": "ClientTasksCapability",
        "Tasks1": "ServerTasksCapability",
        "Tools": "TasksToolsCapability",
        "Tools1": "ToolsCapability",
    },
    "2026-07-28": {
        "AnyOfItem": "EnumOption",
        "Argument": "CompletionArgument",
        "Context": "CompletionContext",
        "Data": "MissingRequiredClientCapabilityErrorData",
        "Data1": "UnsupportedProtocolVersionErrorData",
        "Elicitation": "ElicitationCapability",
        "Error1": "Error",
        "Error2": "Error",
        "Error3": "Error",
        "InternalError": "Error",
        "InvalidParamsError": "Error",
        "InvalidRequestError": "Error",
        "Items": "TitledItems",
        "Items1": "UntitledItems",
        "MethodNotFoundError": "Error",
        "OneOfItem": "EnumOption",
        "Params": "RequestParams",
        "ParseError": "Error",
        "Prompts": "PromptsCapability",
        "Resources": "ResourcesCapability",
        "Sampling": "SamplingCapability",
        "SubscriptionsListenResultMeta": "SubscriptionsListenResultMetaObject",
        "Tools": "ToolsCapability",
    },
}

# Members of ours that the official models of every revision lack, and why.
TASKS = "the tasks extension of 2026-07-28 is not in the official models"
RESULT_TYPE = "any result may say it; there each class has it or not"
CACHE = "pages stand on cacheable results here"
MORE = {
    "CancelTaskResult": ({"resultType"}, RESULT_TYPE),
    "CacheableResult": ({"resultType"}, RESULT_TYPE),
    "CreateMessageResult": ({"resultType"}, RESULT_TYPE),
    "CreateTaskResult": (
        {"resultType", "taskId", "status", "createdAt", "lastUpdatedAt", "statusMessage", "ttlMs", "pollIntervalMs"},
        TASKS,
    ),
    "ElicitResult": ({"resultType"}, RESULT_TYPE),
    "GetTaskPayloadResult": ({"resultType"}, RESULT_TYPE),
    "GetTaskResult": ({"resultType", "ttlMs", "pollIntervalMs", "result", "error", "inputRequests"}, TASKS),
    "InitializeResult": ({"resultType"}, RESULT_TYPE),
    "ListRootsResult": ({"resultType"}, RESULT_TYPE),
    "ListTasksResult": ({"resultType"}, RESULT_TYPE),
    "PaginatedResult": ({"resultType", "ttlMs", "cacheScope"}, CACHE),
    "Result": ({"resultType"}, RESULT_TYPE),
    "SubscriptionFilter": ({"taskIds"}, TASKS),
    "Task": ({"ttlMs", "pollIntervalMs"}, TASKS),
    "TaskStatusNotificationParams": ({"ttlMs", "pollIntervalMs", "result", "error", "inputRequests"}, TASKS),
}  # fmt: skip

# Bodies of ours that no official model is: of the extension, open unions' last resort, and what has no name there.
ONLY_OURS = {
    "Body",
    "BodyWithMeta",
    "ElicitRequestParams",
    "UnknownContent",
    "UnknownRequest",
    "UnknownSchema",
    "UpdateTaskRequestParams",
    "UpdateTaskResult",
}


def is_envelope(model: Model) -> bool:
    """A message around params. Three requests of 2026-07-28 are bodies: they travel inside a result."""
    names = model.model_fields.keys()
    is_embedded = model.__name__ in ("CreateMessageRequest", "ElicitRequest", "ListRootsRequest")
    return "jsonrpc" in names or "[" in model.__name__ or ("method" in names and not is_embedded)


def models(module: ModuleType) -> list[Model]:
    return [
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, pydantic.BaseModel)
        and value.__module__ == module.__name__
        and not is_envelope(value)
    ]


def counterpart(revision: str, model: Model) -> Any:
    return getattr(jackstay.types, RENAMED[revision].get(model.__name__, model.__name__), None)


PAIRS = [
    (revision, model, counterpart(revision, model))
    for revision, module in MODULES.items()
    for model in models(module)
    if model.__name__ not in NO_COUNTERPART
]


def name_of(value: object) -> str:
    return getattr(value, "__name__", str(value))


def wire_names(model: Model) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


@pytest.mark.parametrize(("revision", "model", "ours"), PAIRS, ids=name_of)
def test_every_model_has_a_counterpart_with_its_members(
    revision: str, model: Model, ours: type[Body] | None
) -> None:
    assert ours is not None
    members = set(ours.__struct_encode_fields__) - {"*"}
    assert wire_names(model) <= members
    if revision == "every revision":
        more, _ = MORE.get(ours.__name__, (set(), ""))
        assert members - wire_names(model) == more


def test_no_body_of_ours_is_without_a_model() -> None:
    bodies = {name for name in jackstay.types.__all__ if is_body(getattr(jackstay.types, name))}
    assert bodies - {ours.__name__ for _, _, ours in PAIRS} == ONLY_OURS


def test_the_tables_hold_nothing_that_is_not_there() -> None:
    names = {
        model.__name__
        for module in MODULES.values()
        for model in vars(module).values()
        if inspect.isclass(model)
    }
    assert NO_COUNTERPART.keys() <= names
    for revision, table in RENAMED.items():
        assert table.keys() <= {model.__name__ for model in models(MODULES[revision])}
    assert MORE.keys() <= {ours.__name__ for _, _, ours in PAIRS}


def is_body(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Body)


# --- their messages, read and written by us ---------------------------------------------------------------------------

FORM = {"type": "object", "properties": {"f": {"type": "string"}}}


class Definitions(dict[str, Any]):
    """The `$defs` of a schema; one strategy each, for JSON may hold JSON."""

    def __init__(self, schema: dict[str, Any]) -> None:
        super().__init__(schema.get("$defs", {}))
        self.strategies: dict[str, st.SearchStrategy] = {}

    def strategy(self, name: str) -> st.SearchStrategy:
        if name not in self.strategies:
            self.strategies[name] = st.deferred(lambda: strategy(self[name], self))
        return self.strategies[name]


def strategy(schema: dict[str, Any], defs: Definitions) -> st.SearchStrategy:
    """JSON that fits the JSON Schema that pydantic gives for a model."""
    if "$ref" in schema:
        return defs.strategy(schema["$ref"].rsplit("/", 1)[1])
    if "anyOf" in schema or "oneOf" in schema:
        return st.one_of([strategy(part, defs) for part in schema.get("anyOf") or schema["oneOf"]])
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "object":
            return object_strategy(schema, defs)
        case "array":
            return st.lists(strategy(schema.get("items", {}), defs), max_size=2)
        case "string":
            return (
                st.just("file:///a") if schema.get("format") in ("uri", "file-path") else st.text(max_size=5)
            )
        case "integer":
            return st.integers(schema.get("minimum"), schema.get("maximum"))
        case "number":
            low, high = schema.get("minimum", -1e6), schema.get("maximum", 1e6)
            return st.floats(low, high) | st.integers(int(low), int(high))
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case None:
            return st.none() | st.booleans() | st.text(max_size=3) | st.just({"a": [1, None]})
    raise AssertionError(schema)


def object_strategy(schema: dict[str, Any], defs: Definitions) -> st.SearchStrategy:
    properties = {
        name: member_strategy(name, part, defs) for name, part in schema.get("properties", {}).items()
    }
    if "resultType" in properties:  # to some models any string, but the word says which class it is
        properties["resultType"] = st.just("input_required" if "inputRequests" in properties else "complete")
    # What has a default in a model, and must be there on the wire: constants, and this one member.
    implied = [name for name, part in schema.get("properties", {}).items() if "const" in part]
    if schema.get("title") == "ToolResultContent":
        implied.append("content")
    required = {name: properties.pop(name) for name in dict.fromkeys([*schema.get("required", []), *implied])}
    known = st.fixed_dictionaries(required, optional=properties)
    more = schema.get("additionalProperties")
    if more is None or more is False or "properties" in schema:
        return known
    item = strategy(more, defs) if isinstance(more, dict) else st.text(max_size=3)
    return st.dictionaries(st.text(max_size=3), item, max_size=2)


def member_strategy(name: str, schema: dict[str, Any], defs: Definitions) -> st.SearchStrategy:
    """Where a model says less than the protocol, what the protocol says."""
    is_open = schema.get("additionalProperties") is True or "type" not in schema
    if name in SAYS_LESS and is_open and "$ref" not in schema and "const" not in schema:
        return st.just(SAYS_LESS[name])
    return strategy(schema, defs)


SAYS_LESS = {
    "requestedSchema": FORM,
    "properties": FORM["properties"],
    jackstay.types.META_SERVER_INFO: {"name": "n", "version": "v"},
}


SCHEMAS: dict[Model, st.SearchStrategy] = {}


def theirs(model: Model) -> st.SearchStrategy:
    """Messages that a model accepts, as it writes them."""
    if model not in SCHEMAS:
        schema = model.model_json_schema(by_alias=True)
        drawn = strategy(schema, Definitions(schema))
        SCHEMAS[model] = drawn.map(lambda value: accepted(model, value)).filter(
            lambda dumped: dumped is not None
        )
    return SCHEMAS[model]


def accepted(model: Model, value: dict[str, Any]) -> object:
    try:
        instance = model.model_validate(value, by_name=False)
    except pydantic.ValidationError:
        return None
    if model is v2026.InputRequiredResult and not (value.get("inputRequests") or value.get("requestState")):
        return None  # the model for every revision refuses it, as the specification does; this one does not
    return instance.model_dump(mode="json", by_alias=True, exclude_unset=True)


def check_round_trip(model: Model, ours: type[Body], members: object) -> None:
    body = decode(ours, json.dumps(members).encode())
    back = json.loads(encode_json(body))
    assert back == members
    assert model.model_validate(back, by_name=False) == model.model_validate(members, by_name=False)


@pytest.mark.guard(300)
@pytest.mark.parametrize("revision", MODULES)
@given(st.data())
def test_their_messages_come_back_as_they_were(revision: str, data: st.DataObject) -> None:
    pairs = [(model, ours) for where, model, ours in PAIRS if where == revision]
    model, ours = data.draw(st.sampled_from(pairs))
    check_round_trip(model, ours, data.draw(theirs(model)))


# --- our messages, read by them ---------------------------------------------------------------------------------------

# Values for members whose type here says less than theirs.
VALUES = {
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
    "uri": "file:///a",
}
REQUEST_META = {
    jackstay.types.META_PROTOCOL_VERSION: "2026-07-28",
    jackstay.types.META_CLIENT_CAPABILITIES: {},
    jackstay.types.META_SUBSCRIPTION_ID: 1,
}


def built(hint: object, wire_name: str = "") -> Any:
    """A value for a field of this type; a body with every field set."""
    origin, arguments = get_origin(hint), get_args(hint)
    if wire_name in VALUES:
        return VALUES[wire_name]
    if wire_name == "_meta":
        return REQUEST_META
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
    if hint in (Any, str, int, float, bool):
        return {Any: {"a": 1}, str: "x", int: 1, float: 0.5, bool: True}[hint]
    assert isinstance(hint, type)
    fields = {field.name: field for field in msgspec.structs.fields(hint) if field.name != "kept"}
    body = hint(**{name: built(field.type, field.encode_name) for name, field in fields.items()})
    return (
        msgspec.structs.replace(body, result_type="input_required") if hint is InputRequiredResult else body
    )


@pytest.mark.parametrize(("revision", "model", "ours"), PAIRS, ids=name_of)
def test_what_we_build_is_what_they_accept(revision: str, model: Model, ours: type[Body]) -> None:
    body = built_error(revision, model) if ours is jackstay.types.Error else built(ours)
    instance = model.model_validate(json.loads(encode_json(body)), by_name=False)
    assert instance.model_fields_set >= model.model_fields.keys()
    check_round_trip(model, ours, instance.model_dump(mode="json", by_alias=True, exclude_unset=True))


def built_error(revision: str, model: Model) -> Body:
    """With the code and the data that this error must have."""
    codes = get_args(model.model_fields["code"].annotation)
    data = model.model_fields["data"].annotation
    return jackstay.types.Error(
        codes[0] if codes else -32603,
        "message",
        built(counterpart(revision, data)) if inspect.isclass(data) else {"a": 1},
    )


REQUESTS = {**methods.CLIENT_REQUESTS, **methods.SERVER_REQUESTS}
NOTIFICATIONS = {**methods.CLIENT_NOTIFICATIONS, **methods.SERVER_NOTIFICATIONS}
RESULTS = {**methods.SERVER_RESULTS, **methods.CLIENT_RESULTS}


def classes_in(revision: str, hint: object) -> list[type[Body]]:
    parts = get_args(hint) or (hint,)
    era = max("2025-11-25", revision)  # the models of 2025-11-25 serve all revisions before it
    return [counterpart(era, part) for part in parts if part is not NoneType]


@pytest.mark.parametrize(("method", "revision"), [*REQUESTS, *NOTIFICATIONS], ids=name_of)
def test_our_params_are_valid_in_every_revision(method: str, revision: str) -> None:
    model = {**REQUESTS, **NOTIFICATIONS}[method, revision]
    envelope = {"jsonrpc": "2.0", "method": method, **({"id": 1} if (method, revision) in REQUESTS else {})}
    for ours in classes_in(revision, model.model_fields["params"].annotation):
        model.model_validate({**envelope, "params": json.loads(encode_json(built(ours)))}, by_name=False)


@pytest.mark.parametrize(("method", "revision"), RESULTS, ids=name_of)
def test_our_results_are_valid_in_every_revision(method: str, revision: str) -> None:
    adapter = pydantic.TypeAdapter(RESULTS[method, revision])
    for ours in classes_in(revision, RESULTS[method, revision]):
        adapter.validate_python(json.loads(encode_json(built(ours))), by_name=False)
