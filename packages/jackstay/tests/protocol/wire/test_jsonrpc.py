"""JSON-RPC messages: decoding, the codes of invalid frames, and round trips."""

import json
import sys
import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import ProtocolError, RequestId
from jackstay.protocol.wire import _jsonrpc
from jackstay.protocol.wire._jsonrpc import (
    ABSENT,
    MAX_BATCH_MEMBERS,
    MAX_FLATTENED,
    MAX_ID_LENGTH,
    MAX_LENIENT,
    MAX_METHOD_LENGTH,
    Batch,
    Error,
    ErrorCode,
    Malformed,
    Message,
    Notification,
    Request,
    Result,
    decode,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
    request_id_at_start,
)

PARSE = ErrorCode.PARSE_ERROR
INVALID = ErrorCode.INVALID_REQUEST


def plain(message: Message) -> object:
    """Return a message with its raw members decoded, so that two can be compared."""
    if isinstance(message, Batch):
        return [plain(member) for member in message.members]
    fields = {name: getattr(message, name) for name in message.__struct_fields__}
    return type(message), {
        name: msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value for name, value in fields.items()
    }


def raw(text: bytes) -> msgspec.Raw:
    return msgspec.Raw(text)


VALID = [
    (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', Request(1, "ping")),
    (b'{"jsonrpc":"2.0","id":"a","method":"m","params":{"x":[1]}}', Request("a", "m", raw(b'{"x":[1]}'))),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","params":[]}', Request(1, "m", raw(b"[]"))),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","params":null}', Request(1, "m")),
    (b'{"jsonrpc":"2.0","id":0,"method":""}', Request(0, "")),
    (b'{"jsonrpc":"2.0","id":"","method":"m"}', Request("", "m")),
    (b'{"jsonrpc":"2.0","id":-0,"method":"m"}', Request(0, "m")),
    (b'{"method":"m","params":{},"id":1,"jsonrpc":"2.0"}', Request(1, "m", raw(b"{}"))),
    (b' \r\n\t{ "jsonrpc" : "2.0" , "id" : 1 , "method" : "m" } \n', Request(1, "m")),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","later":{"a":[1]}}', Request(1, "m")),
    (b'{"\\u006asonrpc":"\\u0032.0","id":1,"method":"m"}', Request(1, "m")),
    (b'{"jsonrpc":"2.0","id":7,"id":8,"method":"a","method":"b"}', Request(8, "b")),  # the last one counts
    (b'{"jsonrpc":"2.0","method":"n"}', Notification("n")),
    (b'{"jsonrpc":"2.0","method":"n","params":{"a":1}}', Notification("n", raw(b'{"a":1}'))),
    (b'{"jsonrpc":"2.0","method":"n","params":null}', Notification("n")),
    (b'{"jsonrpc":"2.0","id":1,"result":{"a":1}}', Result(1, raw(b'{"a":1}'))),
    (b'{"jsonrpc":"2.0","id":1,"result":null}', Result(1, raw(b"null"))),
    (b'{"jsonrpc":"2.0","id":"1","result":[]}', Result("1", raw(b"[]"))),
    (b'{"jsonrpc":"2.0","id":1,"result":{},"params":5}', Result(1, raw(b"{}"))),
    (b'{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}', Error(1, -1, "m")),
    (b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":""}}', Error(None, -32700, "")),
    (b'{"jsonrpc":"2.0","error":{"code":-32700,"message":""}}', Error(None, -32700, "")),
    (b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":null}}', Error(1, 1, "m", None)),
    (
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":{"a":[1]}}}',
        Error(1, 1, "m", {"a": [1]}),
    ),
    (b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","more":1}}', Error(1, 1, "m")),
]


def test_valid_messages(subtests: pytest.Subtests) -> None:
    for frame, message in VALID:
        with subtests.test(frame=frame, message=message):
            assert plain(decode(frame)) == plain(message)


def test_messages_are_decoded_from_any_bytes_like_object(subtests: pytest.Subtests) -> None:
    for kind in [bytes, bytearray, memoryview]:
        with subtests.test(kind=kind):
            message = decode(kind(b'{"jsonrpc":"2.0","id":1,"method":"m","params":{}}'))
            assert plain(message) == plain(Request(1, "m", raw(b"{}")))


def test_a_bytearray_can_be_reused_while_the_message_exists() -> None:
    buffer = bytearray(b'{"jsonrpc":"2.0","id":1,"result":{"a":1}}')
    message = decode(buffer)
    buffer[:] = b"x" * 1_000
    assert plain(message) == plain(Result(1, raw(b'{"a":1}')))


def test_absent_and_null_data_of_an_error_are_distinguished() -> None:
    absent = decode(b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}')
    null = decode(b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":null}}')
    assert isinstance(absent, Error)
    assert isinstance(null, Error)
    assert absent.data is ABSENT
    assert null.data is None


def test_a_raw_member_is_a_view_of_its_frame_and_a_copy_is_not() -> None:
    # The reference count shows who keeps the frame in memory.
    frame = b'{"jsonrpc":"2.0","id":1,"result":{"a":"%b"}}' % (b"x" * 1_000)
    before = sys.getrefcount(frame)
    message = decode(frame)
    assert isinstance(message, Result)
    assert sys.getrefcount(frame) == before + 1
    copy = message.result.copy()
    del message
    assert sys.getrefcount(frame) == before
    assert len(copy) == 1_008


IDS = [
    0,
    1,
    -1,
    2**53,
    2**53 + 1,
    -(2**53) - 1,
    2**63,
    2**64,
    -(2**64),
    10**400,
    10**4299,
    "x",
    "é",
    "\U0001f600",
    "\\\"'\n\x00\u2028",
]


def test_ids_round_trip_exactly(subtests: pytest.Subtests) -> None:
    for id in IDS:
        with subtests.test(id=id):
            message = decode(encode_request(id, "m"))
            assert isinstance(message, Request)
            assert message.id == id
            assert type(message.id) is type(id)
            response = decode(encode_result(id, b"{}"))
            assert isinstance(response, Result)
            assert response.id == id


def test_the_maximum_length_of_an_id(subtests: pytest.Subtests) -> None:
    for id, is_valid in [("i" * MAX_ID_LENGTH, True), ("i" * (MAX_ID_LENGTH + 1), False), ("é" * MAX_ID_LENGTH, True)]:
        with subtests.test(id=id, is_valid=is_valid):
            message = decode(json.dumps({"jsonrpc": "2.0", "id": id, "method": "m"}).encode())
            assert isinstance(message, Request) is is_valid


def test_the_maximum_length_of_a_method_name(subtests: pytest.Subtests) -> None:
    for length, is_valid in [(MAX_METHOD_LENGTH, True), (MAX_METHOD_LENGTH + 1, False), (100_000, False)]:
        with subtests.test(length=length, is_valid=is_valid):
            message = decode(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "m" * length}).encode())
            assert isinstance(message, Request) is is_valid


def request(**members: str) -> bytes:
    """Return a request with some members replaced by other JSON; an empty string omits one."""
    parts = {"jsonrpc": '"2.0"', "id": "5", "method": '"m"'} | members
    return ("{" + ",".join(f'"{name}":{text}' for name, text in parts.items() if text) + "}").encode()


def response(**members: str) -> bytes:
    return request(**({"method": ""} | members))


def error(text: str) -> bytes:
    return response(error=text)


# frame, code, path, part of the message, id that is read nevertheless, whether it is a response
MALFORMED = [
    # Not JSON: -32700. The id is unknown.
    (b"", PARSE, "$", "truncated", ABSENT, False),
    (b"   ", PARSE, "$", "truncated", ABSENT, False),
    (b"hello", PARSE, "$", "invalid character", ABSENT, False),
    (b'{"jsonrpc":"2.0","id":5', PARSE, "$.id", "truncated", ABSENT, False),
    (b"[", PARSE, "$[0]", "truncated", ABSENT, False),
    (b"[1,]", PARSE, "$[1]", "trailing comma", ABSENT, False),
    (request() + b"x", PARSE, "$", "trailing characters", ABSENT, False),
    (b"\xef\xbb\xbf" + request(), PARSE, "$", "byte order mark", ABSENT, False),
    (request().decode().encode("utf-16"), PARSE, "$", "not UTF-8", ABSENT, False),
    (request(params='{"a":NaN}'), PARSE, "$.params.a", "NaN is not JSON", ABSENT, False),
    (request(params='{"a":[-Infinity]}'), PARSE, "$.params.a[0]", "-Infinity is not JSON", ABSENT, False),
    (request(params='{"a":"\\ud800"}'), PARSE, "$.params.a", "lone surrogate", ABSENT, False),
    (request(id='"\\udfff"'), PARSE, "$.id", "lone surrogate", ABSENT, False),
    (request(later='{"a":01}'), PARSE, "$.later.a", "invalid number", ABSENT, False),
    (request(jsonrpc='"1.0"', later="tru"), PARSE, "$.later", "invalid character", ABSENT, False),
    (b"5 5", PARSE, "$", "trailing characters", ABSENT, False),
    # Responses that Python and JavaScript write and accept: the id is read, so that the caller gets the error.
    (response(result='{"a":NaN}'), PARSE, "$.result.a", "NaN is not JSON", 5, True),
    (response(result='{"a":-Infinity}'), PARSE, "$.result.a", "-Infinity is not JSON", 5, True),
    (response(result='{"a":"\\ud83d"}'), PARSE, "$.result.a", "lone surrogate", 5, True),
    (response(result='{"a":"\n"}'), PARSE, "$.result.a", "invalid character", 5, True),
    (error('{"code":1,"message":"\\ud83d"}'), PARSE, "$.error.message", "lone surrogate", 5, True),
    (response(id='"5"', result='{"a":NaN}'), PARSE, "$.result.a", "NaN is not JSON", ABSENT, False),
    (response(id="true", result='{"a":NaN}'), PARSE, "$.result.a", "NaN is not JSON", ABSENT, False),
    (
        response(result='{"a":NaN,"b":"%s"}' % ("x" * MAX_LENIENT)),
        PARSE,
        "$.result.a",
        "NaN is not JSON",
        ABSENT,
        False,
    ),
    # Not UTF-8: -32700 too, but msgspec can skip it, so the id is known.
    (request(params='{"a":"?"}').replace(b"?", b"\xff"), PARSE, "$.params.a", "not UTF-8", 5, False),
    (response(result='{"a":"?"}').replace(b"?", b"\xff"), PARSE, "$.result.a", "not UTF-8", 5, True),
    (request(id='"?"').replace(b"?", b"\xff"), PARSE, "$.id", "not UTF-8", ABSENT, False),
    (
        b"[" + request(method='"?"').replace(b"?", b"\xff") + b"]",
        PARSE,
        "$[0].method",
        "not UTF-8",
        ABSENT,
        False,
    ),
    # Too deep: -32600, like too large. The id is read if the stack allows it.
    (request(params="[" * 128 + "]" * 128), INVALID, "$.params[0][0]", "nested more than 128 deep", 5, False),
    (response(result="[" * 128 + "]" * 128), INVALID, "$.result[0][0]", "nested more than 128 deep", 5, True),
    (
        request(params="[" * 5_000 + "]" * 5_000),
        INVALID,
        "$.params[0]",
        "nested more than 128 deep",
        ABSENT,
        False,
    ),
    (b"[" * 129 + b"]" * 129, INVALID, "$[0][0]", "nested more than 128 deep", ABSENT, False),
    # JSON, but not an object: -32600.
    (b"5", INVALID, "$", "Expected `object`, got `int`", ABSENT, False),
    (b'"x"', INVALID, "$", "Expected `object`, got `str`", ABSENT, False),
    (b"null", INVALID, "$", "Expected `object`, got `null`", ABSENT, False),
    # jsonrpc
    (request(jsonrpc=""), INVALID, "$", "missing required field `jsonrpc`", 5, False),
    (b"{}", INVALID, "$", "missing required field `jsonrpc`", ABSENT, False),
    (request(jsonrpc='"1.0"'), INVALID, "$.jsonrpc", '`jsonrpc` must be "2.0"', 5, False),
    (request(jsonrpc="2.0"), INVALID, "$.jsonrpc", '`jsonrpc` must be "2.0"', 5, False),
    (request(jsonrpc="null"), INVALID, "$.jsonrpc", '`jsonrpc` must be "2.0"', 5, False),
    (response(jsonrpc="", result="{}"), INVALID, "$", "missing required field `jsonrpc`", 5, True),
    # id
    (request(id="1.0"), INVALID, "$.id", "`id` must be", ABSENT, False),
    (request(id="1e3"), INVALID, "$.id", "`id` must be", ABSENT, False),
    (request(id="1e400"), INVALID, "$.id", "`id` must be", ABSENT, False),
    (request(id="true"), INVALID, "$.id", "`id` must be", ABSENT, False),
    (request(id="[1]"), INVALID, "$.id", "`id` must be", ABSENT, False),
    (request(id="{}"), INVALID, "$.id", "`id` must be", ABSENT, False),
    (request(id="9" * 4_301), INVALID, "$.id", "`id` must be", ABSENT, False),
    (request(id='"' + "i" * 1_025 + '"'), INVALID, "$.id", "`id` must be", ABSENT, False),
    (request(id="null"), INVALID, "$.id", "must not be null", ABSENT, False),
    # method
    (request(method="1"), INVALID, "$.method", "`method` must be", 5, False),
    (request(method="null"), INVALID, "$.method", "`method` must be", 5, False),
    (request(method="{}"), INVALID, "$.method", "`method` must be", 5, False),
    (request(method='"' + "m" * 257 + '"'), INVALID, "$.method", "`method` must be", 5, False),
    (request(id="", method="1", params='"bar"'), INVALID, "$.method", "`method` must be", ABSENT, False),
    # params
    (request(params="5"), INVALID, "$.params", "`params` must be", 5, False),
    (request(params='"bar"'), INVALID, "$.params", "`params` must be", 5, False),
    (request(params="true"), INVALID, "$.params", "`params` must be", 5, False),
    (request(params="false"), INVALID, "$.params", "`params` must be", 5, False),
    (request(id="", params="5"), INVALID, "$.params", "`params` must be", ABSENT, False),
    # kind of message
    (request(method=""), INVALID, "$", "must have `method`, `result` or `error`", 5, False),
    (request(method="", params="{}"), INVALID, "$", "must have `method`, `result` or `error`", 5, False),
    (request(result="{}"), INVALID, "$", "both `method` and", 5, False),
    (request(error="{}"), INVALID, "$", "both `method` and", 5, False),
    (
        response(result="{}", error='{"code":1,"message":""}'),
        INVALID,
        "$",
        "both `result` and `error`",
        5,
        True,
    ),
    (response(result="{}", error="null"), INVALID, "$", "both `result` and `error`", 5, True),
    (response(id="", result="{}"), INVALID, "$.id", "a result must have the `id`", ABSENT, True),
    (response(id="null", result="{}"), INVALID, "$.id", "a result must have the `id`", ABSENT, True),
    (response(id="1.5", result="{}"), INVALID, "$.id", "`id` must be", ABSENT, True),
    # error
    (error("null"), INVALID, "$.error", "Expected `object`, got `null`", 5, True),
    (error('"text"'), INVALID, "$.error", "Expected `object`, got `str`", 5, True),
    (error("{}"), INVALID, "$.error", "missing required field `code`", 5, True),
    (error('{"code":1}'), INVALID, "$.error", "missing required field `message`", 5, True),
    (error('{"message":"m"}'), INVALID, "$.error", "missing required field `code`", 5, True),
    (error('{"code":1.5,"message":"m"}'), INVALID, "$.error.code", "must be an integer", 5, True),
    (error('{"code":"1","message":"m"}'), INVALID, "$.error.code", "must be an integer", 5, True),
    (error('{"code":true,"message":"m"}'), INVALID, "$.error.code", "must be an integer", 5, True),
    (error('{"code":1,"message":null}'), INVALID, "$.error.message", "must be a string", 5, True),
    (error('{"code":1,"message":"m","data":1e400}'), INVALID, "$.error.data", "Number out of range", 5, True),
]


def test_malformed_frames(subtests: pytest.Subtests) -> None:
    for frame, code, path, text, id, is_response in MALFORMED:
        with subtests.test(frame=frame, code=code):
            message = decode(frame)
            assert isinstance(message, Malformed)
            assert message.code is code
            assert text in message.message
            assert message.path.startswith(path) if "deep" in text else message.path == path
            # The stack limits how deep a frame is searched for its id; newer Python versions allow more.
            assert message.id == id or (id is ABSENT and "deep" in text and message.id == 5)
            assert message.is_response is is_response


def test_errors_quote_120_bytes_of_a_frame() -> None:
    for size, quote in ((120, "x" * 120), (121, "x" * 120 + "...")):
        message = decode(b"x" * size)
        assert isinstance(message, Malformed)
        assert message.quote == quote


def test_errors_of_malformed_frames_are_bounded(subtests: pytest.Subtests) -> None:
    for frame in [row[0] for row in MALFORMED]:
        with subtests.test(frame=frame):
            message = decode(frame)
            assert isinstance(message, Malformed)
            reply = decode(encode_error(message.id, message.code, message.message, {"path": message.path}))
            assert isinstance(reply, Error)
            assert len(reply.message) < 200
            assert len(message.path) < 210
            assert len(message.quote) <= 123
            raised = message.as_error(sent=True)
            assert isinstance(raised, ProtocolError)
            assert (raised.code, raised.path, raised.quote) == (message.code, message.path, message.quote)
            assert raised.may_have_run is True
            assert message.message in str(raised)


def test_duplicate_names_are_all_checked_and_the_last_one_counts() -> None:
    # msgspec validates every typed member, also those that are overwritten.
    assert isinstance(decode(b'{"jsonrpc":"1.0","jsonrpc":"2.0","id":1,"method":"m"}'), Malformed)
    message = decode(b'{"jsonrpc":"2.0","id":1,"method":"m","params":5,"params":{}}')
    assert plain(message) == plain(Request(1, "m", raw(b"{}")))


def test_decode_never_raises_a_recursion_error() -> None:
    frame = request(params="[" * 120 + "]" * 120)

    def descend(frames: int) -> Message:
        return descend(frames - 1) if frames else decode(frame)

    used = len(_stack())
    outcomes = set()
    for left in range(60, 400, 10):
        outcomes.add(type(descend(sys.getrecursionlimit() - used - left)))
    # From Python 3.12 on C code has its own recursion limit, so all of them succeed.
    assert outcomes <= {Request, Malformed}
    assert Request in outcomes


def _stack() -> list[object]:
    frames: list[object] = []
    frame = sys._getframe()
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames


BATCHES = [
    (b"[]", []),
    (b" [ ] ", []),
    (b"[" + request() + b"," + request(id="") + b"]", [Request(5, "m"), Notification("m")]),
    (
        b"[" + response(result="{}") + b"," + error('{"code":1,"message":"m"}') + b"]",
        [Result(5, raw(b"{}")), Error(5, 1, "m")],
    ),
]


def test_batches(subtests: pytest.Subtests) -> None:
    for frame, members in BATCHES:
        with subtests.test(frame=frame, members=members):
            batch = decode(frame)
            assert isinstance(batch, Batch)
            assert plain(batch) == [plain(member) for member in members]
            assert not batch.is_over_limit


def test_members_of_a_batch_are_validated_separately() -> None:
    frame = (
        b"["
        + b",".join([request(), b"1", b"[]", request(params="5"), response(id="1.0", result="1"), request(id="6")])
        + b"]"
    )
    batch = decode(frame)
    assert isinstance(batch, Batch)
    found = [
        (
            type(member).__name__,
            getattr(member, "path", ""),
            getattr(member, "id", None),
            getattr(member, "is_response", None),
        )
        for member in batch.members
    ]
    assert found == [
        ("Request", "", 5, None),
        ("Malformed", "$[1]", ABSENT, False),
        ("Malformed", "$[2]", ABSENT, False),
        ("Malformed", "$[3].params", 5, False),
        ("Malformed", "$[4].id", ABSENT, True),
        ("Request", "", 6, None),
    ]


def test_a_batch_over_the_limit_is_not_decoded(subtests: pytest.Subtests) -> None:
    for count, is_over in [(MAX_BATCH_MEMBERS, False), (MAX_BATCH_MEMBERS + 1, True), (500_000, True)]:
        with subtests.test(count=count, is_over=is_over):
            frame = b"[" + b",".join([b"1"] * count) + b"]"
            decode(b"[]")  # the decoder is created on first use
            tracemalloc.start()
            try:
                batch = decode(frame)
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert isinstance(batch, Batch)
            assert batch.is_over_limit is is_over
            assert len(batch.members) == (0 if is_over else count)
            assert peak < 2 * len(frame) + 200_000  # the frame is copied once to detect an array


def test_a_batch_in_a_batch_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    monkeypatch.setattr(_jsonrpc, "decode", decoded.append)
    batch = decode(b"[[[1]]]")
    assert isinstance(batch, Batch)
    (member,) = batch.members
    assert isinstance(member, Malformed)
    assert (member.message, member.path, decoded) == ("a batch cannot contain a batch", "$[0]", [])


def test_a_member_of_a_batch_does_not_keep_the_frame() -> None:
    frame = b"[" + request(params='{"a":"%s"}' % ("x" * 100_000)) + b"," + response(result="{}") + b"]"
    before = sys.getrefcount(frame)
    batch = decode(frame)
    assert isinstance(batch, Batch)
    assert sys.getrefcount(frame) == before


def test_a_huge_malformed_frame_is_refused_in_little_memory() -> None:
    # Unknown members and a wrong version: no objects may be created for them.
    frame = b'{"jsonrpc":"1.0",' + b",".join(b'"%d":0' % index for index in range(500_000)) + b',"id":5}'
    tracemalloc.start()
    try:
        message = decode(frame)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(message, Malformed)
    assert message.id == 5
    assert peak < 2 * len(frame)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
REQUEST_IDS = st.integers() | st.text(max_size=MAX_ID_LENGTH)
OBJECTS = st.dictionaries(st.text(), JSON, max_size=4)


@given(REQUEST_IDS, st.text(max_size=MAX_METHOD_LENGTH), st.none() | OBJECTS, st.none() | OBJECTS)
def test_encoded_requests_round_trip(
    id: int | str, method: str, params: dict[str, object] | None, meta: dict[str, object] | None
) -> None:
    if params is not None:
        params.pop("_meta", None)
    encoded = None if params is None else json.dumps(params, indent=1).encode()
    encoded_meta = None if meta is None else json.dumps(meta).encode()
    expected = {"jsonrpc": "2.0", "id": id, "method": method}
    if params is not None or meta is not None:
        expected["params"] = {**({} if meta is None else {"_meta": meta}), **(params or {})}
    frame = encode_request(id, method, encoded, encoded_meta)
    assert json.loads(frame) == expected
    message = decode(frame)
    assert isinstance(message, Request)
    assert (message.id, message.method) == (id, method)
    notification = encode_notification(method, encoded)
    del expected["id"]
    expected.pop("params", None)
    assert json.loads(notification) == (expected if params is None else {**expected, "params": params})
    assert isinstance(decode(notification), Notification)


@given(REQUEST_IDS, JSON)
def test_encoded_results_and_errors_round_trip(id: int | str, value: object) -> None:
    text = json.dumps(value).encode()
    assert plain(decode(encode_result(id, text))) == (Result, {"id": id, "result": value})
    failed = decode(encode_error(id, -5, "é", value))
    assert failed == Error(id, -5, "é", value)


@given(st.binary(max_size=200))
def test_any_bytes_become_a_message(frame: bytes) -> None:
    assert isinstance(decode(frame), Request | Notification | Result | Error | Malformed | Batch)


MEMBER_TEXTS = st.sampled_from(
    [
        '"2.0"',
        '"1.0"',
        "1",
        "1.0",
        "null",
        "true",
        '"x"',
        "{}",
        "[]",
        "[1,{}]",
        '{"code":1,"message":"m"}',
        "NaN",
        "",
        '"\\ud800"',
    ]
)


@given(
    st.lists(st.tuples(st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "x"]), MEMBER_TEXTS))
)
def test_any_members_become_one_kind_of_message(members: list[tuple[str, str]]) -> None:
    frame = ("{" + ",".join(f'"{name}":{text}' for name, text in members) + "}").encode()
    message = decode(frame)
    names = {name for name, _ in members}
    match message:
        case Request():
            assert {"jsonrpc", "id", "method"} <= names
            assert not names & {"result", "error"}
        case Notification():
            assert {"jsonrpc", "method"} <= names
            assert not names & {"id", "result", "error"}
        case Result():
            assert {"jsonrpc", "id", "result"} <= names
            assert not names & {"method", "error"}
        case Error():
            assert {"jsonrpc", "error"} <= names
            assert not names & {"method", "result"}
        case _:
            assert isinstance(message, Malformed)


def test_error_codes() -> None:
    assert {code.name: code.value for code in ErrorCode} == {
        "PARSE_ERROR": -32700,
        "INVALID_REQUEST": -32600,
        "METHOD_NOT_FOUND": -32601,
        "INVALID_PARAMS": -32602,
        "INTERNAL_ERROR": -32603,
        "SEQUENCE_ERROR": -32001,
        "RESOURCE_NOT_FOUND": -32002,
        "URL_ELICITATION_REQUIRED": -32042,
        "HEADER_MISMATCH": -32020,
        "MISSING_REQUIRED_CLIENT_CAPABILITY": -32021,
        "UNSUPPORTED_PROTOCOL_VERSION": -32022,
    }


DEEP = [150, 900, 995, 1_000, 1_100, 5_000, 50_000]


def test_a_response_of_any_depth_is_refused_with_its_id(subtests: pytest.Subtests) -> None:
    """The caller gets the error immediately and not after its timeout."""
    for depth in DEEP:
        for order in ["id first", "id last"]:
            for member in ["result", "error"]:
                with subtests.test(depth=depth, order=order, member=member):
                    deep = b"[" * depth + b"]" * depth
                    body = (
                        b'{"content":%b}' % deep if member == "result" else b'{"code":1,"message":"m","data":%b}' % deep
                    )
                    parts = [b'"id":5', b'"%b":%b' % (member.encode(), body)]
                    frame = b'{"jsonrpc":"2.0",%b}' % b",".join(parts if order == "id first" else parts[::-1])
                    found = decode(frame)
                    assert isinstance(found, Malformed)
                    assert (found.id, found.is_response, found.code) == (5, True, ErrorCode.INVALID_REQUEST)
                    assert "nested more than 128 deep" in found.message


def test_a_request_of_any_depth_is_refused_with_its_id(subtests: pytest.Subtests) -> None:
    for depth in DEEP:
        with subtests.test(depth=depth):
            frame = b'{"jsonrpc":"2.0","id":"a","method":"m","params":{"x":%b}}' % (
                b'{"a":' * depth + b"1" + b"}" * depth
            )
            found = decode(frame)
            assert isinstance(found, Malformed)
            assert (found.id, found.is_response) == ("a", False)


def test_the_scan_for_the_id_of_a_deep_frame_is_bounded(subtests: pytest.Subtests) -> None:
    for frame, id in [
        (b'{"id":5,"result":' + b"[" * MAX_FLATTENED + b"]" * MAX_FLATTENED + b"}", 5),
        (b'{"result":' + b"[" * MAX_FLATTENED + b"]" * MAX_FLATTENED + b',"id":5}', ABSENT),
        (b"[" * 5_000 + b"]" * 5_000, ABSENT),
        (b'{"id":[[1]],"result":' + b"[" * 5_000 + b"]" * 5_000 + b"}", ABSENT),
    ]:
        with subtests.test(frame=frame, id=id):
            found = decode(frame)
            assert isinstance(found, Malformed)
            assert found.id == id


@pytest.mark.parametrize(
    ("start", "id"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"id":8,', 7),
        (b'{ "method" : "a\\"b" , "id" : "x\\n" , "params":{', "x\n"),
        (b'{"jsonrpc":"2.0","id":7,"result":{"method":"a",', None),
        (b'{"jsonrpc":"2.0","method":"tools/call","params":{"id":8,', None),
        (b'{"id":"\\x","method":"a","params":', None),
        (b'{"id":"cut', None),
        (b'[{"id":7,"method":"a",', None),
        (b"", None),
    ],
)
def test_id_of_a_request_from_its_beginning(start: bytes, id: RequestId | None) -> None:
    assert request_id_at_start(start) == id


def test_id_of_a_request_from_its_end() -> None:
    start = b'{"method":"tools/call","params":{"text":"x'
    for end, id in (
        (b'xx"},"jsonrpc":"2.0","id":2}', 2),
        (b'x"} , "id" : "a\\"b" }\r', 'a"b'),
        (b'x","id":3}}', None),
        (b'x\\",\\"id\\":3}"}', None),
        (b'x,\\"id":3}', None),
        (b'x"},"id":null}', None),
        (b"", None),
    ):
        assert request_id_at_start(start, end) == id, end
    assert request_id_at_start(b'{"result":{', b'},"id":2}') is None
    assert request_id_at_start(b'{"id":1,"method":"a","params":', b'{},"id":2}') == 1
