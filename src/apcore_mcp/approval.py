"""A person's consent before a module runs that asks for it. Whatever goes wrong, the module does not run.

apcore alone only warns about `requires_approval` when nobody handles it. Here the client is asked (elicitation) and shown
what would run with which arguments, the sensitive ones hidden. A client that cannot be asked is refused in words. An
executor with an approval handler of its own is left to it.

Must never know how a module is run. Above: the router. Below: the caller's `elicit`, `catalogue` entries.
"""

import json
from typing import TYPE_CHECKING, Any, Final, Protocol

from apcore_mcp.tracing import traced
from mooring.errors import CapabilityError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apcore_mcp.catalogue import Entry

_logger = traced("apcore_mcp.approval")

# A prompt that nobody reads to its end protects nobody.
MAX_SHOWN: Final = 4000

# Nothing to fill in: to accept is to agree.
FORM: Final[dict[str, Any]] = {"type": "object", "properties": {}}


class Answer(Protocol):
    """What a person answered."""

    @property
    def is_accepted(self) -> bool:
        """True if he agreed."""


class Asker(Protocol):
    """Who can ask a person; `mooring.server.Context` is one."""

    async def elicit(self, message: str, form: Any, *, key: str | None = None) -> Answer:
        """The answer."""


async def refusal_of(entry: "Entry", arguments: "Mapping[str, Any]", asker: Asker | None) -> str | None:
    """None, if a person agreed to this call; else what to tell the client.

    A question of the stateless era unwinds through here (it is no Exception), and comes back with its answer.
    """
    if asker is None:
        return _cannot(entry)
    try:
        answer = await asker.elicit(question(entry, arguments), FORM, key="approval")
    except CapabilityError:
        return _cannot(entry)
    except Exception:
        _logger.exception("%s was not run: the approval could not be asked for", entry.id)
        return f"Approval required: {entry.id} was not run, because the approval could not be asked for."
    if answer.is_accepted is True:
        _logger.info("%s was approved", entry.id)
        return None
    _logger.warning("%s was not approved", entry.id)
    return f"Approval denied: {entry.id} was not run."


def question(entry: "Entry", arguments: "Mapping[str, Any]") -> str:
    """What a person is asked: what would run, and with what, without the secrets."""
    shown = json.dumps(entry.redact(arguments), indent=2, default=str, ensure_ascii=False)
    if len(shown) > MAX_SHOWN:
        shown = f"{shown[:MAX_SHOWN]}\n... ({len(shown)} characters in all)"
    about = entry.description.strip().partition("\n")[0][:300]
    return "\n\n".join(part for part in (f"Run {entry.id}?", about, f"Arguments:\n{shown}") if part)


def _cannot(entry: "Entry") -> str:
    _logger.warning("%s was not run: it needs an approval, and the client cannot be asked", entry.id)
    return (
        f"Approval required: {entry.id} needs a person's approval, and this client cannot be asked (no elicitation)."
        ' Use a client that can, or serve with approval="allow".'
    )


__all__ = ["FORM", "MAX_SHOWN", "Answer", "Asker", "question", "refusal_of"]
