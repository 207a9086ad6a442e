"""`_meta` of the stateless era: of requests, valid and invalid, and of results."""

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
    InvalidMeta,
    RequestMeta,
    check_capabilities,
    declares,
    finalize_result,
    may_name_version,
    progress_token,
    read_meta,
    result_head,
)

META = {META_PROTOCOL_VERSION: "2026-07-28", META_CLIENT_CAPABILITIES: {}}


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(value if isinstance(value, bytes) else json.dumps(value).encode())


# --- requests ---


def test_a_request_without_a_version_is_not_stateless(subtests: pytest.Subtests) -> None:
    for params in [
        {},
        {"_meta": {}},
        {"_meta": None},
        {"_meta": []},
        {"_meta": "x"},
        {"_meta": {"progressToken": 1}},
        [META],
        [],
    ]:
        with subtests.test(params=params):
            assert read_meta(raw(params)) is None


def test_a_request_without_params_is_not_stateless() -> None:
    assert read_meta(None) is None
    assert progress_token(None) is None


def test_all_members_of_meta_are_read() -> None:
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


def test_client_info_is_not_validated(subtests: pytest.Subtests) -> None:
    for info in [None, 1, {"name": 5}]:
        with subtests.test(info=info):
            assert isinstance(read_meta(raw({"_meta": {**META, META_CLIENT_INFO: info}})), RequestMeta)


def test_null_is_absent(subtests: pytest.Subtests) -> None:
    for member in [META_LOG_LEVEL, "progressToken"]:
        with subtests.test(member=member):
            assert isinstance(read_meta(raw({"_meta": {**META, member: None}})), RequestMeta)


def test_invalid_meta_names_the_key(subtests: pytest.Subtests) -> None:
    for changes, key, version in [
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
    ]:
        with subtests.test(changes=changes, key=key, version=version):
            meta = {name: value for name, value in {**META, **changes}.items() if value is not ...}
            problem = read_meta(raw({"_meta": meta}))
            assert isinstance(problem, InvalidMeta)
            assert (problem.key, problem.version) == (key, version)
            assert problem.reason


def test_a_number_that_cannot_be_decoded_is_invalid() -> None:
    # An integer of 5,000 digits is rejected only when it is decoded.
    meta = b'{"%b":"2026-07-28","%b":{},"progressToken":%b}'
    digits = meta % (META_PROTOCOL_VERSION.encode(), META_CLIENT_CAPABILITIES.encode(), b"1" * 5000)
    problem = read_meta(raw(b'{"_meta":%b}' % digits))
    assert isinstance(problem, InvalidMeta)
    assert problem.key == "progressToken"


def test_of_duplicate_keys_the_last_one_counts(subtests: pytest.Subtests) -> None:
    for first in [b"5", b"{}", b'{"%b":5}' % META_PROTOCOL_VERSION.encode()]:
        with subtests.test(first=first):
            meta = json.dumps({**META, "progressToken": 1}).encode()
            params = raw(b'{"_meta":%b,"_meta":%b}' % (first, meta))
            read = read_meta(params)
            assert isinstance(read, RequestMeta)
            assert (read.version, bytes(read.capabilities)) == ("2026-07-28", b"{}")
            assert read.progress_token == progress_token(params) == 1
            assert not isinstance(read_meta(raw(b'{"_meta":%b,"_meta":%b}' % (meta, first))), RequestMeta)


def test_invalid_params_are_not_stateless(subtests: pytest.Subtests) -> None:
    for params in [b"", b"{", b'{"_meta":{"a":}}', b'{"_meta":{"a":"\xff"}}']:
        with subtests.test(params=params):
            assert read_meta(msgspec.Raw(params)) is None
            assert progress_token(msgspec.Raw(params)) is None


def test_may_name_version(subtests: pytest.Subtests) -> None:
    for frame, expected in [
        (b'{"method":"tools/call"}', False),
        (b'{"text":"Version V"}', False),
        (b'{"text":"a\\nb\\"c\\\\d"}', False),
        (META_PROTOCOL_VERSION.encode(), True),
        (b"io.modelcontextprotocol\\/protocolVersion", True),
        (b"\\u0069o.modelcontextprotocol", True),
    ]:
        with subtests.test(frame=frame, expected=expected):
            assert may_name_version(frame) is expected


@given(st.lists(st.booleans(), min_size=len(META_PROTOCOL_VERSION), max_size=len(META_PROTOCOL_VERSION)))
def test_every_escaped_form_of_the_key_is_detected(escapes: list[bool]) -> None:
    name = "".join(
        f"\\u{ord(letter):04x}" if is_escaped else letter
        for letter, is_escaped in zip(META_PROTOCOL_VERSION, escapes, strict=True)
    )
    params = b'{"_meta":{"%b":"2026-07-28"}}' % name.encode()
    assert read_meta(msgspec.Raw(params)) is not None
    assert may_name_version(params)


def test_a_progress_token_is_read_in_both_eras(subtests: pytest.Subtests) -> None:
    for meta, token in [
        ({"progressToken": 5}, 5),
        ({"progressToken": "5"}, "5"),
        ({}, None),
        ({"progressToken": 1.5}, None),
        (None, None),
    ]:
        with subtests.test(meta=meta, token=token):
            assert progress_token(raw({"_meta": meta})) == token


# --- results ---

HEAD = result_head(b'{"name":"s","version":"1"}')
SERVER_META = {META_SERVER_INFO: {"name": "s", "version": "1"}}


def test_finalize_result(subtests: pytest.Subtests) -> None:
    for result, expected in [
        ({}, {"resultType": "complete", "_meta": SERVER_META}),
        ({"a": 1}, {"resultType": "complete", "_meta": SERVER_META, "a": 1}),
        ({"text": '"_meta"'}, {"resultType": "complete", "_meta": SERVER_META, "text": '"_meta"'}),
        (
            {"content": [{"_meta": {"x": 1}}]},
            {"resultType": "complete", "_meta": SERVER_META, "content": [{"_meta": {"x": 1}}]},
        ),
        ({"resultType": "input_required"}, {"resultType": "input_required", "_meta": SERVER_META}),
        ({"_meta": {"x": 1}}, {"resultType": "complete", "_meta": {**SERVER_META, "x": 1}}),
        ({"_meta": {META_SERVER_INFO: 0}}, {"resultType": "complete", "_meta": {META_SERVER_INFO: 0}}),
    ]:
        with subtests.test(result=result, expected=expected):
            encoded = json.dumps(result, separators=(",", ":")).encode()
            assert json.loads(finalize_result(encoded, HEAD)) == expected


def test_finalize_result_requires_an_object(subtests: pytest.Subtests) -> None:
    for result in [b"", b"[]", b'"{}"', b' {"a":1}', b'{"_meta":1}', b'{"_meta":[]}', b'{"_meta"}']:
        with subtests.test(result=result):
            with pytest.raises(UsageError) as refused:
                finalize_result(result, HEAD)
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
def test_finalize_result_changes_nothing_else(result: dict[str, Any]) -> None:
    expected = json.loads(finalize_result(msgspec.json.encode(result), HEAD))
    assert expected == {"resultType": "complete", "_meta": SERVER_META, **result}


# --- capabilities ---


def test_declares_and_check_capabilities(subtests: pytest.Subtests) -> None:
    for capabilities, required, is_declared in [
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
    ]:
        with subtests.test(capabilities=capabilities, required=required, is_declared=is_declared):
            assert declares(capabilities, required) is is_declared
            refusal = check_capabilities(json.dumps(capabilities).encode(), (required,), method="tools/call")
            assert (refusal is None) is is_declared


def test_missing_capabilities_have_the_form_of_a_declaration() -> None:
    refusal = check_capabilities(
        msgspec.Raw(b'{"sampling":{}}'),
        ("sampling", "sampling.tools", "elicitation.form", "elicitation.url"),
        method="tools/call",
    )
    assert refusal is not None
    data = refusal.data()
    assert (refusal.code, refusal.method, data["fsmError"]) == (-32021, "tools/call", "GuardRefusedError")
    assert data["requiredCapabilities"] == {"sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}}}


def test_invalid_capabilities_declare_nothing() -> None:
    assert check_capabilities(b"[", ("roots",), method="tools/call") is not None
