"""Values of sensitive arguments, kept out of logs and error texts while their call is served.

A module's exception quotes what the module was given. So while a call is served, the values of its sensitive arguments are
known here, and replaced wherever we log or answer: in messages, in chained exceptions and in their notes. They are found only
when an exception or a warning is written, so a call that succeeds costs nothing.
"""

import logging
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import cached_property
from typing import Any, Final

# What stands in the place of a sensitive value; apcore's own word.
REDACTED: Final = "***REDACTED***"

# A shorter value is replaced only where it stands alone: a PIN of one digit is in every number.
_SHORT: Final = 4


class Secrets:
    """The sensitive values among the arguments of a call. `redact` returns a copy of them in which each is replaced."""

    def __init__(
        self, arguments: Mapping[str, Any], redact: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    ) -> None:
        self._arguments = arguments
        self._redact = redact

    def __repr__(self) -> str:
        return "<Secrets>"

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        forms: set[str] = set()
        for value in _differing(self._arguments, self._redact(self._arguments)):
            text = str(value)
            # As it is, as `repr` writes it, and as JSON does.
            forms |= {text, repr(value)[1:-1] if isinstance(value, str) else text, _in_json(text)}
        longest_first = sorted(filter(None, forms), key=len, reverse=True)
        parts = [
            re.escape(form) if len(form) >= _SHORT else rf"(?<!\w){re.escape(form)}(?!\w)"
            for form in longest_first
        ]
        return re.compile("|".join(parts)) if parts else None

    def hide(self, text: str) -> str:
        """The text without the values."""
        return text if self._pattern is None else self._pattern.sub(REDACTED, text)

    def hide_error(self, error: BaseException) -> BaseException:
        """The error itself, or one like it that does not quote the values, with the same traceback."""
        if self._pattern is None:
            return error
        shown = "".join(traceback.format_exception(error))
        return error if self._pattern.search(shown) is None else self._copy(error, {})

    def _copy(self, error: BaseException, seen: dict[int, BaseException]) -> BaseException:
        if id(error) in seen:
            return seen[id(error)]
        copy: BaseException
        if isinstance(error, BaseExceptionGroup):
            members = [self._copy(member, seen) for member in error.exceptions]
            copy = BaseExceptionGroup(self.hide(error.message), members)
        else:
            copy = _like(type(error))(self.hide(_text_of(error)))
        seen[id(error)] = copy
        for note in getattr(error, "__notes__", ()):
            copy.add_note(self.hide(str(note)))
        if error.__cause__ is not None:
            copy.__cause__ = self._copy(error.__cause__, seen)
        if error.__context__ is not None:
            copy.__context__ = self._copy(error.__context__, seen)
        copy.__suppress_context__ = error.__suppress_context__
        return copy.with_traceback(error.__traceback__)


# Those of the call that is being served. Tasks and apcore's threads inherit it.
SECRETS: Final[ContextVar[Secrets | None]] = ContextVar("apcore_mcp_secrets", default=None)


def hide(text: str) -> str:
    """The text without the sensitive values of the call that is being served."""
    secrets = SECRETS.get()
    return text if secrets is None else secrets.hide(text)


def hide_exc_info(given: Any) -> Any:
    """What `logging` accepts as `exc_info`, without those values."""
    secrets = SECRETS.get()
    if secrets is None or not given:
        return given
    if isinstance(given, BaseException):
        return secrets.hide_error(given)
    error = given[1] if isinstance(given, tuple) else sys.exc_info()[1]
    return given if error is None else secrets.hide_error(error)


def hide_in_record(record: logging.LogRecord) -> None:
    """Take those values out of a line that somebody else has written."""
    secrets = SECRETS.get()
    if secrets is None:
        return
    text = record.getMessage()
    hidden = secrets.hide(text)
    if hidden != text:
        record.msg, record.args = hidden, ()
    if record.exc_info and record.exc_info[1] is not None:
        error = secrets.hide_error(record.exc_info[1])
        if error is not record.exc_info[1]:
            record.exc_info, record.exc_text = (type(error), error, error.__traceback__), None


def _differing(value: Any, shown: Any) -> Iterator[Any]:
    """The values that were replaced."""
    if isinstance(value, Mapping) and isinstance(shown, Mapping):
        for key, part in value.items():
            yield from _differing(part, shown.get(key, REDACTED))
    elif isinstance(value, list) and isinstance(shown, list) and len(value) == len(shown):
        for part, shown_part in zip(value, shown, strict=True):
            yield from _differing(part, shown_part)
    elif shown == REDACTED and value != REDACTED:
        yield from _leaves(value)


def _leaves(value: Any) -> Iterator[Any]:
    """Every value inside. What is true or null of a secret is none."""
    if isinstance(value, Mapping):
        for part in value.values():
            yield from _leaves(part)
    elif isinstance(value, list | tuple | set):
        for part in value:
            yield from _leaves(part)
    elif value is not None and not isinstance(value, bool):
        yield value


def _in_json(text: str) -> str:
    import json  # noqa: PLC0415  # only where something failed

    return json.dumps(text)[1:-1]


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # an author's class
        return "(its text could not be made)"


def _like(kind: type[BaseException]) -> type[Exception]:
    """A class that a traceback calls the same."""
    return type(
        kind.__name__, (Exception,), {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    )


__all__ = ["REDACTED", "SECRETS", "Secrets", "hide", "hide_exc_info", "hide_in_record"]
