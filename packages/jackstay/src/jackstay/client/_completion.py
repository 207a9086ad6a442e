"""`client.completion`: completion of prompt and resource template arguments."""

from collections.abc import Mapping
from typing import Any, Unpack

from jackstay.client._requests import CallOptions, Requests
from jackstay.types import CompleteResult, Completion, PromptReference, ResourceTemplateReference


class Completions:
    """Argument completion by the server."""

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
        """Return completions for `value` in this argument; `context` has the arguments that are already known.

        Raises: as every request (`docs/errors.md`).
        """
        params: dict[str, Any] = {"ref": reference, "argument": {"name": argument, "value": value}}
        if context is not None:
            params["context"] = {"arguments": dict(context)}
        result = await self._requests.request("completion/complete", params, CompleteResult, options)
        return result.completion
