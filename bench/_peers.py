"""The other libraries, by name and version, each in its own environment under `bench/`.

The environments are created on first use and kept. Where the installed packages matter, Jackstay also has its own
environment.
"""

import hashlib
import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent

# What uvicorn is fastest with: over HTTP every server is measured with it and without.
FAST = ["httptools", "uvloop"]

# Environment -> what is installed into it.
ENVIRONMENTS = {
    "mcp-1.30.0": ["mcp==1.30.0", *FAST],
    "mcp-2.3.0": ["mcp==2.3.0", *FAST],
    "fastmcp-3.4.10": ["fastmcp==3.4.10", *FAST],
    "fastmcp-4.1.2": ["fastmcp==4.1.2", *FAST],
    "apcore-mcp-0.23.3": ["apcore-mcp==0.23.3"],
    "jackstay-apcore": ["--editable", f"{HERE.parent}[apcore]"],
}
PUBLIC_BRIDGE = "apcore-mcp-0.23.3"
OUR_BRIDGE = "jackstay-apcore"

# The same for node: one environment, one package.
TYPESCRIPT = "@modelcontextprotocol/sdk@1.32.2"


def node_of(program: Path) -> list[str]:
    """The command that runs a program of node's beside the official TypeScript SDK, installed if need be.

    Empty if node is not installed: then that peer is left out, with a message.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        print(f"node is not here: {program.name} is left out")
        return []
    folder = HERE / f".env-typescript-{TYPESCRIPT.rpartition('@')[2]}"
    stamp = folder / ".installed"
    if not stamp.exists():
        print(f"installing {TYPESCRIPT} ...", flush=True)
        folder.mkdir(exist_ok=True)
        subprocess.run(
            [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), TYPESCRIPT],
            check=True,
        )
        stamp.touch()
    # Node looks for packages beside the program and above it, and nowhere else.
    return [node, shutil.copy(program, folder)]


def python_of(environment: str | None) -> str:
    """The interpreter of a peer's environment, made if need be; None: ours."""
    if environment is None:
        return sys.executable
    folder = HERE / f".env-{environment}"
    python = folder / "bin" / "python"
    stamp = folder / ".installed"
    packages = ENVIRONMENTS[environment]
    made_of = " ".join(packages)
    if "--editable" in packages:
        # Our own dependencies change without a version.
        made_of += " " + hashlib.sha256((HERE.parent / "pyproject.toml").read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != made_of:
        print(f"installing {environment} ...", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run(
            [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages], check=True
        )
        stamp.write_text(made_of, encoding="utf-8")
    return str(python)
