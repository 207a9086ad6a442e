"""What is read out of docstrings of three habits, and out of prose that has none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.server._docstrings import Docstring, read_docstring

GOOGLE = """Say it.

    More of it.

    Args:
        city: The city,
            in any spelling.
        days (int): How many.

        *rest: The rest.
        not a parameter
    Returns:
        A forecast.
    """
NUMPY = """Say it.

    Parameters
    ----------
    city : str
        The city,
        in any spelling.
    days, weeks : int
        How many.
    bare

    Returns
    -------
    Forecast
        A forecast.
    """
REST = """Say it.

    :param city: The city,
        in any spelling.
    :type city: str
    :param int days: How many.
    :returns: A forecast.
    """

ROWS = [
    (None, "", {}),
    ("", "", {}),
    ("Only words.", "Only words.", {}),
    (
        GOOGLE,
        "Say it.\n\nMore of it.\n\nReturns:\n    A forecast.",
        {"city": "The city, in any spelling.", "days": "How many.", "rest": "The rest."},
    ),
    (
        NUMPY,
        "Say it.\n\nReturns\n-------\nForecast\n    A forecast.",
        {"city": "The city, in any spelling.", "days": "How many.", "weeks": "How many."},
    ),
    (
        REST,
        "Say it.\n\n:returns: A forecast.",
        {"city": "The city, in any spelling.", "days": "How many."},
    ),
    ("Args:", "", {}),
    ("\n    Args:\n        city: here\n    ", "", {"city": "here"}),
    ("Args:\nflush prose", "flush prose", {}),
    ("Parameters\n----------", "", {}),
    ("Parameters\n----------\nprose that goes on, and ends.", "prose that goes on, and ends.", {}),
    ("Parameters\n----------\ncity\n    here", "", {"city": "here"}),
    ("Parameters are many", "Parameters are many", {}),
    ("Parameters", "Parameters", {}),
    (":param city: one\n:param city: two", "", {"city": "one"}),
]


@pytest.mark.parametrize(("text", "description", "parameters"), ROWS)
def test_a_docstring_says(text: str | None, description: str, parameters: dict[str, str]) -> None:
    assert read_docstring(text) == Docstring(description, parameters)


@given(st.text(alphabet="Args:Parameters\n -:param x\t*()", max_size=200))
def test_any_prose_can_be_read(text: str) -> None:
    read = read_docstring(text)
    assert all(name.isidentifier() or name.isdigit() for name in read.parameters)
