"""`client.completion`: what could come next in an argument.

Above: users. Below: `_requests`.
"""

from collections.abc import Mapping
from typing import Any, Unpack

from jackstay.client._requests import CallOptions, Requests
from jackstay.types import CompleteResult, Completion, PromptReference, ResourceTemplateReference


class Completions:
    """Completion of arguments, by the server."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def complete(
        self,
        reference: PromptReference | ResourceTemplateReference,
        argument: str,
        value: str,
        context: Mapping[str, str] | None = None,
        **options: Unpack[CallOptions],
    ) -> Completion:
        """What may follow `value` in this argument; `context` are the arguments already known."""
        params: dict[str, Any] = {"ref": reference, "argument": {"name": argument, "value": value}}
        if context is not None:
            params["context"] = {"arguments": dict(context)}
        result = await self._requests.ask("completion/complete", params, CompleteResult, options)
        return result.completion
