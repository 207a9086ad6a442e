"""Parsing of docstrings in three styles, and of prose."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.server._docstrings import Docstring, read_docstring

GOOGLE = """Print it.

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
NUMPY = """Print it.

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
REST = """Print it.

    :param city: The city,
        in any spelling.
    :type city: str
    :param int days: How many.
    :returns: A forecast.
    """

ROWS = [
    (None, "", {}),
    ("", "", {}),
    ("Only prose.", "Only prose.", {}),
    (
        GOOGLE,
        "Print it.\n\nMore of it.\n\nReturns:\n    A forecast.",
        {"city": "The city, in any spelling.", "days": "How many.", "rest": "The rest."},
    ),
    (
        NUMPY,
        "Print it.\n\nReturns\n-------\nForecast\n    A forecast.",
        {"city": "The city, in any spelling.", "days": "How many.", "weeks": "How many."},
    ),
    (
        REST,
        "Print it.\n\n:returns: A forecast.",
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


def test_read_docstring(subtests: pytest.Subtests) -> None:
    for text, description, parameters in ROWS:
        with subtests.test(text=text, description=description, parameters=parameters):
            assert read_docstring(text) == Docstring(description, parameters)


@given(st.text(alphabet="Args:Parameters\n -:param x\t*()", max_size=200))
def test_any_prose_can_be_read(text: str) -> None:
    read = read_docstring(text)
    assert all(name.isidentifier() or name.isdigit() for name in read.parameters)
