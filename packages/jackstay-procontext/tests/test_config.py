"""Settings: reference, 7.1; design, section 2. Unknown keys and bad values are refused by name."""

from pathlib import Path

import pytest

from procontext.config import PREFIX, Config, load, settings
from procontext.errors import ConfigError

EVERYTHING = """
sources:
  - id: intranet-sdk
    name: Intranet SDK
    languages: [python]
    packages: {pypi: [intranet-sdk], npm: []}
    aliases: [isdk]
    docs_url: http://docs.corp.example/sdk/
    llms_txt_url: http://docs.corp.example/sdk/llms.txt
    headers: {Authorization: "Bearer ${SDK_TOKEN}"}
  - id: local
    path: ./docs
registry: {path: null, url: null}
cache: {ttl_hours: 24, dir: null}
fetcher: {allowed_private_hosts: ["docs.corp.example:80"], max_bytes: 10485760, ca_file: null, proxy: null, offline: false}
output: {max_chars: 40000}
server: {transport: http, host: "127.0.0.1", port: 8080, auth_enabled: false, auth_key: ""}
"""


def write(folder: Path, text: str) -> str:
    file = folder / "procontext.yaml"
    file.write_text(text)
    return str(file)


def refused(folder: Path, text: str, **environment: str) -> str:
    with pytest.raises(ConfigError) as raised:
        load(write(folder, text), environment=environment)
    return str(raised.value)


def test_without_a_file_the_defaults_are_the_documented_ones(tmp_path: Path) -> None:
    """Reference 7.2; design, section 2."""
    config = load(working=tmp_path, user=tmp_path, environment={})
    assert config == Config()
    assert (config.server.transport, config.server.host, config.server.port) == ("stdio", "127.0.0.1", 8080)
    assert (config.server.auth_enabled, config.server.auth_key) == (False, "")
    assert (config.cache.ttl_hours, config.cache.dir) == (24, None)
    assert (config.fetcher.max_bytes, config.fetcher.timeout_seconds) == (10 * 1024 * 1024, 30)
    assert config.output.max_chars == 40_000


def test_the_file_of_the_design_is_read_whole(tmp_path: Path) -> None:
    """Design, section 2: the YAML it shows; `${...}` is filled in, paths start at the file."""
    (tmp_path / "docs").mkdir()
    config = load(write(tmp_path, EVERYTHING), environment={"SDK_TOKEN": "secret"})
    first, second = (source.library() for source in config.sources)
    assert first.headers == (("Authorization", "Bearer secret"),)
    assert (first.name, first.packages.pypi, first.aliases) == ("Intranet SDK", ("intranet-sdk",), ("isdk",))
    assert (second.name, second.path) == ("local", str(tmp_path / "docs"))
    assert config.fetcher.allowed_private_hosts == ("docs.corp.example:80",)
    assert config.server.transport == "http"


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    """Reference 7.1: PROCONTEXT__CACHE__TTL_HOURS; lists are JSON; nothing is null."""
    config = load(
        write(tmp_path, "cache: {ttl_hours: 2, dir: /x}\nfetcher: {offline: false}"),
        environment={
            "PROCONTEXT__CACHE__TTL_HOURS": "48",
            "PROCONTEXT__CACHE__DIR": "",
            "PROCONTEXT__FETCHER__OFFLINE": "true",
            "PROCONTEXT__FETCHER__ALLOWED_PRIVATE_HOSTS": '["a.corp:8080"]',
            "PROCONTEXT__SERVER__TRANSPORT": "http",
            "PROCONTEXT__SERVER__PORT": "0",
            "PROCONTEXT__SERVER__ALLOWED_HOSTS": '["docs.corp:8080", "*", "[fd00::1]"]',
            "PROCONTEXT__REGISTRY__URL": "https://example.com/registry.json",
            "OTHER": "1",
        },
    )
    assert (config.cache.ttl_hours, config.cache.dir, config.fetcher.offline) == (48, None, True)
    assert config.fetcher.allowed_private_hosts == ("a.corp:8080",)
    assert (config.server.transport, config.server.port) == ("http", 0)
    assert config.server.allowed_hosts == ("docs.corp:8080", "*", "[fd00::1]")
    assert config.registry.url == "https://example.com/registry.json"


# (the file, what is said)
WRONG_FILES = [
    ("cache: {ttl: 1}", "cache.ttl: is no setting; there are ttl_hours, dir"),
    ("cache: {max_bytes: 1000}", "cache.max_bytes: expected int >= 67108864"),
    ("cache: {max_bytes: 1 GB}", "cache.max_bytes: expected int, got str"),
    ("server: {allowed_hosts: a.corp}", "server.allowed_hosts: expected array, got str"),
    ("server: {allowed_hosts: ['']}", "server.allowed_hosts[0]: expected str of length >= 1"),
    ("server: {allowed_hosts: ['https://a.corp']}", "server.allowed_hosts: must be like docs.corp.example"),
    ("server: {allowed_hosts: ['a.corp', 'a.corp/x']}", "not 'a.corp/x'"),
    ("server: {allowed_hosts: ['*.corp']}", "server.allowed_hosts: must be like docs.corp.example"),
    ("casche: {}", "casche: is no setting; there are sources, server"),
    ("sources: [{id: a, path: ., pth: x}]", "sources[0].pth: is no setting"),
    ("cache: {ttl_hours: many}", "cache.ttl_hours: expected float, got str"),
    ("cache: {ttl_hours: 0}", "cache.ttl_hours: expected float > 0"),
    ("output: {max_chars: 7999}", "output.max_chars: expected int >= 8000"),
    ("server: {transport: tcp}", "server.transport: must be one of stdio, http"),
    ("server: {port: 65536}", "server.port: expected int <= 65535"),
    ("cache: 3", "cache: expected object, got int"),
    ("- a", "must hold sections"),
    ("1: a", "must hold sections"),
    ("a: [", "is not YAML"),
    ("sources: [{id: Bad Id, path: .}]", "sources[0].id: expected str matching regex"),
    ("sources: [{id: a}]", "sources[0]: needs a docs_url, an llms_txt_url or a path"),
    ("sources: [{id: a, path: .}, {id: a, path: .}]", "sources[1].id: 'a' is there twice"),
    ("sources: [{id: a, path: ./absent}]", "sources[0].path: there is no folder"),
    ("sources: [{id: a, docs_url: 'file:///x'}]", "sources[0].docs_url: must be an http or https address"),
    (
        "sources: [{id: a, docs_url: 'http://u:p@x/'}]",
        "sources[0].docs_url: must be an http or https address",
    ),
    (
        "sources: [{id: a, path: ., headers: {X: '${ABSENT}'}}]",
        "headers.X: the environment variable ABSENT is not set",
    ),
    ("sources: [{id: a, path: ., headers: {'X Y': a}}]", "headers.X Y: is no header"),
    ('sources: [{id: a, path: ., headers: {X: "a\\nB: c"}}]', "headers.X: is no header"),
    ("fetcher: {allowed_private_hosts: [corp]}", "fetcher.allowed_private_hosts: must be like"),
    ("fetcher: {allowed_private_hosts: ['corp:0']}", "fetcher.allowed_private_hosts: must be like"),
    ("fetcher: {proxy: 'socks5://x'}", "fetcher.proxy: must be an http or https address"),
    ("fetcher: {ca_file: absent.pem}", "fetcher.ca_file: there is no file"),
    ("fetcher: {ca_file: procontext.yaml}", "fetcher.ca_file: "),
    ("fetcher: {ca_file: procontext.yaml}", "holds no certificates in PEM"),
    ("server: {host: 'a host'}", "server.host: must be an address or a name, not 'a host'"),
    ("server: {host: 'localhost:8080/x'}", "server.host: must be an address or a name"),
    ('sources: [{id: "a\\n", path: .}]', "sources[0].id: expected str matching regex"),
    ("registry: {path: absent.json}", "registry.path: there is no file"),
    ("registry: {url: 'ftp://x'}", "registry.url: must be an http or https address"),
    ("cache: {max_bytes: 0x" + "f" * 400 + "}", "cache.max_bytes"),
    ("sources: [{id: a, path: '~nobody-has-this-name/x'}]", "sources[0].path: is no path that can be used"),
]


@pytest.mark.parametrize(("text", "said"), WRONG_FILES)
def test_what_is_wrong_in_a_file_is_refused_by_name(text: str, said: str, tmp_path: Path) -> None:
    """Unknown keys and bad values are refused by name at start, with the file."""
    message = refused(tmp_path, text)
    assert said in message
    assert str(tmp_path / "procontext.yaml") in message


# (variable, value, what is said)
WRONG_VARIABLES = [
    ("CACHE__TTL", "1", "PROCONTEXT__CACHE__TTL: is no setting"),
    ("CASCHE", "1", "PROCONTEXT__CASCHE: is no setting"),
    ("CACHE", "1", "PROCONTEXT__CACHE: names a section, not a setting"),
    ("CACHE__DIR__X", "1", "PROCONTEXT__CACHE__DIR__X: goes deeper than dir"),
    ("CACHE__TTL_HOURS", "x", "PROCONTEXT__CACHE__TTL_HOURS: 'x' cannot be used"),
    ("SERVER__AUTH_ENABLED", "maybe", "PROCONTEXT__SERVER__AUTH_ENABLED: 'maybe' cannot be used"),
    ("FETCHER__ALLOWED_PRIVATE_HOSTS", "a:1", "'a:1' cannot be used: a list as JSON"),
    ("SERVER__TRANSPORT", "tcp", "server.transport: must be one of stdio, http"),
    ("LOGGING__LEVEL", "loud", "logging.level: must be one of debug, info, warning, error"),
    ("SOURCES", "[3]", "sources[0]: expected object, got int"),
    ("SERVER__PORT", "70000", "server.port: expected int <= 65535"),
]


@pytest.mark.parametrize(("name", "value", "said"), WRONG_VARIABLES)
def test_what_is_wrong_in_the_environment_is_refused_by_name(
    name: str, value: str, said: str, tmp_path: Path
) -> None:
    """Reference 7.1: a misspelt variable must not be ignored."""
    message = refused(tmp_path, "", **{PREFIX + name: value})
    assert said in message
    assert "the environment" in message


def test_a_proxy_may_have_a_password(tmp_path: Path) -> None:
    """Design, section 2: corporate proxies."""
    config = load(write(tmp_path, "fetcher: {proxy: 'http://me:pw@proxy:3128'}"), environment={})
    assert config.fetcher.proxy == "http://me:pw@proxy:3128"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "fe80::1%eth0", "0.0.0.0", "localhost", "docs.corp"])
def test_a_host_is_an_address_or_a_name(host: str, tmp_path: Path) -> None:
    config = load(working=tmp_path, user=tmp_path, environment={"PROCONTEXT__SERVER__HOST": host})
    assert config.server.host == host


def test_every_setting_has_a_row_with_its_variable_default_and_help() -> None:
    """The documentation's table is made of these."""
    rows = {row.key: row for row in settings()}
    assert rows["cache.ttl_hours"].variable == "PROCONTEXT__CACHE__TTL_HOURS"
    assert rows["cache.ttl_hours"].default == "24.0"
    assert rows["registry.url"].default == "null"
    assert all(row.help.endswith(".") for row in rows.values())
    assert len(rows) == 22
    assert [row.key for row in rows.values() if row.is_local] == [
        "sources",
        "cache.ttl_hours",
        "output.max_chars",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "sources: [{id: a, docs_url: 'http://me:hunter2@x/'}]",
        "fetcher: {proxy: 'socks5://me:hunter2@x'}",
        "registry: {url: 'ftp://me:hunter2@x'}",
    ],
)
def test_a_password_in_an_address_is_not_repeated_in_the_error(text: str, tmp_path: Path) -> None:
    """Errors go to logs and screens."""
    message = refused(tmp_path, text)
    assert "hunter2" not in message
    assert "one with a user name or password" in message
