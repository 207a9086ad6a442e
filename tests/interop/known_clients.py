"""The clients of `peers.py`: the command, the negotiated revision, and the expected results of each.

All of them use `examples/everything.py`, and the expected results are the same over every transport.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interop.peers import BY_NAME, ROOT, node

PROGRAMS = Path(__file__).parent / "clients"
EVERYTHING = ROOT / "examples" / "everything.py"

TOOLS = [
    "test_simple_text", "test_image_content", "test_audio_content", "test_embedded_resource",
    "test_multiple_content_types", "add",
    "test_error_handling", "test_header", "json_schema_2020_12_tool", "test_tool_with_progress",
    "test_tool_with_logging", "test_logging_tool", "test_reconnection", "hold", "cancelled", "test_sampling",
    "test_elicitation", "test_elicitation_sep1034_defaults", "test_elicitation_sep1330_enums",
    "test_missing_capability",
    "test_streaming_elicitation", "test_input_required_result_elicitation", "test_input_required_result_sampling",
    "test_input_required_result_list_roots", "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs", "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state", "test_input_required_result_capabilities", "test_trigger_tool_change",
    "test_trigger_prompt_change", "touch",
    "greet", "slow_compute", "failing_job", "protocol_error_job", "confirm_delete", "multi_input",
    "test_tool_with_task",
]  # fmt: skip
PROMPTS = [
    "test_simple_prompt", "test_prompt_with_arguments", "test_prompt_with_embedded_resource", "test_prompt_with_image",
    "test_input_required_result_prompt",
]  # fmt: skip
RESOURCES = [
    "skill://unit-conversion/SKILL.md", "skill://unit-conversion/references/units.md", "test://static-text",
    "test://static-binary", "test://watched-resource",
]  # fmt: skip
TEXT = "This is the content of the static text resource."
PROMPT = "Prompt with arguments: arg1='hawser', arg2='rope'"

# The results that every client must get from the server.
SEEN = {
    "server": ["everything", "1.0", "One of everything, to try a client with."],
    "tools": TOOLS,
    "sum": ["42", {"result": 42}],
    "failed": [True, "This tool intentionally returns an error for testing"],
    "invalid": True,
    "unknown_tool": -32602,
    "resources": RESOURCES,
    "templates": ["test://template/{id}/data"],
    "read": [TEXT, '{"id":"7","templateTest":true,"data":"Data for ID: 7"}'],
    "prompts": PROMPTS,
    "prompt": PROMPT,
    "completion": ["hawser", "halyard"],
    "counted": "Progress was reported.",
    "progress": [[0, 100, "0 of 100"], [50, 100, "50 of 100"], [100, 100, "100 of 100"]],
    "log": [
        ["info", "Tool execution started"],
        ["info", "Tool processing data"],
        ["info", "Tool execution completed"],
    ],
    "responses": [
        'User response: action=accept, content={"username": "ada", "email": "ada@example.org"}',
        "LLM response: aye",
        "file:///harbour",
    ],
    "changes": ["notifications/tools/list_changed"],
    "updates": ["test://watched-resource"],
    "grown": True,
    "cancelled": "cancelled",
}


@dataclass(frozen=True)
class Row:
    """One client in one of its modes, and the results that differ from `SEEN`."""

    peer: str
    mode: str
    revision: str
    unknown_resource: int
    differs: tuple[tuple[str, Any], ...] = ()

    @property
    def id(self) -> str:
        return f"{self.peer}-{self.revision}"

    def command(self) -> list[str | Path]:
        """Return the command of the client, without its last argument: the command or the URL of the server."""
        peer = BY_NAME[self.peer]
        if self.peer.startswith("typescript"):
            return [node(), PROGRAMS / "typescript.mjs", peer.home, self.mode]
        program = PROGRAMS / ("fast.py" if self.peer.startswith("fastmcp") else f"{self.peer}.py")
        return [peer.python, program, *([self.mode] if self.mode else [])]


# -32002 is the code of an unknown resource in the handshake era, -32602 in the stateless era.
ROWS = (
    Row("sdk1", "", "2025-11-25", -32002),
    Row("sdk2", "auto", "2026-07-28", -32602),
    Row("sdk2", "legacy", "2025-11-25", -32002),
    Row("fastmcp3", "-", "2025-11-25", -32002),
    # FastMCP 4 never opens `subscriptions/listen`, and so receives no changes in the stateless era.
    Row("fastmcp4", "auto", "2026-07-28", -32602, (("changes", []), ("updates", []))),
    Row("fastmcp4", "legacy", "2025-11-25", -32002),
    Row("typescript", "1", "2025-11-25", -32002),
    Row("typescript2", "auto", "2026-07-28", -32602),
    # This client converts the code of an unknown resource in the handshake era to that of the stateless era.
    Row("typescript2", "legacy", "2025-11-25", -32602),
)


def seen_by(row: Row) -> dict[str, Any]:
    """Return the results that this client must get from the server."""
    return {
        **SEEN,
        "revision": row.revision,
        "unknown_resource": row.unknown_resource,
        **dict(row.differs),
    }
