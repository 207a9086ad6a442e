"""The catalogue, row by row: reference, 6.1 and 6.2."""

import pytest

from procontext.errors import CATALOGUE, ROWS, Code, ConfigError, ProContextError, RegistryError, failure

# Reference 6.2: code, raised by, recoverable.
REFERENCE = {
    "LIBRARY_NOT_FOUND": ({"get_library_docs"}, False),
    "LLMS_TXT_NOT_FOUND": ({"get_library_docs"}, False),
    "LLMS_TXT_FETCH_FAILED": ({"get_library_docs"}, True),
    "PAGE_NOT_FOUND": ({"read_page"}, False),
    "PAGE_FETCH_FAILED": ({"read_page"}, True),
    "TOO_MANY_REDIRECTS": ({"get_library_docs", "read_page"}, False),
    "URL_NOT_ALLOWED": ({"read_page"}, False),
    "INVALID_INPUT": ({"resolve_library", "get_library_docs", "read_page"}, False),
}

# Reference 3.4 and 4.4: whole texts.
TEXTS: list[tuple[Code, str, str, str]] = [
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


def test_the_catalogue_has_the_codes_of_the_reference_and_no_other() -> None:
    """Reference 6.2."""
    assert set(CATALOGUE) == set(REFERENCE)
    assert len(ROWS) == len(CATALOGUE)


@pytest.mark.parametrize("code", REFERENCE)
def test_a_row_says_who_raises_it_and_whether_to_try_again(code: str) -> None:
    """Reference 6.2; `search_docs` is ours, beside it."""
    raised_by, recoverable = REFERENCE[code]
    row = CATALOGUE[code]
    assert set(row.raised_by) - {"search_docs"} == raised_by
    assert row.recoverable is recoverable
    assert row.suggestion.endswith(".")
    error = failure(row.code, "it")
    assert (error.code, error.recoverable, error.suggestion) == (code, recoverable, row.suggestion)
    assert "it" in error.message
    assert str(error) == f"{code}: {error.message}"


@pytest.mark.parametrize(("code", "subject", "message", "suggestion"), TEXTS)
def test_texts_of_the_reference_are_word_for_word(
    code: Code, subject: str, message: str, suggestion: str
) -> None:
    """Reference 3.4, 4.4."""
    error = failure(code, subject)
    assert (error.message, error.suggestion) == (message, suggestion)


def test_a_detail_follows_as_a_sentence_and_a_suggestion_can_be_better() -> None:
    """What was found out beyond the row is told after it."""
    error = failure("PAGE_FETCH_FAILED", "https://a/b", "HTTP 503", suggestion="Wait.")
    assert error.message == "The page 'https://a/b' could not be fetched. HTTP 503."
    assert error.suggestion == "Wait."
    assert isinstance(error, ProContextError)


def test_a_long_subject_is_cut() -> None:
    """What a caller sent is quoted, not echoed without bound."""
    assert len(failure("URL_NOT_ALLOWED", "x" * 5000).message) < 400


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            ConfigError("cache.ttl_hours", "must be a number", "/x.yaml"),
            "cache.ttl_hours: must be a number (in /x.yaml)",
        ),
        (ConfigError("cache.ttl_hours", "must be a number"), "cache.ttl_hours: must be a number"),
        (ConfigError("", "is not YAML", "/x.yaml"), "is not YAML (in /x.yaml)"),
        (RegistryError("/r.json", "has no libraries"), "/r.json: has no libraries"),
    ],
)
def test_errors_for_people_say_where(error: Exception, text: str) -> None:
    """Settings and registries are refused by name."""
    assert str(error) == text
