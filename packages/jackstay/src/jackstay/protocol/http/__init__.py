"""The rules of Streamable HTTP, for both eras and both sides, as pure functions without I/O.

Only programs that use HTTP import this package.
"""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        "._headers": "LAST_EVENT_HEADER METHOD_HEADER NAME_HEADER PARAM_PREFIX SESSION_HEADER VERSION_HEADER"
        " HeaderMismatch HeaderPairs ParamHeader ParamHeaders build_param_headers check_method_headers"
        " check_param_headers decode_header_value delete_headers encode_header_value fold_headers is_session_id"
        " listen_headers mirrored_name new_session_id post_headers read_param_headers",
        "._legacy": "endpoint_event legacy_session message_event",
        "._request_checks": "LOCAL_HOSTS Accepts Access Endpoint ErrorResponse RequestRefused check_access"
        " check_request error_response read_accept too_large with_port",
        "._server": "ACCEPTED JSON_HEADERS RETRY_HEADERS STREAM_HEADERS Action Kind Route SessionState error_status"
        " mismatch_response route_post route_verb session_header",
        "._urls": "is_same_origin origin_of resolve_endpoint resolve_url",
        "._verdict": "Fact Next Sent Verdict classify_response error_for parse_retry_after",
    },
)
