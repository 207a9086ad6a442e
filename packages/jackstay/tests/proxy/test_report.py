"""The metrics and the status page of a proxy."""

import pytest

from jackstay.proxy._report import (
    MAX_LINE,
    MAX_LINES,
    Report,
    ServerStatus,
    Snapshot,
    metrics_text,
    status_page,
)

UP = ServerStatus("handshake", "ok", 2)
DOWN = ServerStatus("stateless", "down", 0, "the server <x> exited")
EVIL = "<script>alert(1)</script>&"


def snapshot(*servers: ServerStatus, **more: int) -> Snapshot:
    return Snapshot(name=EVIL, servers=servers, in_flight=3, sessions=4, **more)


def test_state_of_a_snapshot() -> None:
    rows: list[tuple[tuple[ServerStatus, ...], str]] = [
        ((), "ok"),
        ((UP,), "ok"),
        ((UP, DOWN), "down"),
        ((ServerStatus("handshake", "unresponsive", 0), UP), "unresponsive"),
    ]
    for servers, state in rows:
        assert snapshot(*servers).state == state


def test_metrics_text() -> None:
    report = Report()
    report.count("tools/call", "ok", 0.25)
    report.count("tools/call", "lost", 0.5)
    report.count('own"method', "error", 1)
    text = metrics_text(report, snapshot(UP, DOWN, children=2, children_down=1, unattributed=5))
    lines = text.splitlines()
    for line in (
        'jackstay_proxy_calls_total{method="tools/call",outcome="ok"} 1',
        'jackstay_proxy_calls_total{method="tools/call",outcome="lost"} 1',
        'jackstay_proxy_calls_total{method="other",outcome="error"} 1',
        'jackstay_proxy_call_seconds_sum{method="tools/call"} 0.750000',
        'jackstay_proxy_call_seconds_count{method="tools/call"} 2',
        'jackstay_proxy_server_up{era="handshake"} 1',
        'jackstay_proxy_server_up{era="stateless"} 0',
        'jackstay_proxy_server_restarts_total{era="handshake"} 2',
        "jackstay_proxy_in_flight 3",
        "jackstay_proxy_sessions 4",
        "jackstay_proxy_children 2",
        "jackstay_proxy_unattributed_total 5",
    ):
        assert line in lines
    assert text.endswith("\n")


def test_metrics_are_valid_prometheus_text() -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    report = Report()
    report.count("tools/call", "ok", 0.25)
    families = {
        family.name: family.type for family in parser.text_string_to_metric_families(metrics_text(report, snapshot(UP)))
    }
    assert families["jackstay_proxy_calls"] == "counter"
    assert families["jackstay_proxy_call_seconds"] == "summary"
    assert families["jackstay_proxy_server_up"] == "gauge"


def test_status_page_escapes_text_from_servers() -> None:
    report = Report()
    report.count("tools/call", "ok", 0.25)
    report.keep_line(EVIL)
    page = status_page(report, snapshot(UP, DOWN, children=2, children_down=1))
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&amp;" in page
    assert "down: the server &lt;x&gt; exited" in page
    assert "2, 1 down" in page
    assert "calls: ok" in page
    assert "(nothing)" in status_page(Report(), snapshot(UP))


def test_stderr_lines_are_limited() -> None:
    report = Report()
    for number in range(MAX_LINES + 5):
        report.keep_line(f"{number} " + "x" * 10_000)
    assert len(report.lines) == MAX_LINES
    assert report.lines[0].startswith("5 ")
    assert max(map(len, report.lines)) == MAX_LINE


def test_repr_of_a_report_shows_no_stderr_lines() -> None:
    report = Report()
    report.count("tools/call", "ok", 0.25)
    report.keep_line("password=s3cr3t")
    assert repr(report) == "<Report of 1 calls>"
