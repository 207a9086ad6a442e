"""Removal of sensitive argument values from logs and error messages during a call.

An exception of a module may quote its arguments. The values are replaced in messages, chained exceptions and notes.
They are collected only when an error or a warning is written, so a successful call costs nothing.
"""

import logging
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import cached_property
from typing import Any, Final

# Replaces a sensitive value; the same string as in apcore.
REDACTED: Final = "***REDACTED***"

# A shorter value is replaced only as a whole word: a PIN of one digit occurs in every number.
_SHORT: Final = 4


class Secrets:
    """The sensitive values among the arguments of a call. `redact` returns a copy with these values replaced."""

    def __init__(self, arguments: Mapping[str, Any], redact: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
        self._arguments = arguments
        self._redact = redact

    def __repr__(self) -> str:
        return "<Secrets>"

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        forms: set[str] = set()
        for value in _differing(self._arguments, self._redact(self._arguments)):
            text = str(value)
            # Plain, as in `repr`, and as in JSON.
            forms |= {text, repr(value)[1:-1] if isinstance(value, str) else text, _json_escaped(text)}
        longest_first = sorted(filter(None, forms), key=len, reverse=True)
        parts = [
            re.escape(form) if len(form) >= _SHORT else rf"(?<!\w){re.escape(form)}(?!\w)" for form in longest_first
        ]
        return re.compile("|".join(parts)) if parts else None

    def hide(self, text: str) -> str:
        """Replace the values in a string."""
        return text if self._pattern is None else self._pattern.sub(REDACTED, text)

    def hide_error(self, error: BaseException) -> BaseException:
        """Return the error, or a copy without the values and with the same traceback."""
        if self._pattern is None:
            return error
        text = "".join(traceback.format_exception(error))
        return error if self._pattern.search(text) is None else self._copy(error, {})

    def _copy(self, error: BaseException, seen: dict[int, BaseException]) -> BaseException:
        if id(error) in seen:
            return seen[id(error)]
        copy: BaseException
        if isinstance(error, BaseExceptionGroup):
            members = [self._copy(member, seen) for member in error.exceptions]
            copy = BaseExceptionGroup(self.hide(error.message), members)
        else:
            copy = _same_named_class(type(error))(self.hide(_text_of(error)))
        seen[id(error)] = copy
        for note in getattr(error, "__notes__", ()):
            copy.add_note(self.hide(str(note)))
        if error.__cause__ is not None:
            copy.__cause__ = self._copy(error.__cause__, seen)
        if error.__context__ is not None:
            copy.__context__ = self._copy(error.__context__, seen)
        copy.__suppress_context__ = error.__suppress_context__
        return copy.with_traceback(error.__traceback__)


# The secrets of the current call. Tasks and the threads of apcore inherit them.
SECRETS: Final[ContextVar[Secrets | None]] = ContextVar("apcore_mcp_secrets", default=None)


def hide(text: str) -> str:
    """Replace the sensitive values of the current call in a string."""
    secrets = SECRETS.get()
    return text if secrets is None else secrets.hide(text)


def hide_exc_info(given: Any) -> Any:
    """Return `exc_info` for `logging` without the sensitive values of the current call."""
    secrets = SECRETS.get()
    if secrets is None or not given:
        return given
    if isinstance(given, BaseException):
        return secrets.hide_error(given)
    error = given[1] if isinstance(given, tuple) else sys.exc_info()[1]
    return given if error is None else secrets.hide_error(error)


def hide_in_record(record: logging.LogRecord) -> None:
    """Remove the sensitive values of the current call from a log record."""
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


def _differing(value: Any, redacted: Any) -> Iterator[Any]:
    """Return the values that were replaced."""
    if isinstance(value, Mapping) and isinstance(redacted, Mapping):
        for key, part in value.items():
            yield from _differing(part, redacted.get(key, REDACTED))
    elif isinstance(value, list) and isinstance(redacted, list) and len(value) == len(redacted):
        for part, redacted_part in zip(value, redacted, strict=True):
            yield from _differing(part, redacted_part)
    elif redacted == REDACTED and value != REDACTED:
        yield from _leaves(value)


def _leaves(value: Any) -> Iterator[Any]:
    """Return every scalar inside a value, except booleans and None."""
    if isinstance(value, Mapping):
        for part in value.values():
            yield from _leaves(part)
    elif isinstance(value, list | tuple | set):
        for part in value:
            yield from _leaves(part)
    elif value is not None and not isinstance(value, bool):
        yield value


def _json_escaped(text: str) -> str:
    import json  # noqa: PLC0415  # needed only after a failure

    return json.dumps(text)[1:-1]


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # a user's class
        return "(str() of the exception failed)"


def _same_named_class(kind: type[BaseException]) -> type[Exception]:
    """Return an exception class with the same name in a traceback."""
    return type(kind.__name__, (Exception,), {"__module__": kind.__module__, "__qualname__": kind.__qualname__})


__all__ = ["REDACTED", "SECRETS", "Secrets", "hide", "hide_exc_info", "hide_in_record"]
