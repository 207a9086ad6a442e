"""Prometheus metrics with the real library and one registry per test."""

import asyncio
import sys
from typing import Any

import pytest

from jackstay.client import prometheus
from jackstay.client._prometheus import METRICS
from jackstay.errors import JsonRpcError, TimeoutError, UsageError
from jackstay.testing import ScriptedError, on_fake_clock
from scripted.peer import opened, peered, text_result
from scripted.places import ROOT

library = pytest.importorskip("prometheus_client")


def test_what_happens_is_counted_by_method_outcome_and_state() -> None:
    registry = library.CollectorRegistry()

    def value(name: str, **labels: str) -> Any:
        return registry.get_sample_value(name, {"client": "scripted", **labels})

    def requests(method: str, outcome: str) -> Any:
        return value("jackstay_client_requests_total", method=method, outcome=outcome)

    @on_fake_clock
    async def test() -> None:
        async with peered() as (client, peer):
            client.on_event(prometheus(registry))
            await client.open()
            peer.on["tools/call"] = text_result("hi")
            await client.tools.call("x")
            await client.tools.call("y")

            def refuse(params: Any) -> None:
                raise ScriptedError(-32602)

            peer.on["tools/call"] = refuse
            with pytest.raises(JsonRpcError):
                await client.tools.call("x")
            peer.on["tools/call"] = None
            with pytest.raises(TimeoutError):
                await client.tools.call("x", timeout=1)
            call = client.submit("tools/call", {"name": "x"})
            call.cancel()
            own = client.submit("acme/secret-of-tenant-7")
            (await peer.expect("acme/secret-of-tenant-7")).respond()
            await own
            peer.send(b"Debugger attached.")
            await client.ping()
            peer.crash()
            await asyncio.sleep(0)
            while client.state != "backoff":
                await asyncio.sleep(0)
            await client.ready()

    test()
    assert requests("tools/call", "ok") == 2
    assert requests("tools/call", "jsonrpc") == 1
    assert requests("tools/call", "timeout") == 1
    assert requests("tools/call", "cancelled") == 1
    assert requests("other", "ok") == 1, "methods that MCP does not define share one label"
    assert value("jackstay_client_request_seconds_count", method="tools/call") == 5
    assert value("jackstay_client_transitions_total", state="ready") == 2
    assert value("jackstay_client_transitions_total", state="backoff") == 1
    assert value("jackstay_client_reconnects_total") == 1
    assert value("jackstay_client_violations_total") == 1
    names = {sample.name for metric in registry.collect() for sample in metric.samples}
    assert {name for name in names if name in METRICS or name.endswith("_seconds_bucket")} == {
        *(set(METRICS) - {"jackstay_client_request_seconds"}),
        "jackstay_client_request_seconds_bucket",
    }


@on_fake_clock
async def test_clients_share_a_registry_and_are_distinguished_by_name() -> None:
    registry = library.CollectorRegistry()
    async with opened(name="one") as (one, _), opened(name="two") as (two, _):
        one.on_event(prometheus(registry))
        two.on_event(prometheus(registry))
        await one.ping()
        await two.ping()
        await two.ping()
    counted = [
        registry.get_sample_value("jackstay_client_requests_total", {"client": name, "method": "ping", "outcome": "ok"})
        for name in ("one", "two")
    ]
    assert counted == [1, 2]


def test_the_default_registry_is_the_global_one(monkeypatch: pytest.MonkeyPatch) -> None:
    own_registry = library.CollectorRegistry()
    monkeypatch.setattr(library, "REGISTRY", own_registry)
    prometheus()("jackstay.protocol.violation", {"client": "c", "reason": "x", "frame_size": 1})
    assert own_registry.get_sample_value("jackstay_client_violations_total", {"client": "c"}) == 1


def test_without_the_library_the_error_explains_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(UsageError, match="pip install prometheus-client"):
        prometheus()


def test_the_page_names_every_metric_with_its_labels() -> None:
    page = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
    for name, (_, _, labels) in METRICS.items():
        assert f"| `{name}` | {', '.join(f'`{label}`' for label in labels)}".rstrip() in page
