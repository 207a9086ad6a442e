"""The command and its exit codes."""

import json
import logging
import os
import re
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import apcore_mcp.cli._main as module
from apcore_mcp.cli import main
from apcore_mcp.cli._flags import FLAGS, SHELLS
from scripted.terminal import bash_answers

Listening = Callable[[int], bool]


BAD = [
    (["--extensions-dir", "/does/not/exist"], "--extensions-dir: '/does/not/exist' does not exist"),
    (["--extensions-dir", __file__], "is not a directory"),
    (["--extensions-dir", ""], "--extensions-dir must not be empty"),  # not the working directory
    (["--extensions-dir", ".", "--bindings", ""], "--bindings must not be empty"),
    (["--extensions-dir", ".", "--bindings", "/nowhere"], "--bindings: '/nowhere' does not exist"),
    (["--extensions-dir", ".", "--port", "eighty"], "--port must be an int from 1 to 65535, not 'eighty'"),
    (["--extensions-dir", ".", "--port", "0"], "--port must be an int from 1 to 65535, not 0"),
    (["--extensions-dir", ".", "--port", "65536"], "port must be"),
    (["--extensions-dir", ".", "--host", ""], "host must not be empty"),
    (["--extensions-dir", ".", "--name", ""], "name must not be empty"),
    (["--extensions-dir", ".", "--name", "x" * 256], "--name exceeds maximum length: 256 characters"),
    (["--extensions-dir", "EMPTY", "--version", ""], "version must not be empty"),
    (["--extensions-dir", "EMPTY", "--prefix", ""], "prefix must not be empty"),
    (["--extensions-dir", "EMPTY", "--tags", ","], "tags"),
    (["--extensions-dir", "EMPTY", "--inspector-prefix", "x"], "--inspector-prefix must be a path"),
    (
        ["--extensions-dir", "EMPTY", "--auth-key-env", "NO_SUCH"],
        "the environment variable NO_SUCH is not set or empty",
    ),
]


def test_missing_directory_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    """As argparse does for a required flag, and apcore-mcp."""
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert (out, err.partition(":")[0]) == ("", "apcore-mcp")
    assert "a backend source is required: --extensions-dir" in err


def test_bad_values_exit_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests) -> None:
    for arguments, problem in BAD:
        with subtests.test(arguments=arguments):
            assert main([str(tmp_path) if argument == "EMPTY" else argument for argument in arguments]) == 1
            out, err = capsys.readouterr()
            assert out == ""
            assert err.startswith("apcore-mcp: ")
            assert problem in err


def test_unreadable_directory_exits_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.os, "access", lambda path, mode: False)  # root can read everything
    assert main(["--extensions-dir", str(tmp_path)]) == 1
    assert "is not readable" in capsys.readouterr().err


def test_short_key_is_rejected_and_not_shown(
    modules: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHORT", "abc")
    assert main(["--extensions-dir", str(modules), "--auth-key-env", "SHORT"]) == 1
    err = capsys.readouterr().err
    assert "--auth-key-env" in err
    assert "abc" not in err


def test_startup_failure_exits_with_2(
    modules: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("failure")

    monkeypatch.setattr(module, "_serve", fail)
    assert main(["--extensions-dir", str(modules)]) == 2
    assert "cannot start: RuntimeError: failure (for the traceback: --log-level DEBUG)" in capsys.readouterr().err


def test_interrupt_during_start_exits_with_0(modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_serve", interrupt)
    assert main(["--extensions-dir", str(modules)]) == 0


def test_flags_become_options(modules: Path, monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    served: list[Any] = []
    monkeypatch.setattr(module, "_serve", lambda loaded, options, _: served.append(options))
    monkeypatch.setenv("KEY", "k" * 40)
    arguments = [
        "--extensions-dir", str(modules), "--transport", "sse", "--host", "0.0.0.0", "--port", str(port),
        "--name", "n", "--version", "3", "--tags", "a,b", "--prefix", "p.", "--dynamic", "--validate-inputs",
        "--approval", "allow", "--explorer", "--inspector-prefix", "/scan", "--metrics", "--cors", "https://a.b",
        "--allow-host", "example.org", "--auth-key-env", "KEY", "--log-level", "ERROR",
    ]  # fmt: skip
    assert main(arguments) == 0
    (options,) = served
    assert (options.transport, options.host, options.port) == ("sse", "0.0.0.0", port)
    assert (options.name, options.version, options.tags, options.prefix) == ("n", "3", ["a", "b"], "p.")
    assert (options.dynamic, options.validate_inputs, options.approval) == (True, True, "allow")
    assert (options.explorer, options.inspector_prefix, options.metrics) == (True, "/scan", True)
    assert list(options.cors) == ["https://a.b"]
    assert "example.org" in options.hosts
    assert "localhost" in options.hosts
    assert options.auth is not None


def test_empty_variables_leave_the_settings_of_the_file(
    modules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(module, "_serve", lambda _, options, *__: seen.append(options))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "apcore.yaml").write_text("mcp: {explorer: true, validate_inputs: true, host: localhost}\n")
    for name in ("EXPLORER", "VALIDATE_INPUTS", "HOST", "NO_JWT_REQUIRE_AUTH"):
        monkeypatch.setenv(f"APCORE_MCP_{name}", "")
    assert main(["--extensions-dir", str(modules)]) == 0
    (options,) = seen
    assert (options.explorer, options.validate_inputs, options.host) == (True, True, "localhost")


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_directories_are_watched_only_with_dynamic(
    modules: Path, monkeypatch: pytest.MonkeyPatch, is_dynamic: bool
) -> None:
    """`--dynamic` watches the directories only while serving."""
    (modules / "broken.py").write_text("def x(:\n")
    seen: list[Any] = []

    def run(self: Any, server: Any, *where: Any) -> None:
        seen.append([thread.name for thread in threading.enumerate()])
        seen.append(sorted(server.catalogue.tools))

    monkeypatch.setattr("apcore_mcp.server.TransportManager.run", run)
    assert main(["--extensions-dir", str(modules), *(["--dynamic"] if is_dynamic else [])]) == 0
    assert ("apcore-mcp-watch" in seen[0]) is is_dynamic
    assert seen[1] == ["math.add"]
    assert "apcore-mcp-watch" not in [thread.name for thread in threading.enumerate()]


# --- instead of serving -----------------------------------------------------------------------------------------------


def test_check_lists_served_and_skipped_modules(modules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 1 if a module is skipped."""
    assert main(["--extensions-dir", str(modules), "--check", "--log-level", "ERROR"]) == 0
    assert capsys.readouterr().out == "TOOL      STATUS  DETAILS\nmath.add  ok\n1 served, 0 skipped\n"
    (modules / "broken.py").write_text("def x(:\n")
    (modules / "stream.py").write_text(
        "from apcore import ModuleAnnotations\nfrom pydantic import BaseModel, Field\n"
        "class In(BaseModel):\n    p: str = Field(json_schema_extra={'x-sensitive': True})\n"
        "class Out(BaseModel):\n    pass\n"
        "class S:\n    input_schema = In\n    output_schema = Out\n    description = 's'\n"
        "    annotations = ModuleAnnotations(requires_approval=True, streaming=True)\n"
        "    def execute(self, inputs, context): return {}\n"
        "    async def stream(self, inputs, context):\n        yield {}\n"
    )
    assert main(["--extensions-dir", str(modules), "--check", "--log-level", "ERROR"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:3] == [
        "math.add  ok",
        "stream    ok       streaming, requires approval, has sensitive fields",
    ]
    assert re.match(r"broken    skipped  .*invalid syntax", lines[3])
    assert lines[4] == "2 served, 1 skipped"


@pytest.mark.parametrize("shape", ["openai", "openai-responses", "anthropic"])
def test_export_prints_json_and_nothing_else(modules: Path, capsys: pytest.CaptureFixture[str], shape: str) -> None:
    assert main(["--extensions-dir", str(modules), "--export", shape, "--strict", "--tags", "math"]) == 0
    (tool,) = json.loads(capsys.readouterr().out)
    assert "math-add" in json.dumps(tool)
    assert main(["--extensions-dir", str(modules), "--export", shape, "--tags", "none"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_output_of_modules_goes_to_stderr(modules: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """This includes the output of programs that a module starts."""
    module = modules / "math" / "add.py"
    loud = "import os\nprint('printed')\nos.write(1, b'written\\n')\nos.system('echo started')\n"
    module.write_text(loud + module.read_text())
    assert main(["--extensions-dir", str(modules), "--export", "openai"]) == 0
    out, err = capfd.readouterr()
    assert len(json.loads(out)) == 1
    assert {"printed", "written", "started"} <= set(err.splitlines())


def test_closed_stdout(modules: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(_: int) -> int:
        raise OSError("Bad file descriptor")

    monkeypatch.setattr(module.os, "dup", closed)
    assert main(["--extensions-dir", str(modules), "--check"]) == 0
    assert "1 served" in capsys.readouterr().out


def test_print_config_is_json_for_the_client(modules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--extensions-dir", str(modules), "--print-config", "claude-desktop"]) == 0
    out, err = capsys.readouterr()
    server = json.loads(out)["mcpServers"]["apcore-mcp"]
    assert server["args"] == ["-m", "apcore_mcp", "--extensions-dir", str(modules)]
    assert "claude_desktop_config.json" in err


def test_the_server_is_installed_in_a_client_and_removed(
    modules: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / ".cursor" / "mcp.json"
    for _ in range(2):  # the second replaces the first
        assert main(["--extensions-dir", str(modules), "--install", "cursor"]) == 0
    server = json.loads(path.read_text())["mcpServers"]["apcore-mcp"]
    assert server["args"] == ["-m", "apcore_mcp", "--extensions-dir", str(modules)]
    out = capsys.readouterr().out
    assert '+    "apcore-mcp": {' in out
    assert f"added 'apcore-mcp' to Cursor: {path}" in out
    assert main(["--uninstall", "cursor"]) == 0
    assert json.loads(path.read_text())["mcpServers"] == {}
    assert main(["--uninstall", "cursor"]) == 1
    assert f"{path} has no server 'apcore-mcp'" in capsys.readouterr().err


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_needs_no_directory(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The script contains every flag."""
    assert main(["--print-completion", shell]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert [flag.name for flag in FLAGS if flag.name not in out] == []


# The command line and its completions.
LINES = {
    "apcore-mcp --ext": ["--extensions-dir"],
    "apcore-mcp --transport s": ["sse", "stdio", "streamable-http"],
    "apcore-mcp --extensions-dir mod": ["modules"],
    "apcore-mcp --export openai-": ["openai-responses"],
    "apcore-mcp --print-config cu": ["cursor"],
    "apcore-mcp ''": [],
}


def test_bash_completion(modules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--print-completion", "bash"]) == 0
    completions = bash_answers(capsys.readouterr().out, "apcore-mcp", LINES, modules.parent)
    assert dict(zip(LINES, map(sorted, completions), strict=True)) == LINES


def test_check_does_not_log_what_it_prints(
    modules: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    (modules / "broken.py").write_text("import no_such_package", encoding="utf-8")
    assert main(["--extensions-dir", str(modules), "--check"]) == 1
    assert capsys.readouterr().out.count("no_such_package") == 1
    assert "no_such_package" not in caplog.text


def test_check_logs_directories_that_cannot_be_read(
    modules: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are not modules, so the table does not have them. (Permissions do not apply to the user root.)"""
    (modules / "closed").mkdir()
    scan = os.scandir

    def refuse(path: Any = ".") -> Any:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert main(["--extensions-dir", str(modules), "--check"]) == 0
    assert "Permission denied scanning" in capsys.readouterr().err


def test_check_without_matching_modules(modules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--extensions-dir", str(modules), "--check", "--tags", "nosuch"]) == 0
    out, err = capsys.readouterr()
    assert out == "0 served, 0 skipped\n"
    assert "none of the 1 modules matches --tags and --prefix" in err


def test_http_flags_are_reported_with_stdio(
    modules: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Host and port are ignored silently."""
    monkeypatch.setattr(module, "_serve", lambda *_: None)
    monkeypatch.setattr(module, "_set_up_logging", lambda level: None)
    assert main(["--extensions-dir", str(modules), "--explorer", "--metrics", "--port", "8001"]) == 0
    assert caplog.messages == [
        "--explorer has no effect with stdio; add --transport streamable-http",
        "--metrics has no effect with stdio; add --transport streamable-http",
    ]


@pytest.mark.parametrize(("host", "address"), [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::1", "[::1]")])
def test_inspector_url_is_logged(
    modules: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    host: str,
    address: str,
) -> None:
    monkeypatch.setattr("apcore_mcp.server.TransportManager.run", lambda *_: None)
    monkeypatch.setattr(module, "_set_up_logging", lambda level: None)
    caplog.set_level(logging.INFO)
    where = ["--transport", "streamable-http", "--host", host, "--port", "8765"]
    assert main(["--extensions-dir", str(modules), *where, "--explorer", "--inspector-prefix", "/scan"]) == 0
    assert f"Tool Inspector: http://{address}:8765/scan" in caplog.messages


def test_output_error_exits_with_1(
    modules: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is not a startup failure."""

    def fail(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "_print_export", fail)
    assert main(["--extensions-dir", str(modules), "--export", "openai"]) == 1
    assert capsys.readouterr().err.endswith("apcore-mcp: [Errno 28] No space left on device\n")


def test_broken_pipe_is_silent(modules: Path) -> None:
    """`apcore-mcp --check | head -0`."""
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen(
        [sys.executable, "-m", "apcore_mcp", "--extensions-dir", str(modules), "--check"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.close(writing)
        _, err = process.communicate(timeout=240)
    assert (process.returncode, err) == (0, "")


@pytest.mark.parametrize(("arguments", "code"), [([], 2), (["--help"], 0)])
def test_run_as_module(
    arguments: list[str], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["apcore-mcp", *arguments])
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("apcore_mcp", run_name="__main__")
    for number, handler in before.items():
        signal.signal(number, handler)  # the command changes the handlers of its process
    assert ended.value.code == code


# --- processes --------------------------------------------------------------------------------------------------------


def start(*arguments: str, **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "apcore_mcp", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_http_with_0(modules: Path, port: int, listening: Listening, number: int) -> None:
    with start("--extensions-dir", str(modules), "--transport", "streamable-http", "--port", str(port)) as process:
        try:
            assert listening(port)
            process.send_signal(number)
            out, err = process.communicate(timeout=240)
        finally:
            process.kill()
    assert (process.returncode, out) == (0, "")
    assert "Traceback" not in err


@pytest.mark.parametrize("how", ["end of input", "SIGINT", "SIGTERM"])
def test_stdio_ends_with_0(modules: Path, how: str) -> None:
    """The client disconnects, or a signal arrives. Nothing is printed on stdout."""
    with start("--extensions-dir", str(modules)) as process:
        try:
            assert process.stderr is not None
            seen = ""
            while "tools via stdio" not in seen:
                line = process.stderr.readline()
                assert line, seen
                seen += line
            if how == "end of input":
                out, _ = process.communicate(timeout=240)
            else:
                process.send_signal(getattr(signal, how))
                out, _ = process.communicate(timeout=240)
        finally:
            process.kill()
    assert (process.returncode, out) == (0, "")


def test_sigterm_during_start_exits_with_0(modules: Path) -> None:
    """The signal arrives while a slow module is loaded."""
    (modules / "slow.py").write_text(
        "import sys, time\nprint('loading', file=sys.stderr, flush=True)\ntime.sleep(30)\n"
    )
    with start("--extensions-dir", str(modules)) as process:
        try:
            assert process.stderr is not None
            assert process.stderr.readline() == "loading\n"
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=240)
        finally:
            process.kill()
    assert (process.returncode, out) == (0, "")


def test_sigterm_with_sigint_ignored(modules: Path) -> None:
    """A shell script starts background processes like this."""
    ignoring = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); sys.argv[0] = 'apcore-mcp';"
        "from apcore_mcp.cli import main; sys.exit(main())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", ignoring, "--extensions-dir", str(modules)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            while "tools via stdio" not in (line := process.stderr.readline()):
                assert line
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=240)
        finally:
            process.kill()
    assert (process.returncode, out, "Traceback" in err) == (0, "", False)


def test_signals_are_unchanged_off_the_main_thread(modules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(main(["--extensions-dir", str(modules), "--check"])))
    thread.start()
    thread.join()
    assert codes == [0]


def test_hung_module_does_not_delay_exit(tmp_path: Path) -> None:
    """The client disconnects while a module runs in a thread: exit code 0, after the shutdown hook."""
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, time\nfrom apcore import Registry\nfrom apcore_mcp import serve\n"
        "class Hang:\n    description = 'hangs'\n"
        "    def __init__(self):\n        self.input_schema = {}\n        self.output_schema = {}\n"
        "    def execute(self, inputs, context):\n"
        "        print('hanging', file=sys.stderr, flush=True)\n        time.sleep(60)\n"
        "registry = Registry()\nregistry.register('x.hang', Hang())\n"
        "serve(registry, on_shutdown=lambda: print('bye', file=sys.stderr, flush=True))\n"
    )
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    frames = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "x.hang", "arguments": {}}},
    ]
    with subprocess.Popen(
        [sys.executable, str(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdin is not None
            assert process.stderr is not None
            process.stdin.write("".join(json.dumps(frame) + "\n" for frame in frames))
            process.stdin.flush()
            while "hanging" not in (line := process.stderr.readline()):
                assert line
            _, err = process.communicate(timeout=240)
        finally:
            process.kill()
    assert process.returncode == 0
    assert "bye" in err


def test_port_in_use_exits_with_2(modules: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        at = str(taken.getsockname()[1])
        with start("--extensions-dir", str(modules), "--transport", "streamable-http", "--port", at) as process:
            out, err = process.communicate(timeout=240)
    assert (process.returncode, out) == (2, "")
    assert "cannot start: cannot listen on" in err


def test_empty_directory_is_served_with_a_warning(tmp_path: Path) -> None:
    with start("--extensions-dir", str(tmp_path)) as process:
        out, err = process.communicate(timeout=240)
    assert (process.returncode, out) == (0, "")
    assert "No modules registered" in err


def test_help_does_not_import_apcore() -> None:
    code = (
        "import sys\nfrom apcore_mcp.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "loaded = [m for m in ('apcore', 'pydantic', 'asyncio', 'uvicorn', 'jsonschema') if m in sys.modules]\n"
        "print(loaded, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=True)
    assert done.stderr.strip() == "[]"
    assert "--extensions-dir" in done.stdout
    assert "APCORE_MCP_PORT" in done.stdout


def test_modules_of_the_openapi_setting_need_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in apcore-mcp, `mcp.openapi` is a source of modules."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "apcore.yaml").write_text('version: "1"\nmcp:\n  openapi:\n    spec: ./doc.json\n')
    assert main(["--print-config", "claude-code"]) == 0
    assert "apcore-mcp" in capsys.readouterr().out


def test_configuration_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is an error without a traceback, as with a directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("APCORE_CONFIG_FILE", str(tmp_path / "missing.yaml"))
    assert main(["--check"]) == 1
    assert "apcore-mcp: cannot read apcore's configuration: " in capsys.readouterr().err
    monkeypatch.delenv("APCORE_CONFIG_FILE")
    (tmp_path / "apcore.yaml").mkdir()
    assert main(["--check"]) == 1
    assert "apcore.yaml is not a file: remove it" in capsys.readouterr().err


def test_check_counts_the_operations_of_the_settings(tmp_path: Path) -> None:
    operation = {"operationId": "list_pets", "responses": {"200": {"description": "all"}}}
    document = {"openapi": "3.1.0", "info": {"title": "Pets", "version": "1"}, "paths": {"/pets": {"get": operation}}}
    document["servers"] = [{"url": "http://127.0.0.1:9"}]
    (tmp_path / "pets.json").write_text(json.dumps(document))
    (tmp_path / "apcore.yaml").write_text("mcp:\n  openapi:\n    spec: pets.json\n")
    (tmp_path / "empty").mkdir()
    for flags in ([], ["--extensions-dir", "empty"]):  # the server needs no prefix for either
        words = [sys.executable, "-m", "apcore_mcp", "--check", *flags]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["1 served, 0 skipped"]), done.stderr
