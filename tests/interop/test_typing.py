"""A user's program passes pyright in strict mode.

The program is `tests/typed/user_program.py`; `make types` checks the same file with mypy.
"""

import json
import subprocess
import sys
from pathlib import Path

from interop.peers import BY_NAME, ROOT, node

PROGRAM = (ROOT / "tests" / "typed" / "user_program.py").read_text(encoding="utf-8")


def diagnostics(folder: Path, program: str) -> list[str]:
    """Return the diagnostics of pyright for the program, with the packages of this environment."""
    (folder / "user_program.py").write_text(program, encoding="utf-8")
    settings = {
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "include": ["user_program.py"],
        "reportUnnecessaryTypeIgnoreComment": True,
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    pyright = BY_NAME["pyright"].home / "node_modules" / "pyright" / "index.js"
    done = subprocess.run(
        [node(), pyright, "--outputjson", "--pythonpath", sys.executable, "-p", folder],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
        cwd=folder,
    )
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 1, done.stdout
    return [found["message"] for found in report["generalDiagnostics"]]


def test_a_users_program_passes_pyright_strict(tmp_path: Path) -> None:
    assert diagnostics(tmp_path, PROGRAM) == []


def test_a_wrong_type_is_reported(tmp_path: Path) -> None:
    """The check above can fail: the types are known to pyright, not inferred as unknown."""
    wrong_program = PROGRAM.replace("assert_type(result.text, str)", "assert_type(result.text, int)")
    assert wrong_program != PROGRAM
    assert diagnostics(tmp_path, wrong_program)
