"""Makes every event loop that asyncio makes in this process a uvloop one.

Run by `conftest.py` where `JACKSTAY_LOOP=uvloop`, and then also at the start of every Python that the tests start from
the same environment (see `install()`). `asyncio.run()`, `asyncio.Runner` and `asyncio.new_event_loop()` are covered; a loop
whose class is named, such as the fake clock's, is what it is. asyncio is not imported before the program does so: some tests
check what an import loads.
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
    """Have `use_uvloop()` run at the start of every Python of this environment that has `JACKSTAY_LOOP=uvloop` set.

    A file in the environment and not a variable such as PYTHONPATH, because tests give children a PYTHONPATH of their own.
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
