"""`client.skills`: the agent skills of a server (extension `io.modelcontextprotocol/skills`, SEP-2640).

Nothing is read before it is needed, and nothing is returned that does not match the listed digests.
"""

import builtins
from base64 import b64decode
from typing import Any, Unpack

import msgspec

from jackstay._signatures import shows
from jackstay.client._lists import MAX_PAGES, repeated_cursor
from jackstay.client._requests import CallOptions, Requests
from jackstay.client._resources import Resources
from jackstay.errors import CapabilityError, Json, ProtocolError
from jackstay.skills import SKILLS_EXTENSION, Skill


class Skills:
    """The skills of a server."""

    def __init__(self, requests: Requests, resources: Resources) -> None:
        self._requests = requests
        self._resources = resources

    @shows("jackstay.client:CallOptions")
    async def list(self, **options: Unpack[CallOptions]) -> list[Skill]:
        """Return the entries of all skills, from all pages. No file is read.

        Raises: CapabilityError; ProtocolError for a repeated cursor and for a list that exceeds the limits.
        """
        found: builtins.list[Skill] = []
        seen: set[str] = set()
        params: dict[str, Json] = {}
        for _ in range(MAX_PAGES):
            page = await self._request("skills/list", params, options)
            found += _decode(builtins.list[Skill], page.get("skills"))
            if len(found) > self._requests.connection.settings.max_list_entries:
                raise ProtocolError("skills/list has more entries than max_list_entries", sent=True)
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str):
                return found
            if cursor in seen:
                raise repeated_cursor("skills/list", cursor)
            seen.add(cursor)
            params = {"cursor": cursor}
        raise ProtocolError(f"the list has more than {MAX_PAGES} pages", sent=True).about("skills/list", None)

    @shows("jackstay.client:CallOptions")
    async def get(self, uri: str, **options: Unpack[CallOptions]) -> Skill:
        """Return the entry of the skill whose `SKILL.md` has this URI. Raises: JsonRpcError for an unknown one."""
        result = await self._request("skills/get", {"uri": uri}, options)
        found: Skill = _decode(Skill, result.get("skill"))
        return found

    @shows("jackstay.client:CallOptions")
    async def load(self, skill: Skill, **options: Unpack[CallOptions]) -> str:
        """Return the verified `SKILL.md` of a skill. Raises: ProtocolError, if it does not match the entry."""
        return (await self.read(skill, skill.uri, **options)).decode("utf-8", "replace")

    @shows("jackstay.client:CallOptions")
    async def read(self, skill: Skill, uri: str, **options: Unpack[CallOptions]) -> bytes:
        """Return a verified file of a skill. Raises: ProtocolError, if it does not match the entry."""
        result = await self._resources.read(uri, **options)
        for content in result.contents:
            text, blob = getattr(content, "text", None), getattr(content, "blob", None)
            if content.uri == uri and (text is not None or blob is not None):
                data = text.encode() if text is not None else b64decode(blob or "")
                skill.verify(uri, data)
                return data
        raise ProtocolError(f"the server returned no content for {uri}", sent=True)

    async def _request(self, method: str, params: dict[str, Json], options: CallOptions) -> dict[str, Json]:
        extensions = self._requests.capabilities().extensions or {}
        if SKILLS_EXTENSION not in extensions:
            raise CapabilityError(f"extensions.{SKILLS_EXTENSION}")
        return await self._requests.submit(method, params, options)


def _decode(kind: type, value: Json) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"invalid skill entry: {error}", sent=True) from error
