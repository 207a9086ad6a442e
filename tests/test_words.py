"""No file uses a word of tools/words.toml, and every citation of a page resolves."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import check_words

WORDS = check_words.load()


def found(path: str, text: str) -> list[str]:
    return [finding.found for finding in check_words.check(path, text, WORDS)]


def test_no_file_uses_a_forbidden_word_or_an_unresolved_citation() -> None:
    findings = [
        str(finding)
        for path in check_words.files()
        for finding in check_words.check(path, (check_words.ROOT / path).read_text(encoding="utf-8"), WORDS)
    ]
    assert findings == []


PLANTED = [
    ("x.py", "def ask_user():\n    pass\n", "ask_user"),
    ("x.py", "class WasTold:\n    pass\n", "WasTold"),
    ("x.py", "MOST_BYTES = 1\n", "MOST_BYTES"),
    ("x.py", "x = 1  # the server was told\n", "told"),
    ("x.py", 'x = "the peer says hello"\n', "says"),
    ("x.py", '"""Above: the client."""\n', "Above: "),
    ("x.py", "x = 1  # F-003\n", "F-003"),
    ("x.py", "x = 1  # docs/no-such-page.md\n", "docs/no-such-page.md"),
    ("x.py", '"""' + "line\n" * 6 + '"""\n', "a long module docstring"),
    ("x.md", "The server asks the user.\n", "asks"),
    ("x.md", "See docs/guarantees.md G99.\n", "G99"),
]


@pytest.mark.parametrize(("path", "text", "word"), PLANTED)
def test_a_planted_word_is_found(path: str, text: str, word: str) -> None:
    assert word in found(path, text)


def test_words_that_contain_a_forbidden_one_are_allowed() -> None:
    text = "task = basket = essay = foretell = MOSTLY = 1  # a task, the basket\n"
    assert found("x.py", text) == []
    assert found("x.py", "x = 1  # docs/README.md\n") == []


def test_every_row_has_a_replacement_and_every_exception_is_needed() -> None:
    for word in WORDS:
        assert word.instead
        for path, part in word.allow:
            files = [file for file in check_words.files() if file.startswith(path)]
            assert any(part in (check_words.ROOT / file).read_text(encoding="utf-8") for file in files), (path, part)


def test_the_command_prints_the_place_and_the_replacement(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_words.main(["tests/test_words.py"]) == 0
    finding = check_words.Finding("x.py", 3, "told", "report")
    assert str(finding) == "x.py:3: 'told'; write report"
    assert "no forbidden word" in capsys.readouterr().out
