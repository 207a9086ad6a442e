"""Makes asyncio create uvloop event loops in this process, for `JACKSTAY_LOOP=uvloop`.

Run by `conftest.py`, and at the start of every Python process of the same environment (see `install()`). A loop whose
class is named, such as the fake clock's, is not changed. asyncio is not imported early: some tests check what an import
loads.
"""

import importlib.machinery
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Sequence
from types import ModuleType
from typing import Any

NAMES = ("asyncio", "uvloop")
PTH = "jackstay_test_loop.pth"


def new_event_loop() -> Any:
    """A uvloop event loop."""
    import uvloop  # with the first loop, as a program would

    # libuv aborts the process when it closes a descriptor of its own whose number is below 3.
    for standard in range(3):
        try:
            os.fstat(standard)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    return uvloop.new_event_loop()


def patch(asyncio: Any) -> None:
    """Let this module, which is `asyncio`, make uvloop's loops."""
    asyncio.events.new_event_loop = asyncio.new_event_loop = new_event_loop


class Finder:
    """Patches asyncio as soon as it was imported."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Only asyncio's, once."""
        if name != "asyncio":
            return None
        sys.meta_path.remove(cls)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        loader: Any = spec.loader
        load = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            patch(module)

        loader.exec_module = exec_module
        return spec


def use_uvloop() -> None:
    """From now on."""
    if "asyncio" in sys.modules:
        patch(sys.modules["asyncio"])
    else:
        sys.meta_path.insert(0, Finder)


def install() -> None:
    """Run `use_uvloop()` at the start of every Python of this environment with `JACKSTAY_LOOP=uvloop`.

    A file and not a variable such as PYTHONPATH, because tests set their own PYTHONPATH for child processes.
    Raises: OSError.
    """
    path = os.path.join(sysconfig.get_path("purelib"), PTH)
    code = f"__import__('runpy').run_path({os.path.abspath(__file__)!r}, run_name='jackstay_test_loop')"
    line = f'import os; os.environ.get("JACKSTAY_LOOP") == "uvloop" and {code}\n'
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == line:
                return
    except FileNotFoundError:
        pass
    fresh = f"{path}.{os.getpid()}"
    with open(fresh, "w", encoding="utf-8") as file:
        file.write(line)
    os.replace(fresh, path)


if __name__ == "jackstay_test_loop":
    use_uvloop()
