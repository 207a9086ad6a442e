"""The rows that go out: field names and forms of the reference's answers."""

import msgspec

from procontext.models import Library, Match, Packages


def test_a_match_is_written_as_the_reference_shows() -> None:
    """Reference 2.2 and 2.3."""
    match = Match("langchain", "LangChain", ("python",), "https://docs.langchain.com", "package_name", 1.0)
    assert msgspec.json.decode(msgspec.json.encode(match)) == {
        "library_id": "langchain",
        "name": "LangChain",
        "languages": ["python"],
        "docs_url": "https://docs.langchain.com",
        "matched_via": "package_name",
        "relevance": 1.0,
    }


def test_a_library_is_written_without_what_it_does_not_have() -> None:
    """The registry file stays small; what is absent is the default when it is read."""
    library = Library(id="a", name="A", packages=Packages(pypi=("a",)))
    written = msgspec.json.encode(library)
    assert b"docs_url" not in written
    assert b"headers" not in written
    assert msgspec.json.decode(written, type=Library) == library
