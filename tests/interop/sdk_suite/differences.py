"""Tests of the official SDK's suite that fail with a proxy between its client and server, with the reason.

A failing test that is not listed fails the run, and so does a listed test that passes. The reasons are those of
docs/proxy.md, "Differences".
"""

from typing import NamedTuple

REASONS = {
    "cancelled": "A cancelled request gets no response; other servers send an error.",
    "refusal": "A request for a capability that the client did not declare is not forwarded; the proxy responds with "
    "-32601.",
    "list_changed": "The proxy declares `listChanged` for tools, resources and prompts, because a restarted server "
    "may be another version.",
    "params": "A notification without `params` arrives with an empty object.",
    "progress": "A progress report that arrives after the response to its call is dropped.",
    "subscribe": "A subscription to a resource is refused with -32601 where the server does not declare "
    "`resources.subscribe`.",
    "updates": "A client gets `notifications/resources/updated` for resources that it subscribed to, and for no "
    "others.",
    "listen": "The proxy handles `subscriptions/listen` itself and has one subscription at the server.",
    "level": "`logging/setLevel` is accepted for the client and filters its log messages, also where the server has no "
    "such method.",
    "identity": "A server that clients share sees the name and the capabilities of the proxy in its handshake, not "
    "those of a client.",
}


class Difference(NamedTuple):
    """One test, and the key of its reason. `eras` lists the runs in which it fails; see `through_proxy.py`."""

    test: str
    reason: str
    eras: tuple[str, ...] = ("same", "free")


def _legacy(path: str) -> str:
    return f"{path}[streamable-http-2025-11-25]"


def _modern(path: str) -> str:
    return f"{path}[streamable-http-2026-07-28]"


DIFFERENCES = (
    Difference(_legacy("lowlevel/test_cancellation.py::test_cancellation_stops_in_flight_handler"), "cancelled"),
    Difference(_legacy("lowlevel/test_elicitation.py::test_elicit_form_without_callback_is_error"), "refusal"),
    Difference(_legacy("lowlevel/test_roots.py::test_list_roots_without_callback_is_error"), "refusal"),
    Difference(_legacy("lowlevel/test_sampling.py::test_create_message_without_callback_is_error"), "refusal"),
    Difference(
        _legacy("lowlevel/test_initialize.py::test_initialize_capabilities_reflect_registered_handlers"), "list_changed"
    ),
    Difference(_legacy("lowlevel/test_list_changed.py::test_tool_list_changed_notification"), "params"),
    Difference(_legacy("lowlevel/test_list_changed.py::test_resource_list_changed_notification"), "params"),
    Difference(_legacy("lowlevel/test_list_changed.py::test_prompt_list_changed_notification"), "params"),
    Difference(
        _legacy("lowlevel/test_progress.py::test_progress_sent_after_the_response_is_not_delivered_to_the_callback"),
        "progress",
    ),
    Difference(_legacy("lowlevel/test_resources.py::test_subscribe_resource_delivers_uri_to_handler"), "subscribe"),
    Difference(
        _legacy("lowlevel/test_resources.py::test_subscribe_without_a_subscribe_handler_is_method_not_found"),
        "subscribe",
    ),
    Difference(_legacy("lowlevel/test_resources.py::test_resource_updated_notification_reaches_client"), "updates"),
    Difference(
        _modern("lowlevel/test_subscriptions.py::test_a_graceful_server_close_ends_iteration_after_buffered_events"),
        "listen",
    ),
    Difference(
        _modern("lowlevel/test_subscriptions.py::test_a_stream_dropped_after_the_ack_raises_subscription_lost"),
        "listen",
    ),
    Difference(
        _modern("lowlevel/test_subscriptions.py::test_the_subscription_id_is_the_listen_request_id_the_server_saw"),
        "listen",
    ),
    Difference(
        _modern("lowlevel/test_subscriptions.py::test_concurrent_listen_streams_each_receive_their_own_ack"), "listen"
    ),
    Difference(
        _legacy("mcpserver/test_context.py::test_set_logging_level_is_rejected_and_messages_are_never_filtered"),
        "level",
    ),
    Difference(_legacy("lowlevel/test_initialize.py::test_initialize_server_sees_client_info"), "identity", ("free",)),
    Difference(
        _legacy("lowlevel/test_initialize.py::test_initialize_server_sees_client_capabilities"), "identity", ("free",)
    ),
    Difference(
        _legacy("mcpserver/test_context.py::test_context_exposes_request_id_and_client_info_to_a_tool"),
        "identity",
        ("free",),
    ),
    Difference(
        _legacy(
            "mcpserver/test_extensions.py::test_legacy_ad_omits_claim_bearing_identifiers_but_keeps_claim_less_ones"
        ),
        "identity",
        ("free",),
    ),
)
