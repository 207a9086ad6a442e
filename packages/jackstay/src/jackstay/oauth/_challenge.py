"""What a `WWW-Authenticate` field asks for (RFC 9110, 11.6.1; RFC 6750, 3; RFC 9728, 5.1).

The field is a list of challenges, and each challenge is a list, separated by the same comma. So it is read word by word: a
word before an equals sign is a parameter, any other is the next scheme. What cannot be read ends the reading; what was
read before it counts.

Pure. Above: the authorizer. Below: nothing.
"""

import re
from collections.abc import Iterable

import msgspec

_WORD = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_SCHEME = re.compile(rf"[\s,]*({_WORD})(?=[\s,]|$)")
_PARAMETER = re.compile(rf'[\s,]*({_WORD})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|({_WORD}))(?=[\s,]|$)', re.DOTALL)
# One value instead of parameters, as `Negotiate` has it. It is of no interest, and must not be taken for a scheme.
_TOKEN68 = re.compile(r"[ \t]+[A-Za-z0-9\-._~+/]+=*[ \t]*(?=,|$)")
# A scope is printable ASCII but for the quote and the backslash (RFC 6749, 3.3); others are not sent on.
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_LONGEST = 16_384


class Demand(msgspec.Struct, frozen=True):
    """What the server wants: empty where it did not say. `is_for_us` is False where it wants another kind of credentials."""

    scopes: tuple[str, ...] = ()
    error: str = ""
    resource_metadata: str = ""
    is_for_us: bool = True

    def is_met_by(self, scopes: tuple[str, ...]) -> bool:
        """True where a token that was asked for with these scopes may do. None at all are the issuer's own choice."""
        return not scopes or set(self.scopes) <= set(scopes)


def read_demand(values: Iterable[str]) -> Demand:
    """The Bearer challenge in a field. A field without any challenge says nothing, and is for us (2025-03-26)."""
    challenges = read_challenges(", ".join(values))
    for scheme, parameters in challenges:
        if scheme == "bearer":
            return Demand(
                scopes=read_scopes(parameters.get("scope", "")),
                error=parameters.get("error", ""),
                resource_metadata=parameters.get("resource_metadata", ""),
            )
    return Demand(is_for_us=not challenges)


def read_challenges(field: str) -> list[tuple[str, dict[str, str]]]:
    """(scheme, parameters) of each challenge; schemes and names in lower case, the first of a name counts."""
    field = field[:_LONGEST]
    found: list[tuple[str, dict[str, str]]] = []
    position = 0
    while position < len(field):
        parameter = _PARAMETER.match(field, position)
        if parameter is not None and found:
            name, in_quotes, plain = parameter.groups()
            value = plain if in_quotes is None else re.sub(r"\\(.)", r"\1", in_quotes, flags=re.DOTALL)
            found[-1][1].setdefault(name.lower(), value)
            position = parameter.end()
            continue
        scheme = _SCHEME.match(field, position)
        if scheme is None:
            break
        found.append((scheme[1].lower(), {}))
        single = _TOKEN68.match(field, scheme.end())
        position = scheme.end()
        if single is not None and _PARAMETER.match(field, position) is None:
            position = single.end()
    return found


def read_scopes(text: str) -> tuple[str, ...]:
    """The scopes of a list separated by blanks: each once, in order, without what cannot be one."""
    return tuple(dict.fromkeys(word for word in text.split() if _SCOPE.fullmatch(word) is not None))
