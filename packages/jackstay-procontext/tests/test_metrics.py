"""The numbers: what is counted, how it is written, and who may read it."""

import pytest

from jackstay.server.http import BearerAuth, keys
from procontext.metrics import PATH, Metrics, MetricsApp
from scripted.asgi import asking
from scripted.loop import timed

KEY = "a-key-of-more-than-16-characters"


def counted() -> Metrics:
    metrics = Metrics()
    metrics.count("resolve_library", "ok", 0.0002)
    metrics.count("resolve_library", "ok", 0.0002)
    metrics.count("read_page", "PAGE_NOT_FOUND", 99.0)
    return metrics


def test_calls_are_counted_by_tool_and_outcome() -> None:
    """Prometheus text format 0.0.4: cumulative buckets, sum and count."""
    text = counted().text({"registry_libraries": 478})
    assert 'procontext_tool_calls_total{tool="resolve_library",outcome="ok"} 2\n' in text
    assert 'procontext_tool_calls_total{tool="read_page",outcome="PAGE_NOT_FOUND"} 1\n' in text
    assert 'procontext_tool_seconds_bucket{tool="resolve_library",le="0.0005"} 2\n' in text
    assert 'procontext_tool_seconds_bucket{tool="read_page",le="30.0"} 0\n' in text
    assert 'procontext_tool_seconds_bucket{tool="read_page",le="+Inf"} 1\n' in text
    assert 'procontext_tool_seconds_sum{tool="read_page"} 99.000000\n' in text
    assert text.endswith("procontext_registry_libraries 478\n")
    assert repr(counted()) == "<Metrics of 3 calls>"
    assert "{" not in Metrics().text()


async def inner(scope: object, receive: object, send: object) -> None:
    assert callable(send)
    await send({"type": "http.response.start", "status": 418, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", PATH, 200),
        ("HEAD", PATH, 200),
        ("POST", PATH, 418),
        ("GET", "/metrics/x", 418),
        ("GET", "/mcp", 418),
    ],
)
def test_only_its_own_path_is_answered(method: str, path: str, status: int) -> None:
    """Everything else is the endpoint's."""

    @timed
    async def check() -> None:
        async with asking(MetricsApp(inner, counted(), lambda: {"x": 1}, None), path=path) as http:
            answer = await http.ask(method)
        assert answer.status == status
        if status == 200:
            assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
            assert (b"procontext_x 1" in answer.body) is (method == "GET")

    check()


@timed
async def test_with_a_key_the_numbers_need_it_too() -> None:
    """The same guard as the endpoint's."""
    app = MetricsApp(inner, counted(), dict, BearerAuth(keys(KEY)))
    async with asking(app, path=PATH) as http:
        refused = await http.ask("GET")
        assert (refused.status, b"procontext_tool" in refused.body) == (401, False)
        assert refused.headers["www-authenticate"].startswith("Bearer")
        assert (await http.ask("GET", headers={"authorization": f"Bearer {KEY}"})).status == 200
