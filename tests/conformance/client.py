"""The client under test in the official conformance suite, which runs `client.py URL` once for each scenario.

The suite passes the scenario, the revision and the context in the environment. The last line printed is `finished`,
because the suite ignores the exit code of the client (see `verdicts.py`).
"""

import asyncio
import http.client
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from jackstay import Client, McpError, connect
from jackstay import http as streamable_http
from jackstay.oauth import ClientCredentials, EnterpriseManaged, Identity, IdentityProvider, OAuth, WorkloadIdentity
from jackstay.transport.http import Authorizer
from jackstay.types import CreateMessageResult, ElicitResult, TextContent

SECONDS = 80.0  # the suite allows 90
REDIRECT_URI = "http://localhost:3000/callback"
METADATA_URL = "https://conformance-test.local/client-metadata.json"

SCENARIO = os.environ["MCP_CONFORMANCE_SCENARIO"]
VERSION = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"]
CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))

Scenario = Callable[[Client], Awaitable[None]]

# --- scenarios --------------------------------------------------------------------------------------------------------


async def only_connect(client: Client) -> None:
    """Connect only: this server declares no capability."""
    assert client.state == "ready"


async def list_tools(client: Client) -> None:
    await client.tools.list()


async def call_first(client: Client) -> None:
    tools = await client.tools.list()
    await client.tools.call(tools[0].name, raise_on_error=False)


async def add_numbers(client: Client) -> None:
    await client.tools.list()
    await client.tools.call("add_numbers", {"a": 5, "b": 3}, raise_on_error=False)


async def accept_defaults(client: Client) -> None:
    await client.tools.call("test_client_elicitation_defaults", raise_on_error=False)


async def reconnect(client: Client) -> None:
    result = await client.tools.call("test_reconnection", raise_on_error=False)
    assert result.text == "Reconnection test completed successfully"


async def run_input_rounds(client: Client) -> None:
    """Run an input round with a concurrent call, then one without `requestState` and one without `resultType`."""
    await client.tools.list()
    await asyncio.gather(
        client.tools.call("test_mrtr_echo_state", raise_on_error=False),
        client.tools.call("test_mrtr_unrelated", raise_on_error=False),
    )
    await client.tools.call("test_mrtr_no_state", raise_on_error=False)
    await client.tools.call("test_mrtr_no_result_type", raise_on_error=False)


async def use_everything(client: Client) -> None:
    for tool in await client.tools.list():
        await client.tools.call(tool.name, raise_on_error=False)
    for resource in await client.resources.list():
        await client.resources.read(resource.uri)
    for prompt in await client.prompts.list():
        await client.prompts.get(prompt.name)


async def replay_calls(client: Client) -> None:
    await client.tools.list()
    for call in CONTEXT["toolCalls"]:
        await client.tools.call(call["name"], call["arguments"], raise_on_error=False)


async def call_all(client: Client) -> None:
    """Tools with an unusable `x-mcp-header` are not listed, and so not called."""
    tools = await client.tools.list()
    assert [tool.name for tool in tools] == ["valid_tool"]
    for tool in tools:
        await client.tools.call(tool.name, {"region": "north"}, raise_on_error=False)


async def echo_schema(client: Client) -> None:
    tools = {tool.name: tool for tool in await client.tools.list()}
    schema = tools["json_schema_2020_12_tool"].raw["inputSchema"]
    await client.tools.call("json_schema_echo", {"schema": schema}, raise_on_error=False)


async def list_skills(client: Client) -> None:
    assert await client.skills.list()


async def load_skill(client: Client) -> None:
    (skill,) = await client.skills.list()
    await client.skills.load(skill)
    await client.skills.read(skill, "skill://pdf-processing/references/FORMS.md")


SCENARIOS: dict[str, Scenario] = {
    "initialize": only_connect,
    "tools_call": add_numbers,
    "elicitation-sep1034-client-defaults": accept_defaults,
    "sse-retry": reconnect,
    "request-metadata": only_connect,
    "sep-2322-client-request-state": run_input_rounds,
    "http-standard-headers": use_everything,
    "http-custom-headers": replay_calls,
    "http-invalid-tool-headers": call_all,
    "json-schema-ref-no-deref": list_tools,
    "json-schema-2020-12-preservation": echo_schema,
    "sep-2640-client-no-prefetch": list_skills,
    "sep-2640-client-verify-digest": load_skill,
    "sep-2640-client-verify-size": load_skill,
    "sep-2640-client-verify-frontmatter": load_skill,
}

# The server or authorization server violates a rule: the client must reject it with an error.
REJECTED = {
    "auth/scope-retry-limit", "auth/resource-mismatch", "auth/iss-supported-missing", "auth/iss-wrong-issuer",
    "auth/iss-unexpected", "auth/iss-normalized", "auth/metadata-issuer-mismatch",
    "sep-2640-client-verify-digest", "sep-2640-client-verify-size", "sep-2640-client-verify-frontmatter",
}  # fmt: skip

# --- client features --------------------------------------------------------------------------------------------------


def fill_in(params: Any) -> ElicitResult:
    """Accept the form with all defaults."""
    fields = params.requested_schema.raw["properties"]
    content = {name: field["default"] for name, field in fields.items() if "default" in field}
    return ElicitResult(action="accept", content=content)


def complete(params: object) -> CreateMessageResult:
    return CreateMessageResult(role="assistant", content=TextContent(text="aye"), model="parrot")


# --- authorization ----------------------------------------------------------------------------------------------------


async def sign_in(url: str) -> str:
    """Follow the redirect of the authorization page, like a browser."""
    return await asyncio.to_thread(_location_of, url)


def _location_of(url: str) -> str:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=240)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}")
        location = connection.getresponse().getheader("Location")
    finally:
        connection.close()
    if location is None:
        raise AssertionError(f"{url} did not redirect")
    return location


def authorizer() -> Authorizer:
    """Return the authorizer of a scenario: with the credentials of the suite, or with registration."""
    match SCENARIO:
        case "auth/client-credentials-jwt":
            key, algorithm = CONTEXT["private_key_pem"], CONTEXT["signing_algorithm"]
            return ClientCredentials(
                Identity(
                    client_id=CONTEXT["client_id"],
                    private_key=key,
                    signing_algorithm=algorithm,
                    issuer=_issuer(),
                )
            )
        case "auth/client-credentials-basic":
            return ClientCredentials(_identity())
        case "auth/enterprise-managed-authorization":
            provider = IdentityProvider(
                client_id=CONTEXT["idp_client_id"],
                id_token=CONTEXT["idp_id_token"],
                issuer=CONTEXT["idp_issuer"],
                token_endpoint=CONTEXT["idp_token_endpoint"],
            )
            return EnterpriseManaged(_identity(), provider)
        case "auth/wif-jwt-bearer":
            return WorkloadIdentity(Identity(client_id=CONTEXT["client_id"], issuer=_issuer()), CONTEXT["valid_jwt"])
        case "auth/pre-registration":
            return OAuth(_identity(), redirect=sign_in, redirect_uri=REDIRECT_URI)
        case _:
            return OAuth(Identity(metadata_url=METADATA_URL), redirect=sign_in, redirect_uri=REDIRECT_URI)


def _identity() -> Identity:
    return Identity(client_id=CONTEXT["client_id"], client_secret=CONTEXT["client_secret"], issuer=_issuer())


def _issuer() -> str:
    """Return the issuer from the metadata of the server, because the suite does not pass it."""
    parts = urlsplit(sys.argv[-1])
    for path in (
        f"/.well-known/oauth-protected-resource{parts.path}",
        "/.well-known/oauth-protected-resource",
    ):
        connection = http.client.HTTPConnection(parts.netloc, timeout=240)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        if response.status == 200:
            return str(json.loads(body)["authorization_servers"][0])
    return f"{parts.scheme}://{parts.netloc}"


# --- main -------------------------------------------------------------------------------------------------------------


def open_client(url: str) -> Client:
    # The mock of this scenario supports the handshake only, whatever revision the suite passes.
    version = "2025-11-25" if SCENARIO == "json-schema-ref-no-deref" else VERSION
    auth = authorizer() if SCENARIO.startswith("auth/") else None
    client = connect(streamable_http(url, auth=auth), versions=(version,))
    client.elicitation.handle(fill_in)
    client.sampling.handle(complete)
    client.roots.set(["file:///root"])
    return client


async def run_scenario(url: str) -> None:
    async with asyncio.timeout(SECONDS):
        async with open_client(url) as client:
            await (call_first if SCENARIO.startswith("auth/") else SCENARIOS[SCENARIO])(client)


async def main(url: str) -> int:
    try:
        await run_scenario(url)
    except McpError as error:
        if SCENARIO not in REJECTED:
            raise
        print(f"rejected: {error}")
    else:
        if SCENARIO in REJECTED:
            print(f"{SCENARIO} was not rejected", file=sys.stderr)
            return 1
    print("finished")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[-1])))
