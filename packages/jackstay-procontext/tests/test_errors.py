"""The error catalogue."""

import pytest

from procontext.errors import CATALOGUE, ROWS, Code, ConfigError, ProContextError, RegistryError, failure

# Error code: (tools that raise it, recoverable).
CODES = {
    "LIBRARY_NOT_FOUND": ({"get_library_docs"}, False),
    "LLMS_TXT_NOT_FOUND": ({"get_library_docs"}, False),
    "LLMS_TXT_FETCH_FAILED": ({"get_library_docs"}, True),
    "PAGE_NOT_FOUND": ({"read_page"}, False),
    "PAGE_FETCH_FAILED": ({"read_page"}, True),
    "TOO_MANY_REDIRECTS": ({"get_library_docs", "read_page"}, False),
    "URL_NOT_ALLOWED": ({"read_page"}, False),
    "INVALID_INPUT": ({"resolve_library", "get_library_docs", "read_page"}, False),
}

# (code, subject, message, suggestion)
MESSAGES: list[tuple[Code, str, str, str]] = [
    (
        "LIBRARY_NOT_FOUND",
        "langchan",
        "Library 'langchan' not found in registry.",
        "Call resolve_library with your query to find the correct library ID.",
    ),
    (
        "URL_NOT_ALLOWED",
        "https://internal.example.com/docs",
        "URL 'https://internal.example.com/docs' is not permitted.",
        "Only URLs from known documentation domains are allowed. Use get_library_docs to obtain valid documentation"
        " URLs.",
    ),
]


def test_catalogue_codes() -> None:
    assert set(CATALOGUE) == set(CODES)
    assert len(ROWS) == len(CATALOGUE)


def test_catalogue_rows(subtests: pytest.Subtests) -> None:
    for code, (raised_by, recoverable) in CODES.items():
        with subtests.test(code=code):
            row = CATALOGUE[code]
            assert set(row.raised_by) - {"search_docs"} == raised_by
            assert row.recoverable is recoverable
            assert row.suggestion.endswith(".")
            error = failure(row.code, "it")
            assert (error.code, error.recoverable, error.suggestion) == (code, recoverable, row.suggestion)
            assert "it" in error.message
            assert str(error) == f"{code}: {error.message}"


def test_pinned_messages(subtests: pytest.Subtests) -> None:
    for code, subject, message, suggestion in MESSAGES:
        with subtests.test(code=code):
            error = failure(code, subject)
            assert (error.message, error.suggestion) == (message, suggestion)


def test_detail_and_suggestion() -> None:
    error = failure("PAGE_FETCH_FAILED", "https://a/b", "HTTP 503", suggestion="Wait.")
    assert error.message == "The page 'https://a/b' could not be fetched. HTTP 503."
    assert error.suggestion == "Wait."
    assert isinstance(error, ProContextError)


def test_long_subject_is_truncated() -> None:
    assert len(failure("URL_NOT_ALLOWED", "x" * 5000).message) < 400


ERRORS: list[tuple[Exception, str]] = [
    (
        ConfigError("cache.ttl_hours", "must be a number", "/x.yaml"),
        "cache.ttl_hours: must be a number (in /x.yaml)",
    ),
    (ConfigError("cache.ttl_hours", "must be a number"), "cache.ttl_hours: must be a number"),
    (ConfigError("", "invalid YAML", "/x.yaml"), "invalid YAML (in /x.yaml)"),
    (RegistryError("/r.json", "contains no libraries"), "/r.json: contains no libraries"),
]


def test_config_and_registry_errors() -> None:
    for error, text in ERRORS:
        assert str(error) == text, error
