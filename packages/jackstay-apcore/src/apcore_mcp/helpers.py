"""Progress and elicitation for modules: `await report_progress(context, 1, 3)`, `await elicit(context, "Sure?")`.

Both use functions that the router puts into `context.data`. Outside a call of a client they do nothing.
"""

from typing import Any, Final, Literal, NotRequired, TypedDict

# The keys of the functions in `context.data`.
MCP_PROGRESS_KEY: Final = "_mcp_progress"
# As above.
MCP_ELICIT_KEY: Final = "_mcp_elicit"


class ElicitResult(TypedDict):
    """The answer of the user; `content` is set for "accept"."""

    action: Literal["accept", "decline", "cancel"]
    content: NotRequired[dict[str, Any] | None]


async def report_progress(
    context: Any, progress: float, total: float | None = None, message: str | None = None
) -> None:
    """Send progress to the client, if it requested progress."""
    function = _function_of(context, MCP_PROGRESS_KEY)
    if function is not None:
        await function(progress, total, message)


async def elicit(context: Any, message: str, requested_schema: dict[str, Any] | None = None) -> ElicitResult | None:
    """Request input from the user of the client. Return None if that is not possible.

    In the stateless era of MCP (2026-07-28), the module runs again from its first line with the answer.
    """
    function = _function_of(context, MCP_ELICIT_KEY)
    if function is None:
        return None
    answer: ElicitResult | None = await function(message, requested_schema)
    return answer


def _function_of(context: Any, key: str) -> Any:
    data = getattr(context, "data", None)
    return None if data is None else data.get(key)


__all__ = ["MCP_ELICIT_KEY", "MCP_PROGRESS_KEY", "ElicitResult", "elicit", "report_progress"]
