"""Parser of `WWW-Authenticate` (RFC 9110, 11.6.1; RFC 6750, 3; RFC 9728, 5.1).

Challenges and their parameters are separated by the same comma: a token before an equals sign is a parameter, any other
is the next scheme. Parsing ends at the first syntax error; what was parsed before it is used.
"""

import re
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

Scopes: TypeAlias = tuple[str, ...]

_NAME = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_SCHEME = re.compile(rf"[\s,]*({_NAME})(?=[\s,]|$)")
_PARAMETER = re.compile(rf'[\s,]*({_NAME})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|({_NAME}))(?=[\s,]|$)', re.DOTALL)
# A single value in place of parameters, as in `Negotiate`. It is skipped and must not be parsed as a scheme.
_TOKEN68 = re.compile(r"[ \t]+[A-Za-z0-9\-._~+/]+=*[ \t]*(?=,|$)")
# A scope is printable ASCII except quote and backslash (RFC 6749, 3.3); others are dropped.
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_MAX_LENGTH = 16_384


class BearerChallenge(msgspec.Struct, frozen=True):
    """The parameters of a Bearer or DPoP challenge (RFC 9449, 7.1).

    `is_bearer` is False if the server requires another scheme; `has_dpop` is True if it accepts DPoP.
    """

    scopes: Scopes = ()
    error: str = ""
    resource_metadata: str = ""
    is_bearer: bool = True
    has_dpop: bool = False

    def is_met_by(self, scopes: Scopes) -> bool:
        """Return whether a token requested with `scopes` may suffice; without scopes the issuer chose them."""
        return not scopes or set(self.scopes) <= set(scopes)


def read_bearer_challenge(values: Iterable[str]) -> BearerChallenge:
    """Return the DPoP or Bearer challenge of a field. A field without challenges counts as Bearer (2025-03-26)."""
    challenges = read_challenges(", ".join(values))
    offered = dict(reversed(challenges))
    parameters = offered.get("dpop", offered.get("bearer", {}))
    return BearerChallenge(
        scopes=read_scopes(parameters.get("scope", "")),
        error=parameters.get("error", ""),
        resource_metadata=parameters.get("resource_metadata", ""),
        is_bearer="bearer" in offered or not challenges,
        has_dpop="dpop" in offered,
    )


def read_challenges(field: str) -> list[tuple[str, dict[str, str]]]:
    """Return (scheme, parameters) of each challenge; schemes and names in lower case, the first of duplicates."""
    field = field[:_MAX_LENGTH]
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


def read_scopes(text: str) -> Scopes:
    """Return the valid scopes of a space-separated list, in order and without duplicates."""
    return tuple(dict.fromkeys(scope for scope in text.split() if _SCOPE.fullmatch(scope) is not None))


def scope_form(scopes: Scopes) -> dict[str, str]:
    """Return the request parameter for these scopes, if there are any (RFC 6749, 3.3)."""
    return {"scope": " ".join(scopes)} if scopes else {}
