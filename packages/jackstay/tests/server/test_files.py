"""`server.add_resource()`: texts, files, directories and HTTP documents, and what they do not serve."""

import base64
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jackstay import Client, Server, connect
from jackstay.errors import JsonRpcError, UsageError
from jackstay.server import DirectoryResource, File, FileResource, HttpResource, TextResource, _files
from jackstay.types import BlobResourceContents, EmbeddedResource, TextResourceContents
from scripted.ways import HANDSHAKE, STATELESS, on_port

BOTH = pytest.mark.parametrize("version", [HANDSHAKE, STATELESS])


@asynccontextmanager
async def serving(*sources: Any, version: str = STATELESS, **options: Any) -> AsyncIterator[Client]:
    server = Server("files")
    server.add_resource(*sources, **options)
    async with connect(server, versions=(version,)) as client:
        yield client


async def read(client: Client, uri: str) -> Any:
    (contents,) = (await client.resources.read(uri)).contents
    return contents


async def refused(client: Client, uri: str) -> str:
    with pytest.raises(JsonRpcError) as caught:
        await client.resources.read(uri)
    return caught.value.message


@BOTH
async def test_a_text_and_a_file(tmp_path: Path, version: str) -> None:
    (tmp_path / "a.md").write_text("# a")
    (tmp_path / "b.bin").write_bytes(b"\0\xff")
    sources = [
        TextResource("x://notes/hello", "hello"),
        FileResource(tmp_path / "a.md"),
        FileResource(tmp_path / "b.bin", uri="x://b", mime_type="application/x-b"),
    ]
    async with serving(*sources, version=version) as client:
        listed = {resource.name: resource.uri for resource in await client.resources.list()}
        assert listed == {"hello": "x://notes/hello", "a.md": (tmp_path / "a.md").as_uri(), "b.bin": "x://b"}
        assert (await read(client, "x://notes/hello")).text == "hello"
        text = await read(client, listed["a.md"])
        assert (text.text, text.mime_type) == ("# a", "text/markdown")
        blob = await read(client, "x://b")
        assert (base64.b64decode(blob.blob), blob.mime_type) == (b"\0\xff", "application/x-b")
        (tmp_path / "a.md").write_text("# changed")
        assert (await read(client, listed["a.md"])).text == "# changed"
        (tmp_path / "a.md").unlink()
        assert await refused(client, listed["a.md"]) == "resource not found"


@BOTH
async def test_the_files_below_a_directory_and_nothing_else(tmp_path: Path, version: str) -> None:
    docs, secret = tmp_path / "docs", tmp_path / "secret.txt"
    (docs / "in" / "deep").mkdir(parents=True)
    secret.write_text("secret")
    (docs / "a b.txt").write_text("a")
    (docs / "in" / "deep" / "c.txt").write_text("c")
    (docs / ".env").write_text("TOKEN=1")
    (docs / ".git").mkdir()
    (docs / ".git" / "config").write_text("x")
    (docs / "link.txt").symlink_to(secret)
    (docs / "up").symlink_to(tmp_path)
    os.mkfifo(docs / "pipe")
    async with serving(DirectoryResource(docs, uri="files://docs/"), version=version) as client:
        assert json.loads((await read(client, "files://docs")).text) == ["a b.txt", "in/deep/c.txt"]
        (template,) = await client.resources.templates()
        assert template.uri_template == "files://docs{/path*}"
        uri = template.expand({"path": ["in", "deep", "c.txt"]})
        assert (await read(client, uri)).text == "c"
        assert (await read(client, template.expand({"path": "a b.txt"}))).text == "a"
        for path in (
            "link.txt", "up/secret.txt", "../secret.txt", "in/../../secret.txt", "%2e%2e/secret.txt", "..%2Fsecret.txt",
            "/etc/passwd", ".env", ".git/config", "in", "absent", "in//deep/c.txt", "pipe", "a%00", "a\\\\b", "a%5Cb",
        ):  # fmt: skip
            assert await refused(client, f"files://docs/{path}") == "resource not found", path


async def test_files_are_limited_in_size_and_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_files, "MAX_FILES", 2)
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text("12345")
    async with serving(DirectoryResource(tmp_path, uri="f://d", max_bytes=4)) as client:
        assert json.loads((await read(client, "f://d")).text) == ["a", "b"]
        assert "larger than 4 bytes" in await refused(client, "f://d/a")


async def test_where_directories_cannot_be_walked_links_are_resolved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_files, "_CAN_WALK", False)
    monkeypatch.setattr(_files, "_NO_FOLLOW", 0)
    (tmp_path / "a").write_text("a")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    async with serving(DirectoryResource(tmp_path, uri="f://d")) as client:
        assert (await read(client, "f://d/a")).text == "a"
        assert await refused(client, "f://d/link") == "resource not found"


def app(path_status: dict[str, tuple[int, bytes]]) -> Any:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        status, body = path_status[scope["path"]]
        headers = [(b"content-type", b"text/html; charset=utf-8"), (b"location", b"/ok")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return application


async def test_an_http_document_by_permission() -> None:
    answers = {
        "/ok": (200, b"<p>"),
        "/moved": (302, b""),
        "/gone": (404, b""),
        "/down": (500, b""),
        "/big": (200, b"1" * 9),
    }
    async with on_port(app(answers), lifespan="off") as port:
        origin = f"http://127.0.0.1:{port}"
        sources = [HttpResource(origin + path, allow={origin}, uri=f"x:/{path}", max_bytes=8) for path in answers]
        async with serving(*sources) as client:
            page = await read(client, "x://ok")
            assert (page.text, page.mime_type) == ("<p>", "text/html")
            assert "HTTP 302" in await refused(client, "x://moved")
            assert "HTTP 500" in await refused(client, "x://down")
            assert await refused(client, "x://gone") == "resource not found"
            assert "larger than 8 bytes" in await refused(client, "x://big")
    async with serving(HttpResource(f"{origin}/ok", allow=origin, mime_type="text/x")) as client:
        assert "the request failed" in await refused(client, f"{origin}/ok")


def test_bad_values_are_errors_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="may not request http://a: add it to allow"):
        HttpResource("http://a/b", allow=["http://b"])
    for url in ("file:///etc/passwd", "http://u:p@a/", "http:///x"):
        with pytest.raises(UsageError, match="expected an http or https URL"):
            HttpResource(url, allow=["http://a"])
    with pytest.raises(UsageError, match="found no file"):
        FileResource(tmp_path)
    with pytest.raises(UsageError, match="found no directory"):
        DirectoryResource(tmp_path / "absent", uri="x://d")
    server = Server("x")
    with pytest.raises(UsageError, match="unexpected option 'nme'"):
        server.add_resource(TextResource("x://a", "a"), nme="b")  # type: ignore[call-arg]
    server.add_resource(TextResource("x://a", "a"), name="b", tags={"t"})
    assert server.catalogue.resources["x://a"].body.name == "b"
    with pytest.raises(UsageError, match="duplicate entry in resources: 'x://a'"):
        server.add_resource(TextResource("x://b", "b"), TextResource("x://a", "a"))
    assert list(server.catalogue.resources) == ["x://a"]


@BOTH
async def test_a_file_is_an_embedded_resource(version: str) -> None:
    server = Server("x")

    @server.tool
    async def report() -> list[File]:
        return [File(b"\x89PNG", "image/png", name="a b.png"), File("text"), File(b"x")]

    async with connect(server, versions=(version,)) as client:
        (tool,) = await client.tools.list()
        assert tool.output_schema is None
        result = await client.tools.call("report")
    blocks = [block.resource for block in result.content if isinstance(block, EmbeddedResource)]
    assert blocks == [
        BlobResourceContents(uri="file:///a%20b.png", mime_type="image/png", blob="iVBORw=="),
        TextResourceContents(uri="file:///file", mime_type="text/plain", text="text"),
        BlobResourceContents(uri="file:///file", mime_type="application/octet-stream", blob="eA=="),
    ]


async def test_query_variables_are_optional_parameters() -> None:
    server = Server("x")

    @server.resource("notes://search{?text,limit}")
    def search(text: str, limit: int = 3) -> str:
        return f"{text} {limit}"

    async with connect(server) as client:
        (template,) = await client.resources.templates()
        assert (await read(client, template.expand({"text": "a b", "limit": 5}))).text == "a b 5"
        assert (await read(client, template.expand({"text": "a"}))).text == "a 3"
        assert await refused(client, "notes://search") == "resource not found"
        assert await refused(client, "notes://search?text=a&limit=many") == "resource not found"
