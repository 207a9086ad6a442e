"""Every method and notification in every revision, compared with the schemas of the specification."""

from jackstay import types
from jackstay.protocol._methods import METHODS, Sender, is_known
from jackstay.protocol._versions import VERSIONS

C, S = Sender.CLIENT, Sender.SERVER

# Per revision, oldest first: the side that may send it. "c" client, "s" server, "b" both, "." none.
# Source: `schema/<revision>/schema.json` of the specification.
MATRIX = {
    "initialize": "cccc.",
    "notifications/initialized": "cccc.",
    "ping": "bbbb.",
    "server/discover": "....c",
    "subscriptions/listen": "....c",
    "notifications/subscriptions/acknowledged": "....s",
    "tools/list": "ccccc",
    "tools/call": "ccccc",
    "prompts/list": "ccccc",
    "prompts/get": "ccccc",
    "resources/list": "ccccc",
    "resources/templates/list": "ccccc",
    "resources/read": "ccccc",
    "completion/complete": "ccccc",
    "resources/subscribe": "cccc.",
    "resources/unsubscribe": "cccc.",
    "logging/setLevel": "cccc.",
    "sampling/createMessage": "ssss.",
    "roots/list": "ssss.",
    "elicitation/create": "..ss.",
    "tasks/get": "...b.",
    "tasks/result": "...b.",
    "tasks/list": "...b.",
    "tasks/cancel": "...b.",
    "notifications/cancelled": "bbbbb",
    "notifications/progress": "bbbbs",
    "notifications/message": "sssss",
    "notifications/tools/list_changed": "sssss",
    "notifications/prompts/list_changed": "sssss",
    "notifications/resources/list_changed": "sssss",
    "notifications/resources/updated": "sssss",
    "notifications/roots/list_changed": "cccc.",
    "notifications/elicitation/complete": "...s.",
    "notifications/tasks/status": "...b.",
}


def test_the_sender_of_each_method_in_each_revision(subtests):
    for method, expected in MATRIX.items():
        with subtests.test(method=method):
            senders = ""
            for version in VERSIONS:
                by_client, by_server = is_known(method, version, C), is_known(method, version, S)
                senders += {(True, False): "c", (False, True): "s", (True, True): "b", (False, False): "."}[
                    by_client, by_server
                ]
            assert senders == expected


def test_the_table_has_exactly_these_rows():
    assert set(METHODS) == set(MATRIX)
    assert all(row.name == name for name, row in METHODS.items())


def test_an_unlisted_method_is_unknown_to_both_sides(subtests):
    for method in ("", "tools", "tools/list ", "TOOLS/LIST", "rpc.discover", "$/cancelRequest"):
        with subtests.test(method=method):
            assert not any(is_known(method, version, sender) for version in VERSIONS for sender in (C, S))


def test_no_method_is_known_in_an_unknown_revision():
    assert not is_known("tools/list", "1999-01-01", C)
    assert not is_known("tools/list", "2099-01-01", C)
    assert not is_known("tools/list", "", C)


REVISIONS_PER_METHOD = [
    ("tools/list", VERSIONS),
    ("initialize", VERSIONS[:4]),
    ("server/discover", VERSIONS[4:]),
    ("elicitation/create", VERSIONS[2:]),
    ("tasks/get", VERSIONS[3:4]),
]


def test_the_revisions_of_a_method(subtests):
    for method, versions in REVISIONS_PER_METHOD:
        with subtests.test(method=method, versions=versions):
            assert METHODS[method].revisions == versions


def test_requests_have_results_and_notifications_have_none():
    for name, row in METHODS.items():
        assert row.is_request is not name.startswith("notifications/")


def test_every_body_exists_in_types():
    for row in METHODS.values():
        assert hasattr(types, row.params), row
        assert not row.result or hasattr(types, row.result), row


def test_only_read_methods_are_safe_to_repeat():
    read_verbs = ("list", "get", "read", "complete", "discover")
    client = {name for name, row in METHODS.items() if row.is_request and row.sender is not S}
    safe = {name for name in client if METHODS[name].is_safe}
    assert safe == {name for name in client if name.rsplit("/", 1)[-1] in read_verbs}


def test_the_cacheable_methods():
    """2026-07-28 server/utilities/caching: discover, the four lists and resources/read."""
    assert {name for name, row in METHODS.items() if row.is_cacheable} == {
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    }


def test_the_methods_that_may_require_input():
    """2026-07-28 basic/patterns/mrtr: only these three."""
    assert {name for name, row in METHODS.items() if row.may_require_input} == {
        "tools/call",
        "prompts/get",
        "resources/read",
    }


def test_the_param_in_the_mcp_name_header():
    """2026-07-28 basic/transports/streamable-http: `Mcp-Name`."""
    assert {name: row.header_name for name, row in METHODS.items() if row.header_name} == {
        "tools/call": "name",
        "prompts/get": "name",
        "resources/read": "uri",
    }


CAPABILITIES = {
    "tools/call": "tools",
    "notifications/tools/list_changed": "tools.listChanged",
    "resources/subscribe": "resources.subscribe",
    "prompts/get": "prompts",
    "completion/complete": "completions",
    "logging/setLevel": "logging",
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
    "notifications/roots/list_changed": "roots.listChanged",
    "tasks/list": "tasks.list",
    "ping": "",
    "initialize": "",
    "server/discover": "",
    "notifications/cancelled": "",
    "notifications/progress": "",
}


def test_the_capability_of_each_method(subtests):
    for method, capability in CAPABILITIES.items():
        with subtests.test(method=method):
            assert METHODS[method].capability == capability
