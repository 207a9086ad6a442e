"""The examples of the guides, as modules and as commands."""

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

from scripted.places import PYTHONPATH

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "examples" / "guides"
FAULTY = Path(__file__).with_name("faulty_shop.py")
SOURCE = {"PYTHONPATH": PYTHONPATH}
ENVIRONMENT = {**os.environ, **SOURCE}


def load(name: str) -> ModuleType:
    """An example, as a module of its own."""
    spec = importlib.util.spec_from_file_location(f"guide_{name}", GUIDES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
