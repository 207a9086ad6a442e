"""Settings from files and the environment."""

from pathlib import Path

import pytest

from procontext.config import PREFIX, Config, Source, SourcePackages, load, settings
from procontext.errors import ConfigError
from procontext.models import Packages

COMPLETE = """
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
fetcher:
  {allowed_private_hosts: ["docs.corp.example:80"], max_bytes: 10485760, ca_file: null, proxy: null, offline: false}
output: {max_chars: 40000}
server: {transport: http, host: "127.0.0.1", port: 8080, auth_enabled: false, auth_key: ""}
"""


def write(folder: Path, text: str) -> str:
    file = folder / "procontext.yaml"
    file.write_text(text)
    return str(file)


def load_error(folder: Path, text: str, **environment: str) -> str:
    with pytest.raises(ConfigError) as raised:
        load(write(folder, text), environment=environment)
    return str(raised.value)


def test_defaults(tmp_path: Path) -> None:
    config = load(working=tmp_path, user=tmp_path, environment={})
    assert config == Config()
    assert (config.server.transport, config.server.host, config.server.port) == ("stdio", "127.0.0.1", 8080)
    assert (config.server.auth_enabled, config.server.auth_key) == (False, "")
    assert (config.cache.ttl_hours, config.cache.dir) == (24, None)
    assert (config.fetcher.max_bytes, config.fetcher.timeout_seconds) == (10 * 1024 * 1024, 30)
    assert config.output.max_chars == 40_000


def test_complete_file(tmp_path: Path) -> None:
    """`${...}` is expanded, and paths are relative to the file."""
    (tmp_path / "docs").mkdir()
    config = load(write(tmp_path, COMPLETE), environment={"SDK_TOKEN": "secret"})
    first, second = (source.library() for source in config.sources)
    assert first.headers == (("Authorization", "Bearer secret"),)
    assert (first.name, first.packages.pypi, first.aliases) == ("Intranet SDK", ("intranet-sdk",), ("isdk",))
    assert (second.name, second.path) == ("local", str(tmp_path / "docs"))
    assert config.fetcher.allowed_private_hosts == ("docs.corp.example:80",)
    assert config.server.transport == "http"


def test_environment_overrides_file(tmp_path: Path) -> None:
    """Lists are JSON, and an empty value is null."""
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


# (file, error)
FILE_ERRORS = [
    ("cache: {ttl: 1}", "cache.ttl: unknown setting; valid settings: ttl_hours, dir"),
    ("cache: {max_bytes: 1000}", "cache.max_bytes: expected int >= 67108864"),
    ("cache: {max_bytes: 1 GB}", "cache.max_bytes: expected int, got str"),
    ("server: {allowed_hosts: a.corp}", "server.allowed_hosts: expected array, got str"),
    ("server: {allowed_hosts: ['']}", "server.allowed_hosts[0]: expected str of length >= 1"),
    (
        "server: {allowed_hosts: ['https://a.corp']}",
        "server.allowed_hosts: must be a host name such as 'docs.corp.example'",
    ),
    ("server: {allowed_hosts: ['a.corp', 'a.corp/x']}", "not 'a.corp/x'"),
    ("server: {allowed_hosts: ['*.corp']}", "must be a host name such as 'docs.corp.example', not '*.corp'"),
    ("casche: {}", "casche: unknown setting; did you mean 'cache'?"),
    ("xyzzy: {}", "xyzzy: unknown setting; valid settings: sources, server"),
    ("sources: [{id: a, path: ., pth: x}]", "sources[0].pth: unknown setting; did you mean 'path'?"),
    ("cache: {ttl_hours: many}", "cache.ttl_hours: expected float, got str"),
    ("cache: {ttl_hours: 0}", "cache.ttl_hours: expected float > 0"),
    ("output: {max_chars: 7999}", "output.max_chars: expected int >= 8000"),
    ("server: {transport: tcp}", "server.transport: must be one of stdio, http"),
    ("server: {port: 65536}", "server.port: expected int <= 65535"),
    ("cache: 3", "cache: expected object, got int"),
    ("- a", "must contain sections"),
    ("1: a", "must contain sections"),
    ("a: [", "invalid YAML"),
    ("sources: [{id: Bad Id, path: .}]", "sources[0].id: expected str matching regex"),
    ("sources: [{id: a}]", "sources[0]: docs_url, llms_txt_url or path is required"),
    ("sources: [{id: a, path: .}, {id: a, path: .}]", "sources[1].id: duplicate id 'a'"),
    ("sources: [{id: a, path: ./absent}]", "sources[0].path: folder not found: "),
    ("sources: [{id: a, docs_url: 'file:///x'}]", "sources[0].docs_url: must be an http or https URL"),
    (
        "sources: [{id: a, docs_url: 'http://u:p@x/'}]",
        "sources[0].docs_url: must be an http or https URL",
    ),
    (
        "sources: [{id: a, path: ., headers: {X: '${ABSENT}'}}]",
        "headers.X: the environment variable ABSENT is not set",
    ),
    ("sources: [{id: a, path: ., headers: {'X Y': a}}]", "headers.X Y: invalid header"),
    ('sources: [{id: a, path: ., headers: {X: "a\\nB: c"}}]', "headers.X: invalid header"),
    (
        "fetcher: {allowed_private_hosts: [corp]}",
        "fetcher.allowed_private_hosts: must be a host and a port such as 'docs.corp.example:443', not 'corp",
    ),
    (
        "fetcher: {allowed_private_hosts: ['corp:0']}",
        "fetcher.allowed_private_hosts: must be a host and a port such as 'docs.corp.example:443', not 'corp",
    ),
    ("fetcher: {proxy: 'socks5://x'}", "fetcher.proxy: must be an http or https URL"),
    ("fetcher: {ca_file: absent.pem}", "fetcher.ca_file: file not found: "),
    ("fetcher: {ca_file: procontext.yaml}", "fetcher.ca_file: "),
    ("fetcher: {ca_file: procontext.yaml}", "contains no PEM certificates"),
    ("server: {host: 'a host'}", "server.host: must be an IP address or a host name, not 'a host'"),
    ("server: {host: 'localhost:8080/x'}", "server.host: must be an IP address or a host name"),
    ('sources: [{id: "a\\n", path: .}]', "sources[0].id: expected str matching regex"),
    ("registry: {path: absent.json}", "registry.path: file not found: "),
    ("registry: {url: 'ftp://x'}", "registry.url: must be an http or https URL"),
    ("cache: {max_bytes: 0x" + "f" * 400 + "}", "cache.max_bytes"),
    ("sources: [{id: a, path: '~nobody-has-this-name/x'}]", "sources[0].path: invalid path '~nobody-has-this-name/x'"),
]


def test_errors_in_a_file(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for text, problem in FILE_ERRORS:
        with subtests.test(text=text):
            message = load_error(tmp_path, text)
            assert problem in message
            assert str(tmp_path / "procontext.yaml") in message


# (variable, value, error)
VARIABLE_ERRORS = [
    ("CACHE__TTL", "1", "PROCONTEXT__CACHE__TTL: unknown setting"),
    ("CASCHE", "1", "PROCONTEXT__CASCHE: unknown setting; did you mean 'cache'?"),
    ("CACHE", "1", "PROCONTEXT__CACHE: names a section, not a setting"),
    ("CACHE__DIR__X", "1", "PROCONTEXT__CACHE__DIR__X: 'dir' is a setting, not a section"),
    ("CACHE__TTL_HOURS", "x", "PROCONTEXT__CACHE__TTL_HOURS: invalid value 'x'"),
    ("SERVER__AUTH_ENABLED", "maybe", "PROCONTEXT__SERVER__AUTH_ENABLED: invalid value 'maybe'"),
    ("FETCHER__ALLOWED_PRIVATE_HOSTS", "a:1", "invalid value 'a:1': expected a JSON list"),
    ("SERVER__TRANSPORT", "tcp", "server.transport: must be one of stdio, http"),
    ("LOGGING__LEVEL", "loud", "logging.level: must be one of debug, info, warning, error"),
    ("SOURCES", "[3]", "sources[0]: expected object, got int"),
    ("SERVER__PORT", "70000", "server.port: expected int <= 65535"),
]


def test_errors_in_the_environment(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name, value, problem in VARIABLE_ERRORS:
        with subtests.test(name=name):
            message = load_error(tmp_path, "", **{PREFIX + name: value})
            assert problem in message
            assert "the environment" in message


def test_proxy_with_password(tmp_path: Path) -> None:
    config = load(write(tmp_path, "fetcher: {proxy: 'http://me:pw@proxy:3128'}"), environment={})
    assert config.fetcher.proxy == "http://me:pw@proxy:3128"


def test_host_is_an_address_or_a_name(tmp_path: Path) -> None:
    for host in ("127.0.0.1", "::1", "fe80::1%eth0", "0.0.0.0", "localhost", "docs.corp"):
        config = load(working=tmp_path, user=tmp_path, environment={"PROCONTEXT__SERVER__HOST": host})
        assert config.server.host == host


def test_settings_table() -> None:
    """The tables of the documentation are generated from these rows."""
    rows = {row.key: row for row in settings()}
    assert rows["cache.ttl_hours"].variable == "PROCONTEXT__CACHE__TTL_HOURS"
    assert rows["cache.ttl_hours"].default == "24.0"
    assert rows["registry.url"].default == "null"
    assert all(row.help.endswith(".") for row in rows.values())
    assert len(rows) == 31
    assert [row.key for row in rows.values() if row.is_local] == [
        "sources",
        "cache.ttl_hours",
        "output.max_chars",
    ]


def test_passwords_are_not_in_errors(tmp_path: Path) -> None:
    for text in (
        "sources: [{id: a, docs_url: 'http://me:hunter2@x/'}]",
        "fetcher: {proxy: 'socks5://me:hunter2@x'}",
        "registry: {url: 'ftp://me:hunter2@x'}",
    ):
        message = load_error(tmp_path, text)
        assert "hunter2" not in message
        assert "a URL with a user name or password" in message


def test_log_level_in_capitals(tmp_path: Path) -> None:
    assert load(write(tmp_path, "logging: {level: WARNING}"), environment={}).logging.level == "warning"


def test_source_names_packages_of_every_index() -> None:
    indexes = {name: (name,) for name in Packages.__struct_fields__}
    source = Source(id="lib", packages=SourcePackages(**indexes))
    assert source.library().packages == Packages(**indexes)
