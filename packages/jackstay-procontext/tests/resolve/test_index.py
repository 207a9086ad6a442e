"""Matching order, ranking and likeness: reference, 2.1 to 2.3; design, section 1."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procontext.models import Library, Packages
from procontext.resolve import Index, most_edits
from procontext.resolve._index import _Likely, bit_changes, letters


def library(
    id: str,
    name: str = "",
    pypi: tuple[str, ...] = (),
    npm: tuple[str, ...] = (),
    aliases: tuple[str, ...] = (),
) -> Library:
    return Library(id=id, name=name or id.title(), packages=Packages(pypi, npm), aliases=aliases)


INDEX = Index(
    [
        library(
            "langchain", "LangChain", ("langchain", "langchain-openai"), ("langchain", "@langchain/core")
        ),
        library("fastapi", "FastAPI", ("fastapi",)),
        library("redis-py", "redis-py", ("redis",)),
        library("redis", "node-redis", (), ("redis",)),
        library("next", "Next.js", (), ("next",), ("nextjs",)),
        library("scikit-learn", "scikit-learn", ("scikit-learn",), (), ("sklearn",)),
        library("django", "Django", ("Django",)),
        library("flask", "Flask", ("flask",)),
        library("one-alias", "One", (), (), ("both",)),
        library("other-alias", "Other", (), (), ("both",)),
        library("both-ways", "Both Ways", (), (), ("aws",)),
        library("aws", "AWS", ("aws",)),
    ]
)


def found(query: str) -> list[tuple[str, str, float]]:
    return [(match.library_id, match.matched_via, match.relevance) for match in INDEX.resolve(query)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("langchain-openai>=0.3", [("langchain", "package_name", 1.0)]),
        ("@langchain/core@^1", [("langchain", "package_name", 1.0)]),
        ("Scikit_Learn", [("scikit-learn", "package_name", 1.0)]),
        ("one-alias", [("one-alias", "library_id", 1.0)]),
        ("one alias", [("one-alias", "library_id", 1.0)]),
        ("sklearn", [("scikit-learn", "alias", 1.0)]),
        ("Next.js", [("next", "alias", 1.0)]),
        ("next js", [("next", "alias", 1.0)]),
        ("node redis", [("redis", "alias", 1.0)]),
        ("fastapi.testclient", [("fastapi", "package_name", 1.0)]),
        ("xyzzy-nonexistent", []),
        ("", []),
        (">=1", []),
    ],
)
def test_the_first_stage_that_finds_anything_wins(query: str, expected: list[tuple[str, str, float]]) -> None:
    """Reference 2.1: package names, then identifiers, then aliases."""
    assert found(query) == expected


def test_a_package_name_beats_an_alias_of_another_library() -> None:
    """Reference 2.1: stage 1 before stage 3."""
    assert found("aws") == [("aws", "package_name", 1.0)]


def test_all_entries_of_the_winning_stage_are_returned_and_the_namesake_is_first() -> None:
    """Design, section 1: one package name can be on PyPI and npm."""
    assert [row[0] for row in found("redis")] == ["redis", "redis-py"]
    assert [row[0] for row in found("both")] == ["one-alias", "other-alias"]


def test_a_typing_mistake_scores_as_in_the_reference() -> None:
    """Reference 2.3: `fasapi` is FastAPI with 0.92."""
    assert found("fasapi") == [("fastapi", "fuzzy", 0.92)]


@pytest.mark.parametrize("query", ["djagno", "djngo", "djanngo", "djnago"])
def test_slips_of_the_finger_are_forgiven(query: str) -> None:
    """Reference 2.1, stage 4."""
    assert found(query)[0][:2] == ("django", "fuzzy")


@pytest.mark.parametrize(
    "query", ["aw", "awz", "fastapi-users", "flask-login", "langchain-openai-extras", "aiomysql", "dj"]
)
def test_another_package_is_not_taken_for_a_mistake(query: str) -> None:
    """Design, section 1: a wrong library is worse than none; under four characters exactly only."""
    assert found(query) == []


def test_a_short_word_that_differs_is_another_package() -> None:
    """Design, section 1: a wrong library is worse than none; a short word has too many neighbours, also in a longer name."""
    index = Index([library("react-flow"), library("vue-router")])
    assert index.resolve("react-foo") == []
    assert [match.library_id for match in index.resolve("react-folw")] == ["react-flow"]
    assert [match.library_id for match in index.resolve("veu-router")] == ["vue-router"]
    assert [match.library_id for match in index.resolve("vue-rotuer")] == ["vue-router"]


def test_at_most_five_are_returned_the_likeliest_first() -> None:
    """Design, section 1."""
    index = Index(
        [library(f"package-{letter}{letter}name") for letter in "abcdefgh"] + [library("package-namex")]
    )
    matches = index.resolve("package-name")
    assert len(matches) == 5
    assert matches[0].library_id == "package-namex"
    assert [match.relevance for match in matches] == sorted((m.relevance for m in matches), reverse=True)


def test_a_whole_word_less_is_another_package() -> None:
    """`react-native-ui` is no misspelt `react-native`, though it is only three characters longer."""
    assert Index([library("react-native")]).resolve("react-native-ui") == []
    assert Index([library("react")]).resolve("react-ui") == []
    assert Index([library("native-react-u")]).resolve("native-react-ui")[0].library_id == "native-react-u"


@pytest.mark.parametrize(
    ("query", "is_found"),
    [
        ("rypto", True),
        ("ccrypto", True),
        ("vrypto", True),
        ("rcypto", True),
        ("bcrypt", False),
        ("vrypti", False),
    ],
)
def test_a_slip_in_the_first_letter_must_be_the_only_one(query: str, is_found: bool) -> None:
    """`bcrypt` is not crypto, though only two letters are between them."""
    assert bool(Index([library("crypto")]).resolve(query)) is is_found


@pytest.mark.parametrize("query", ["async", "asyncpgs2", "relay", "asyn"])
def test_a_name_that_only_goes_on_is_another_package(query: str) -> None:
    """`async` is not asyncpg, and `relay` not ray: two characters more are no slip, and short names are not guessed."""
    assert Index([library("asyncpg"), library("ray")]).resolve(query) == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("winstonjs", ["winston"]),
        ("winston.js", ["winston"]),
        ("Winston JS", ["winston"]),
        ("flaskjs", []),
        ("angularjs", []),
        ("angular.js", []),
        ("@types/winston", ["winston"]),
        ("@types/scope__pkg", ["scoped"]),
        ("node:fs/promises", ["node"]),
        ("winston 3", ["winston"]),
        ("flask v3.0.1", ["flask"]),
        ("import flask", ["flask"]),
        ("import winston from 'winston'", ["winston"]),
        ("pip install 'flask[async]>=3'", ["flask"]),
    ],
)
def test_ways_to_write_a_name_lead_to_it(query: str, expected: list[str]) -> None:
    """Any name a developer would type: with js behind it, of its types, with its version, in a line of code."""
    index = Index(
        [
            library("winston", npm=("winston",)),
            library("angular", npm=("@angular/core",)),
            library("scoped", npm=("@scope/pkg",)),
            library("node"),
            library("flask", pypi=("flask",)),
        ]
    )
    assert [match.library_id for match in index.resolve(query)] == expected


@given(st.text(max_size=600))
def test_any_text_is_answered(query: str) -> None:
    """Nothing that can be typed raises; fuzzy matches stay above the threshold of 70 %."""
    for match in INDEX.resolve(query):
        assert 0.7 <= match.relevance <= 1.0
        assert (match.relevance == 1.0) == (match.matched_via != "fuzzy") or match.relevance > 0.99


@given(st.text(alphabet="abcdxyz-", min_size=4, max_size=20), st.integers(0, 19))
def test_dropping_one_character_is_always_found_by_the_filter(name: str, place: int) -> None:
    """The letters rule out nothing that is within the edits: one edit changes one bit at most."""
    shorter = name[: place % len(name)] + name[place % len(name) + 1 :]
    assert (letters(name) ^ letters(shorter)).bit_count() <= 1


def test_a_library_with_two_names_alike_is_told_once() -> None:
    """Its best name counts."""
    (match,) = Index([library("streamlit", pypi=("streamlits",))]).resolve("streamlitt")
    assert (match.library_id, match.relevance) == ("streamlit", 0.95)


def test_a_word_more_in_the_middle_of_a_mistake_is_still_a_mistake() -> None:
    """`next -auth` with one letter wrong has as many words, and is found."""
    assert Index([library("nextauth")]).resolve("next-autj") != []


@pytest.mark.parametrize("edits", [0, 1, 2, 3])
def test_both_ways_to_look_for_likely_names_find_the_same(edits: int) -> None:
    """Few names are gone through, many are looked up: with the same result."""
    texts = [f"{a}{b}{c}{d}" for a in "abcdefgh" for b in "ijklmnop" for c in "qrstuvwx" for d in "yz01"]
    places: dict[int, list[int]] = {}
    for place, text in enumerate(texts):
        places.setdefault(letters(text), []).append(place)
    mine = letters("aiqy")
    looked_up = _Likely(texts, [], {4: places}).near(mine, 4, edits)
    gone_through = [
        place for bits, here in places.items() if (bits ^ mine).bit_count() <= edits for place in here
    ]
    assert sorted(looked_up) == sorted(gone_through) != []
    assert len(bit_changes(edits)) == [1, 17, 137, 697][edits]


def test_edits_grow_with_length_and_end() -> None:
    """Short names allow fewer; nothing is compared beyond what a query may have."""
    assert [most_edits(length) for length in (4, 5, 8, 9, 500, 501)] == [1, 2, 2, 3, 3, 0]


def test_an_index_tells_what_it_holds() -> None:
    """`get`, iteration and `repr`."""
    assert INDEX.get("fastapi") is not None
    assert INDEX.get("nothing") is None
    assert len(list(INDEX)) == len(INDEX) == 12
    assert repr(INDEX) == "<Index of 12 libraries>"


def test_an_exact_name_does_not_load_the_fuzzy_library() -> None:
    """Design, section 3: rapidfuzz is loaded with the first name that nothing matches."""
    program = (
        "import sys; from procontext.models import Library; from procontext.resolve import Index\n"
        "index = Index([Library(id='fastapi', name='FastAPI')]); assert index.resolve('fastapi')\n"
        "assert 'rapidfuzz' not in sys.modules; index.warm(); assert 'rapidfuzz' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
