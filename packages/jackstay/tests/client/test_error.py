"""The error object of a response that the client sends."""

import json

import pytest

from jackstay.client._error import encode_error


def test_code_message_and_data_are_encoded() -> None:
    assert json.loads(encode_error(-32601, "no such method")) == {"code": -32601, "message": "no such method"}
    assert json.loads(encode_error(7, "no", {"why": [1]})) == {
        "code": 7,
        "message": "no",
        "data": {"why": [1]},
    }


def test_data_that_is_not_json_is_logged_and_omitted(caplog: pytest.LogCaptureFixture) -> None:
    assert json.loads(encode_error(7, "no", {"why": float("nan")})) == {"code": 7, "message": "no"}
    assert "cannot be encoded" in caplog.text
