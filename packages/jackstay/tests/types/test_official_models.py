"""Bodies compared with the official models of `mcp-types`: same classes, same members, and each accepts the other.

`mcp-types` has three sets of models: one for all revisions, one for 2025-11-25 and one for 2026-07-28. Tables list
every class without a counterpart or with another name, and why.
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

# --- counterparts -----------------------------------------------------------------------------------------------------

EMPTY_CAPABILITY = "a capability without members is a JSON object here"
ENVELOPE = "envelopes are in jackstay.protocol"
MIXIN = "a mixin: Structs have one base, so each class repeats its members"
SCHEMA = "the schemas of a tool are plain JSON objects here"

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

# Models with other names: bodies have the names of the schema, and names where the schema has none.
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

# Members of bodies that the official models of every revision lack, and why.
TASKS = "the tasks extension of 2026-07-28 is not in the official models"
RESULT_TYPE = "every result has it here; there only some classes do"
CACHE = "PaginatedResult inherits from CacheableResult here"
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
}

# Bodies without an official model: of the extension, the fallbacks of open unions, and classes without a name there.
NO_MODEL = {
    "ArrayFieldSchema",
    "Body",
    "BodyWithMeta",
    "ElicitRequestParams",
    "FormFieldSchema",
    "StringFieldSchema",
    "UnknownContent",
    "UnknownRequest",
    "UnknownSchema",
    "UpdateTaskRequestParams",
    "UpdateTaskResult",
}


def is_envelope(model: Model) -> bool:
    """A message around params. Three requests of 2026-07-28 are bodies, because they are inside a result."""
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


def wire_names(model: Model) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def test_every_model_has_a_counterpart_with_its_members() -> None:
    for revision, model, body_class in PAIRS:
        assert body_class is not None, (revision, model)
        members = set(body_class.__struct_encode_fields__) - {"*"}
        assert wire_names(model) <= members, (revision, model)
        if revision == "every revision":
            more, _ = MORE.get(body_class.__name__, (set(), ""))
            assert members - wire_names(model) == more, (revision, model)


def test_every_body_has_a_model() -> None:
    bodies = {name for name in jackstay.types.__all__ if is_body(getattr(jackstay.types, name))}
    assert bodies - {body_class.__name__ for _, _, body_class in PAIRS} == NO_MODEL


def test_the_tables_have_no_obsolete_rows() -> None:
    names = {model.__name__ for module in MODULES.values() for model in vars(module).values() if inspect.isclass(model)}
    assert NO_COUNTERPART.keys() <= names
    for revision, table in RENAMED.items():
        assert table.keys() <= {model.__name__ for model in models(MODULES[revision])}
    assert MORE.keys() <= {body_class.__name__ for _, _, body_class in PAIRS}


def is_body(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Body)


# --- messages of the models, decoded into bodies ----------------------------------------------------------------------

FORM = {"type": "object", "properties": {"f": {"type": "string"}}}


class Definitions(dict[str, Any]):
    """The `$defs` of a schema, with one strategy each, since they may be recursive."""

    def __init__(self, schema: dict[str, Any]) -> None:
        super().__init__(schema.get("$defs", {}))
        self.strategies: dict[str, st.SearchStrategy] = {}

    def strategy(self, name: str) -> st.SearchStrategy:
        if name not in self.strategies:
            self.strategies[name] = st.deferred(lambda: strategy(self[name], self))
        return self.strategies[name]


def strategy(schema: dict[str, Any], defs: Definitions) -> st.SearchStrategy:
    """JSON that is valid for the JSON Schema of a model."""
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
            return st.just("file:///a") if schema.get("format") in ("uri", "file-path") else st.text(max_size=5)
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
    properties = {name: member_strategy(name, part, defs) for name, part in schema.get("properties", {}).items()}
    if "resultType" in properties:  # some models accept any string, but it selects the class
        properties["resultType"] = st.just("input_required" if "inputRequests" in properties else "complete")
    # Members with a default in a model that are required on the wire: constants, and this one.
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
    """A strategy by the protocol where it is stricter than the model."""
    is_open = schema.get("additionalProperties") is True or "type" not in schema
    if name in STRICTER and is_open and "$ref" not in schema and "const" not in schema:
        return st.just(STRICTER[name])
    return strategy(schema, defs)


STRICTER = {
    "requestedSchema": FORM,
    "properties": FORM["properties"],
    jackstay.types.META_SERVER_INFO: {"name": "n", "version": "v"},
}


SCHEMAS: dict[Model, st.SearchStrategy] = {}


def messages_of(model: Model) -> st.SearchStrategy:
    """Messages that a model accepts, as it dumps them."""
    if model not in SCHEMAS:
        schema = model.model_json_schema(by_alias=True)
        drawn = strategy(schema, Definitions(schema))
        SCHEMAS[model] = drawn.map(lambda value: accepted(model, value)).filter(lambda dumped: dumped is not None)
    return SCHEMAS[model]


def accepted(model: Model, value: dict[str, Any]) -> object:
    try:
        instance = model.model_validate(value, by_name=False)
    except pydantic.ValidationError:
        return None
    if model is v2026.InputRequiredResult and not (value.get("inputRequests") or value.get("requestState")):
        return None  # the specification rejects it, but this model does not
    return instance.model_dump(mode="json", by_alias=True, exclude_unset=True)


def check_round_trip(model: Model, body_class: type[Body], members: object) -> None:
    body = decode(body_class, json.dumps(members).encode())
    back = json.loads(encode_json(body))
    assert back == members
    assert model.model_validate(back, by_name=False) == model.model_validate(members, by_name=False)


@pytest.mark.guard(300)
@pytest.mark.parametrize("revision", MODULES)
@given(st.data())
def test_messages_of_the_models_round_trip(revision: str, data: st.DataObject) -> None:
    pairs = [(model, body_class) for where, model, body_class in PAIRS if where == revision]
    model, body_class = data.draw(st.sampled_from(pairs))
    check_round_trip(model, body_class, data.draw(messages_of(model)))


# --- bodies, validated by the models ----------------------------------------------------------------------------------

# Values for members whose type here is wider than in the models.
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
    if hint is msgspec.Raw:
        return {"a": 1}
    if origin is Annotated:
        return built(arguments[0])
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
    fields = {field.name: field for field in msgspec.structs.fields(hint) if field.name != "extra"}
    body = hint(**{name: built(field.type, field.encode_name) for name, field in fields.items()})
    return msgspec.structs.replace(body, result_type="input_required") if hint is InputRequiredResult else body


def test_the_models_accept_bodies_with_every_field() -> None:
    for revision, model, body_class in PAIRS:
        body = built_error(revision, model) if body_class is jackstay.types.Error else built(body_class)
        instance = model.model_validate(json.loads(encode_json(body)), by_name=False)
        assert instance.model_fields_set >= model.model_fields.keys(), (revision, model)
        check_round_trip(model, body_class, instance.model_dump(mode="json", by_alias=True, exclude_unset=True))


def built_error(revision: str, model: Model) -> Body:
    """An error with the required code and data."""
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
    era = max("2025-11-25", revision)  # the models of 2025-11-25 are used for all earlier revisions
    return [counterpart(era, part) for part in parts if part is not NoneType]


def test_params_are_valid_in_every_revision(subtests: pytest.Subtests) -> None:
    for (method, revision), model in {**REQUESTS, **NOTIFICATIONS}.items():
        envelope = {"jsonrpc": "2.0", "method": method, **({"id": 1} if (method, revision) in REQUESTS else {})}
        for body_class in classes_in(revision, model.model_fields["params"].annotation):
            with subtests.test(method=method, revision=revision):
                params = json.loads(encode_json(built(body_class)))
                model.model_validate({**envelope, "params": params}, by_name=False)


def test_results_are_valid_in_every_revision(subtests: pytest.Subtests) -> None:
    for (method, revision), hint in RESULTS.items():
        adapter = pydantic.TypeAdapter(hint)
        for body_class in classes_in(revision, hint):
            with subtests.test(method=method, revision=revision):
                adapter.validate_python(json.loads(encode_json(built(body_class))), by_name=False)
