"""The guide of typed clients: the generated module is up to date, and the program runs."""

import subprocess
import sys

import pytest

from guides.loading import ENVIRONMENT, GUIDES, ROOT
from jackstay.cli import main


def test_the_generated_module_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--timeout", "240", "--", sys.executable, str(ROOT / "examples" / "weather.py")]) == 0
    assert capsys.readouterr().out == (GUIDES / "weather_client.py").read_text(encoding="utf-8")


def test_the_program_runs() -> None:
    done = subprocess.run(
        [sys.executable, GUIDES / "typed_client.py"], capture_output=True, text=True, env=ENVIRONMENT, check=False
    )
    assert (done.stdout, done.stderr) == ("day 1: 20 degrees\nday 2: 19 degrees\n", "")
