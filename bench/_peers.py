"""The peers we are measured beside, by name and version, each in an environment of its own under `bench/`.

Made on first use, from the registries, and kept. One place for the versions; the programs print them.
"""

import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent

# Environment -> what is installed into it.
ENVIRONMENTS = {
    "mcp-1.30.0": ["mcp==1.30.0"],
    "mcp-2.3.0": ["mcp==2.3.0"],
    "fastmcp-3.4.10": ["fastmcp==3.4.10"],
    "fastmcp-4.1.2": ["fastmcp==4.1.2"],
}


def python_of(environment: str | None) -> str:
    """The interpreter of a peer's environment, made if need be; None: ours."""
    if environment is None:
        return sys.executable
    folder = HERE / f".env-{environment}"
    python = folder / "bin" / "python"
    stamp = folder / ".installed"
    if not stamp.exists():
        print(f"installing {environment} ...", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        packages = ENVIRONMENTS[environment]
        subprocess.run(
            [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages], check=True
        )
        stamp.touch()
    return str(python)
