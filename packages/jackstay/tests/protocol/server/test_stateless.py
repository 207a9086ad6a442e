"""`_meta` of the stateless era: what a request says of itself, what is wrong with it, and what a result says back."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import UsageError
from jackstay.protocol.server._stateless import (
    META_CLIENT_CAPABILITIES,
    META_CLIENT_INFO,
    META_LOG_LEVEL,
    META_PROTOCOL_VERSION,
    META_SERVER_INFO,
    MetaFlaw,
    RequestMeta,
    declares,
    dress_result,
    may_name_version,
    progress_token,
    read_meta,
    refuse_undeclared,
    result_head,
)

META = {META_PROTOCOL_VERSION: "2026-07-28", META_CLIENT_CAPABILITIES: {}}


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(value if isinstance(value, bytes) else json.dumps(value).encode())


# --- requests ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"_meta": {}},
        {"_meta": None},
        {"_meta": []},
        {"_meta": "x"},
        {"_meta": {"progressToken": 1}},
        [META],
        [],
    ],
)
def test_without_a_version_it_is_no_stateless_request(params: Any) -> None:
    assert read_meta(raw(params)) is None


def test_without_params_it_is_no_stateless_request() -> None:
    assert read_meta(None) is None
    assert progress_token(None) is None


def test_everything_a_server_must_understand_is_read() -> None:
    info = {"name": "c", "version": "1"}
    meta = {
        **META,
        META_CLIENT_INFO: info,
        META_LOG_LEVEL: "error",
        "progressToken": 7,
        "traceparent": "00-1",
    }
    read = read_meta(raw({"name": "echo", "_meta": meta}))
    assert isinstance(read, RequestMeta)
    assert (read.version, read.log_level, read.progress_token) == ("2026-07-28", "error", 7)
    assert json.loads(bytes(read.capabilities)) == {}
    assert isinstance(read.client_info, msgspec.Raw)
    assert json.loads(bytes(read.client_info)) == info


@pytest.mark.parametrize("info", [None, 1, {"name": 5}])
def test_client_info_is_never_a_reason_to_refuse(info: Any) -> None:
    assert isinstance(read_meta(raw({"_meta": {**META, META_CLIENT_INFO: info}})), RequestMeta)


@pytest.mark.parametrize("member", [META_LOG_LEVEL, "progressToken"])
def test_null_means_not_said(member: str) -> None:
    assert isinstance(read_meta(raw({"_meta": {**META, member: None}})), RequestMeta)


@pytest.mark.parametrize(
    ("changes", "key", "version"),
    [
        ({META_PROTOCOL_VERSION: 1}, META_PROTOCOL_VERSION, None),
        ({META_PROTOCOL_VERSION: None}, META_PROTOCOL_VERSION, None),
        ({META_CLIENT_CAPABILITIES: ...}, META_CLIENT_CAPABILITIES, "2026-07-28"),
        ({META_CLIENT_CAPABILITIES: 1}, META_CLIENT_CAPABILITIES, "2026-07-28"),
        ({META_CLIENT_CAPABILITIES: None}, META_CLIENT_CAPABILITIES, "2026-07-28"),
        ({META_CLIENT_CAPABILITIES: [], META_LOG_LEVEL: "x"}, META_CLIENT_CAPABILITIES, "2026-07-28"),
        ({META_LOG_LEVEL: "x"}, META_LOG_LEVEL, "2026-07-28"),
        ({META_LOG_LEVEL: 3}, META_LOG_LEVEL, "2026-07-28"),
        ({"progressToken": True}, "progressToken", "2026-07-28"),
        ({"progressToken": {}}, "progressToken", "2026-07-28"),
        (
            {META_PROTOCOL_VERSION: "2027-01-01", META_CLIENT_CAPABILITIES: ...},
            META_CLIENT_CAPABILITIES,
            "2027-01-01",
        ),
    ],
)
def test_a_flaw_is_named_by_its_key(changes: dict[str, Any], key: str, version: str | None) -> None:
    meta = {name: value for name, value in {**META, **changes}.items() if value is not ...}
    flaw = read_meta(raw({"_meta": meta}))
    assert isinstance(flaw, MetaFlaw)
    assert (flaw.key, flaw.version) == (key, version)
    assert flaw.reason


def test_a_number_that_is_json_and_cannot_be_read_is_a_flaw() -> None:
    # An integer of 5,000 digits is refused only where it is decoded.
    meta = b'{"%b":"2026-07-28","%b":{},"progressToken":%b}'
    digits = meta % (META_PROTOCOL_VERSION.encode(), META_CLIENT_CAPABILITIES.encode(), b"1" * 5000)
    flaw = read_meta(raw(b'{"_meta":%b}' % digits))
    assert isinstance(flaw, MetaFlaw)
    assert flaw.key == "progressToken"


@pytest.mark.parametrize("first", [b"5", b"{}", b'{"%b":5}' % META_PROTOCOL_VERSION.encode()])
def test_of_a_name_that_stands_twice_the_last_wins(first: bytes) -> None:
    meta = json.dumps(META).encode()
    read = read_meta(raw(b'{"_meta":%b,"_meta":%b}' % (first, meta)))
    assert isinstance(read, RequestMeta)
    assert (read.version, bytes(read.capabilities)) == ("2026-07-28", b"{}")
    assert not isinstance(read_meta(raw(b'{"_meta":%b,"_meta":%b}' % (meta, first))), RequestMeta)


@pytest.mark.parametrize("params", [b"", b"{", b'{"_meta":{"a":}}', b'{"_meta":{"a":"\xff"}}'])
def test_bytes_that_are_no_params_are_no_stateless_request(params: bytes) -> None:
    assert read_meta(msgspec.Raw(params)) is None
    assert progress_token(msgspec.Raw(params)) is None


@pytest.mark.parametrize(
    ("frame", "may"),
    [
        (b'{"method":"tools/call"}', False),
        (b'{"text":"Version V"}', False),
        (b'{"text":"a\\nb\\"c\\\\d"}', False),
        (META_PROTOCOL_VERSION.encode(), True),
        (b"io.modelcontextprotocol\\/protocolVersion", True),
        (b"\\u0069o.modelcontextprotocol", True),
    ],
)
def test_a_frame_that_cannot_name_a_version_is_not_decoded_for_it(frame: bytes, may: bool) -> None:
    assert may_name_version(frame) is may


@given(st.lists(st.booleans(), min_size=len(META_PROTOCOL_VERSION), max_size=len(META_PROTOCOL_VERSION)))
def test_no_spelling_of_the_name_is_missed(escapes: list[bool]) -> None:
    name = "".join(
        f"\\u{ord(letter):04x}" if is_escaped else letter
        for letter, is_escaped in zip(META_PROTOCOL_VERSION, escapes, strict=True)
    )
    params = b'{"_meta":{"%b":"2026-07-28"}}' % name.encode()
    assert read_meta(msgspec.Raw(params)) is not None
    assert may_name_version(params)


@pytest.mark.parametrize(
    ("meta", "token"),
    [
        ({"progressToken": 5}, 5),
        ({"progressToken": "5"}, "5"),
        ({}, None),
        ({"progressToken": 1.5}, None),
        (None, None),
    ],
)
def test_a_progress_token_is_read_in_both_eras(meta: Any, token: int | str | None) -> None:
    assert progress_token(raw({"_meta": meta})) == token


# --- results ----------------------------------------------------------------------------------------------------------------

HEAD = result_head(b'{"name":"s","version":"1"}')
SAYS = {META_SERVER_INFO: {"name": "s", "version": "1"}}


@pytest.mark.parametrize(
    ("result", "dressed"),
    [
        ({}, {"resultType": "complete", "_meta": SAYS}),
        ({"a": 1}, {"resultType": "complete", "_meta": SAYS, "a": 1}),
        ({"text": '"_meta"'}, {"resultType": "complete", "_meta": SAYS, "text": '"_meta"'}),
        ({"content": [{"_meta": {"x": 1}}]},
         {"resultType": "complete", "_meta": SAYS, "content": [{"_meta": {"x": 1}}]}),
        ({"resultType": "input_required"}, {"resultType": "input_required", "_meta": SAYS}),
        ({"_meta": {"x": 1}}, {"resultType": "complete", "_meta": {**SAYS, "x": 1}}),
        ({"_meta": {META_SERVER_INFO: 0}}, {"resultType": "complete", "_meta": {META_SERVER_INFO: 0}}),
    ],
)  # fmt: skip
def test_a_result_is_dressed_and_keeps_what_it_says_itself(result: Any, dressed: Any) -> None:
    encoded = json.dumps(result, separators=(",", ":")).encode()
    assert json.loads(dress_result(encoded, HEAD)) == dressed


@pytest.mark.parametrize(
    "result", [b"", b"[]", b'"{}"', b' {"a":1}', b'{"_meta":1}', b'{"_meta":[]}', b'{"_meta"}']
)
def test_what_is_no_object_cannot_be_dressed(result: bytes) -> None:
    with pytest.raises(UsageError) as refused:
        dress_result(result, HEAD)
    assert refused.value.path == "result"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["_meta", "resultType", "a", "b"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["a", "content", "x"]), json_values, max_size=3))
def test_dressing_changes_nothing_else(result: dict[str, Any]) -> None:
    dressed = json.loads(dress_result(msgspec.json.encode(result), HEAD))
    assert dressed == {"resultType": "complete", "_meta": SAYS, **result}


# --- capabilities -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capabilities", "required", "holds"),
    [
        ({}, "sampling", False),
        ({"sampling": {}}, "sampling", True),
        ({"sampling": None}, "sampling", False),
        ({"sampling": {}}, "sampling.tools", False),
        ({"sampling": {"tools": {}}}, "sampling.tools", True),
        ({"sampling": 5}, "sampling.tools", False),
        ({"roots": {"listChanged": True}}, "roots.listChanged", True),
        ({"roots": {"listChanged": False}}, "roots.listChanged", False),
        ({"elicitation": {}}, "elicitation.form", True),
        ({"elicitation": {"form": {}}}, "elicitation.form", True),
        ({"elicitation": {"url": {}}}, "elicitation.form", False),
        ({"elicitation": {}}, "elicitation.url", False),
        ({}, "elicitation.form", False),
    ],
)
def test_a_capability_is_declared_or_not(capabilities: Any, required: str, holds: bool) -> None:
    assert declares(capabilities, required) is holds
    refusal = refuse_undeclared(json.dumps(capabilities).encode(), (required,), method="tools/call")
    assert (refusal is None) is holds


def test_what_is_missing_is_named_as_the_client_would_declare_it() -> None:
    refusal = refuse_undeclared(
        msgspec.Raw(b'{"sampling":{}}'),
        ("sampling", "sampling.tools", "elicitation.form", "elicitation.url"),
        method="tools/call",
    )
    assert refusal is not None
    data = refusal.data()
    assert (refusal.code, refusal.method, data["fsmError"]) == (-32021, "tools/call", "GuardRefusedError")
    assert data["requiredCapabilities"] == {"sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}}}


def test_capabilities_that_cannot_be_read_declare_nothing() -> None:
    assert refuse_undeclared(b"[", ("roots",), method="tools/call") is not None
