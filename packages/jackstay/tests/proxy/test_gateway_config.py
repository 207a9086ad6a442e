"""The configuration of a gateway: what it means, and errors that name file, key and remedy."""

import json
from pathlib import Path

import pytest

from jackstay.errors import UsageError
from jackstay.proxy._gateway_config import EVERYTHING, NOTHING, Rule, read_gateway

FULL = """
name = "office"

[servers.git]
command = "git-server"
args = ["--read-only"]
env = { TOKEN = "${GIT_TOKEN}" }
timeout = 5
wait = 2.5
allow = ["read_*", "status"]
deny = ["read_secrets"]

[servers.web]
url = "https://example.org/mcp"
headers = { Authorization = "Bearer ${WEB_TOKEN:-none}" }
prefix = "w"

[servers.off]
command = "x"
disabled = true

[keys]
alice = "${ALICE}"
bob = ["an-old-secret-of-bob", "a-new-secret-of-bob"]

[access.alice]
servers = ["git"]

[access.bob]
tools = ["git_status", "w_*"]

[access."*"]
servers = []
"""
ENVIRONMENT = {"GIT_TOKEN": "t", "ALICE": "a-long-secret-of-alice"}


def test_a_complete_file(tmp_path: Path) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(FULL)
    config = read_gateway(path, environment=ENVIRONMENT)
    assert config.name == "office"
    assert list(config.upstreams) == ["git", "web"]
    git, web = config.upstreams.values()
    assert (git.prefix, git.options.timeout, git.options.wait) == ("git", 5.0, 2.5)
    assert [name for name in ("read_all", "read_secrets", "status", "push") if git.allows(name)] == [
        "read_all",
        "status",
    ]
    assert (web.prefix, web.options.timeout, web.allows("x")) == ("w", None, True)
    assert config.has_auth
    assert len(config.verifiers()) == 1
    assert config.rule_for("alice") == Rule(("git",))
    assert config.rule_for("bob").has_tool("w_x")
    assert not config.rule_for("bob").has_tool("git_push")
    assert not config.rule_for("carol").has_server("git")


def test_an_mcp_servers_file_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    entry = {"command": "x", "deny": ["push"], "disabledTools": ["a member of another host"]}
    path.write_text(json.dumps({"mcpServers": {"git": entry}, "inputs": []}))
    config = read_gateway(path)
    assert config.name == "gateway"
    assert not config.upstreams["git"].allows("push")
    assert not config.has_auth
    assert config.rule_for("anyone") is EVERYTHING


def test_principals_without_a_rule_get_nothing(tmp_path: Path) -> None:
    path = tmp_path / "g.toml"
    path.write_text('[servers.a]\ncommand = "x"\n[keys]\nbob = "a-long-secret-of-bob"\n[access.bob]\n')
    config = read_gateway(path)
    assert config.rule_for("bob") == EVERYTHING
    assert config.rule_for("carol") is NOTHING


def test_tokens_need_issuer_audience_and_keys(tmp_path: Path) -> None:
    path = tmp_path / "g.toml"
    jwt = '[jwt]\nissuer = "https://a"\naudience = "https://b"\njwks = "https://c"\nscopes = ["mcp"]\n'
    path.write_text('[servers.a]\ncommand = "x"\n' + jwt)
    config = read_gateway(path)
    assert config.jwt == {
        "issuer": "https://a",
        "audience": "https://b",
        "jwks": "https://c",
        "resource": "https://b",
        "scopes": ("mcp",),
    }
    (verifier,) = config.verifiers()
    auth = config.auth(verifier)
    assert "https://a" in auth.authorization_servers  # type: ignore[union-attr]


SERVER = '[servers.a]\ncommand = "x"\n'
ERRORS = [
    ('[servers.a]\ncommand = "x"\ntransforms = 1', "servers.a.transforms must be a table", ""),
    ('[servers.a]\ncommand = "x"\ntransforms.t = 1', "servers.a.transforms.t must be a table", "or false to hide"),
    ('[servers.a]\ncommand = "x"\ntransforms.t = {nam = "x"}', "transforms.t.nam is unknown", "did you mean 'name'?"),
    (
        '[servers.a]\ncommand = "x"\ntransforms.t.arguments.q = {default = 1}',
        "transforms.t.arguments.q.default is unknown",
        "value",
    ),
    ('[servers.a]\ncommand = "x"\ntransforms.t = {name = 1}', "servers.a.transforms.t is invalid", "$.name"),
    ("[servers.a\n", "is not valid TOML: ", "line 1"),
    ("name = 1\n", "has no table [servers.NAME]", ""),
    ("servers = 7\n", "has no table [servers.NAME]", ""),
    ("[servers]\n", "has no server that is not disabled", ""),
    ("[servers.a]\n", "servers.a has no command", ""),
    ("[servers]\na = 7\n", "servers.a must be an object", ""),
    (SERVER + "timout = 7\n", "servers.a.timout is unknown; did you mean 'timeout'?; members: ", ""),
    (SERVER + "timeout = 'x'\n", "servers.a.timeout must be a number of seconds", ""),
    (SERVER + "timeout = 0\n", "servers.a.timeout is out of range: ", ""),
    (SERVER + "allow = 'x'\n", "servers.a.allow must be an array of strings", ""),
    (SERVER + "prefix = '-'\n", "servers.a.prefix must be letters, digits", ""),
    (SERVER + "env = { A = '${NO_SUCH_VARIABLE}' }\n", "uses the environment variable NO_SUCH_VARIABLE", "set it"),
    ('[servers."a b"]\ncommand = "x"\n', "servers.a b has an invalid name", ""),
    (SERVER + '[servers.b]\ncommand = "x"\nprefix = "a"\n', "servers.b.prefix is the same as that of a", ""),
    (SERVER + "[server.b]\n", "server is unknown; did you mean 'servers'?", ""),
    (SERVER + "[access.bob]\n", "access needs [keys] or [jwt]", ""),
    (SERVER + "[keys]\nbob = 7\n", "keys.bob must be a string", ""),
    (SERVER + "[keys]\nbob = 'x'\n[access]\nbob = 1\n", "access.bob must be a table", ""),
    (SERVER + "[keys]\nbob = 'x'\n[access.bob]\ntool = []\n", "access.bob.tool is unknown; did you mean 'tools'?", ""),
    (SERVER + "[keys]\nbob = 'x'\n[access.bob]\nservers = ['b']\n", "names the unknown server 'b'", ""),
    (SERVER + "keys = 7\n", "servers.a.keys is unknown", ""),
    ("keys = 7\n" + SERVER, "keys must be a table", ""),
    (SERVER + "[jwt]\nissuer = 'x'\n", "jwt has no audience", ""),
]


@pytest.mark.parametrize(("text", "message", "more"), ERRORS)
def test_an_error_names_file_key_and_remedy(tmp_path: Path, text: str, message: str, more: str) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_gateway(path, environment={})
    assert str(path) in caught.value.message
    assert message in caught.value.message
    assert more in caught.value.message
