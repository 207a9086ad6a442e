"""Change the protocol core in many small ways and list the changes that no test notices.

A forked process replaces the source of one module and runs its unit tests, the tests of its package and the searches.
The first failure kills the mutant. docs/design/mutation.md has the method and the survivors.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import fcntl
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import re
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path("packages/jackstay/src")
TESTS = Path("packages/jackstay/tests/protocol")
# The results, a copy of the tree, and its bytecode, which a second run uses again.
BUILD = ROOT / "build" / "mutation"
RESULTS = BUILD / "results.json"

# What is mutated, below SOURCE / jackstay / protocol.
TARGETS = ("client", "server", "wire", "_timers.py", "_machine.py")
COPIED = ("packages/jackstay", "tests", "conftest.py", "pyproject.toml")

# Searches that end within seconds. They find what depends on the order of events.
QUICK_SCENARIOS = {
    "client": f"{TESTS}/client/test_model.py",
    "server": f"{TESTS}/server/test_model.py",
}
SEARCHES = "(test_no_reachable_state or test_no_invariant) and not planted"
CPU_SECONDS = 240  # for one step of one mutant; a mutant that takes longer has lost its end condition
WALL_FACTOR = 20  # processes may wait for a core

Replacement = ast.AST | None


@dataclass(frozen=True)
class Mutant:
    """One change: `before` at a line of a file becomes `after`."""

    path: str  # below SOURCE
    scope: str
    line: int
    kind: str
    before: str
    after: str
    number: int  # in its file

    @property
    def key(self) -> str:
        """What identifies the change, wherever the code moves within its file."""
        return f"{self.path}:{self.scope}: {self.kind}: {self.before} -> {self.after}"


def first_line(node: ast.AST | Sequence[ast.AST]) -> str:
    """Return readable code for a table or a report."""
    text = ast.unparse(node) if isinstance(node, ast.AST) else ", ".join(ast.unparse(part) for part in node)
    lines = text.splitlines()
    return lines[0] + (" ..." if len(lines) > 1 else "")


FLIPPED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}


def negated(test: ast.expr) -> ast.expr:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    return ast.UnaryOp(ast.Not(), test)


def changes_of_expression(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield kinds of change and what replaces the expression."""
    match node:
        case ast.Compare(ops=[operator]):
            for flipped in FLIPPED[type(operator)]:
                changed = copy.deepcopy(node)
                changed.ops = [flipped()]
                yield "comparison", changed
        case ast.BoolOp(values=[_, _, *_]):
            changed_op = copy.deepcopy(node)
            changed_op.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield "connective", changed_op
            for index in range(len(node.values)):
                rest = [value for position, value in enumerate(node.values) if position != index]
                yield "dropped operand", rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
        case ast.BinOp(op=operator) if type(operator) in ARITHMETIC and not isinstance(
            node.left, ast.Constant | ast.Name
        ):
            yield "arithmetic", ast.BinOp(node.left, ARITHMETIC[type(operator)](), node.right)
        case ast.Constant(value=bool() as value):
            yield "constant", ast.Constant(not value)
        case ast.Constant(value=int() as number):
            yield "constant", ast.Constant(number + 1)
        case ast.Constant(value=float() as number):
            yield "constant", ast.Constant(number * 2 + 1)
        case ast.IfExp():
            yield "condition", ast.IfExp(negated(node.test), node.body, node.orelse)


def changes_of_table(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield changes of a table: two neighbouring cells swapped, an action removed, a row removed."""
    if isinstance(node, ast.Tuple) and all(isinstance(part, ast.Name | ast.Attribute | ast.Call) for part in node.elts):
        shown = [ast.dump(part) for part in node.elts]
        for index in range(len(shown) - 1):
            if shown[index] != shown[index + 1]:
                parts = list(node.elts)
                parts[index], parts[index + 1] = parts[index + 1], parts[index]
                yield "swapped cells", ast.Tuple(parts, ast.Load())
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Tuple):
        actions = node.args[0].elts
        for index in range(len(actions)):
            rest = [action for position, action in enumerate(actions) if position != index]
            yield "removed action", ast.Call(node.func, [ast.Tuple(rest, ast.Load()), *node.args[1:]], node.keywords)
    if isinstance(node, ast.Dict) and len(node.keys) > 1:
        for index in range(len(node.keys)):
            keys = [key for position, key in enumerate(node.keys) if position != index]
            values = [value for position, value in enumerate(node.values) if position != index]
            yield "removed entry", ast.Dict(keys, values)


def changes_of_statement(node: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    """Yield statements without their effect, and with the opposite condition."""
    match node:
        case ast.Expr(value=ast.Call() | ast.Await() | ast.Yield() | ast.YieldFrom()):
            yield "dropped statement", ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]) | ast.AugAssign() | ast.Delete():
            yield "dropped statement", ast.Pass()
        case ast.Return(value=None) | ast.Continue() | ast.Break() | ast.Raise():
            yield "dropped statement", ast.Pass()
        case ast.If() | ast.While():
            if not isinstance(node.test, ast.Compare | ast.Constant):  # comparisons are flipped as such
                changed = copy.copy(node)
                changed.test = negated(node.test)
                yield "condition", changed


def is_skipped(node: ast.AST) -> bool:
    """Whether nothing below is mutated: what only types, names or displays."""
    match node:
        case ast.AnnAssign(value=None) | ast.Import() | ast.ImportFrom() | ast.Assert():
            return True
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name in ("__slots__", "__all__") or is_alias(node.value)
        case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.FunctionDef(name=name):
            return name == "__repr__"
    return False


def is_alias(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in ("TypeVar", "NewType")


class Finder:
    """Finds the mutants of one file, and makes the source of the one whose number is wanted."""

    def __init__(self, path: str, text: str, wanted: int = -1) -> None:
        self.path, self.wanted = path, wanted
        self.tree = ast.parse(text)
        self.found: list[Mutant] = []
        self.seen: dict[str, int] = {}
        self.source = ""
        self._visit(self.tree, "")

    def _visit(self, node: ast.AST, scope: str) -> None:
        for name, value in ast.iter_fields(node):
            if isinstance(node, ast.ClassDef) and name == "keywords":  # `frozen=True` only prevents mistakes
                continue
            if name in ("annotation", "returns", "decorator_list", "bases", "type_params", "type_comment"):
                continue
            if isinstance(value, list):
                for index, child in enumerate(value):
                    if isinstance(child, ast.AST):
                        self._consider(child, scope, list_setter(value, index))
            elif isinstance(value, ast.AST):
                self._consider(value, scope, attribute_setter(node, name))

    def _consider(self, node: ast.AST, scope: str, put: Callable[[ast.AST], None]) -> None:
        if is_skipped(node):
            return
        changes = [*changes_of_expression(node)]
        if isinstance(node, ast.stmt):
            changes += changes_of_statement(node)
        if not scope:
            changes += changes_of_table(node)
        for kind, changed in changes:
            if len(self.found) == self.wanted:
                put(ast.copy_location(changed, node))
                self.source = ast.unparse(ast.fix_missing_locations(self.tree))
                put(node)
            self._add(node, changed, kind, scope)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            scope = f"{scope}.{node.name}" if scope else node.name
        self._visit(node, scope)

    def _add(self, before: ast.AST, after: ast.AST, kind: str, scope: str) -> None:
        if isinstance(before, ast.Dict) and isinstance(after, ast.Dict):
            removed = next(key for key in before.keys if key not in after.keys)
            shown = (first_line(removed) if removed else "**", "nothing")
        elif isinstance(before, ast.If | ast.While) and isinstance(after, ast.If | ast.While):
            shown = (first_line(before.test), first_line(after.test))
        elif isinstance(before, ast.Tuple) and isinstance(after, ast.Tuple):
            swapped = [pair for pair in zip(before.elts, after.elts, strict=True) if pair[0] is not pair[1]]
            shown = (first_line([pair[0] for pair in swapped]), first_line([pair[1] for pair in swapped]))
        else:
            shown = (first_line(before), first_line(after))
        # The same change twice in one function has a number.
        key = f"{scope}: {kind}: {shown}"
        count = self.seen[key] = self.seen.get(key, 0) + 1
        scope = scope if count == 1 else f"{scope}#{count}"
        self.found.append(Mutant(self.path, scope, getattr(before, "lineno", 0), kind, *shown, len(self.found)))


def list_setter(values: list[ast.AST], index: int) -> Callable[[ast.AST], None]:
    return lambda node: values.__setitem__(index, node)


def attribute_setter(owner: ast.AST, name: str) -> Callable[[ast.AST], None]:
    return lambda node: setattr(owner, name, node)


def draw(mutants: Iterable[Mutant], count: int, seed: str) -> list[Mutant]:
    """Return `count` mutants, in turns over the kinds, in an order that depends on `seed` and each mutant alone."""
    kinds: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        kinds.setdefault(mutant.kind, []).append(mutant)
    for group in kinds.values():
        group.sort(key=lambda mutant: hashlib.sha256(f"{seed} {mutant.key}".encode()).digest())
    drawn: list[Mutant] = []
    while len(drawn) < count and any(kinds.values()):
        for kind in sorted(kinds):
            drawn += kinds[kind][:1]
            del kinds[kind][:1]
    return drawn[:count]


# --- running ----------------------------------------------------------------------------------------------------------


class Replaced(importlib.machinery.SourceFileLoader):
    """Loads one module from the mutated source."""

    text = ""

    def get_code(self, fullname: str) -> object:  # type: ignore[override]
        return compile(self.text, self.get_filename(fullname), "exec", dont_inherit=True)


class Replacer(importlib.abc.MetaPathFinder):
    """Finds the mutated module before everything else."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        loader = Replaced(fullname, spec.origin)
        loader.text = self.text
        spec.loader = loader
        return spec


def module_of(path: str) -> str:
    name = path.removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__")


def steps(path: str, tree: Path) -> list[list[str]]:
    """Return the arguments of pytest for each step, the narrowest first."""
    below = Path(path).relative_to("jackstay/protocol")
    folder = TESTS / below.parent
    stem = below.stem.strip("_")
    narrow = [str(found.relative_to(tree)) for found in sorted((tree / folder).glob(f"test_{stem}*.py"))]
    package = below.parts[0] if len(below.parts) > 1 else ""
    around = [str(TESTS / package)] if package else [str(TESTS / "client"), str(TESTS / "server")]
    if package == "wire":
        around += [
            str(TESTS / "client" / "test_message_classifier.py"),
            str(TESTS / "server" / "test_message_classifier.py"),
        ]
    searched = [path for name, path in QUICK_SCENARIOS.items() if package in ("", name)]
    return [narrow, ["-m", "not long", *around], ["-k", SEARCHES, *searched] if searched else []]


class Quick:
    """Hypothesis without shrinking and with fewer examples: one failure is enough."""

    def pytest_collection_finish(self) -> None:
        hypothesis = importlib.import_module("hypothesis")
        hypothesis.settings.register_profile(
            "mutation",
            hypothesis.settings.get_profile("quick"),
            max_examples=25,
            phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
            report_multiple_bugs=False,
        )
        hypothesis.settings.load_profile("mutation")


def run_tests(mutant: Mutant | None, arguments: list[str], log: Path) -> int:
    """Run pytest in this (forked) process; return its exit code."""
    with log.open("wb") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 10))
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    if mutant is not None:
        text = (SOURCE / mutant.path).read_text()
        sys.meta_path.insert(0, Replacer(module_of(mutant.path), Finder(mutant.path, text, mutant.number).source))
    pytest = importlib.import_module("pytest")
    options = ["-x", "-q", "-p", "no:cacheprovider"]
    options += ["-W", "ignore:Module already imported"]  # on purpose: the forked processes share it
    return int(pytest.main([*options, *arguments], plugins=[Quick()]))


def fork(work: Callable[[], int]) -> int:
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            os.setpgid(0, 0)
            code = work()
        except BaseException:  # noqa: BLE001  # the process ends here
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return pid


@dataclass
class Running:
    """A mutant and the steps that it has not passed; the first of them runs."""

    mutant: Mutant
    steps: list[list[str]]
    log: Path
    deadline: float


class Pool:
    """Runs mutants in forked processes, at most `jobs` at a time."""

    def __init__(self, tree: Path, jobs: int, report: Callable[[Mutant, str, str], None]) -> None:
        self.tree, self.jobs, self.report = tree, jobs, report
        self.running: dict[int, Running] = {}

    def run(self, mutants: Iterable[tuple[Mutant, list[list[str]]]]) -> None:
        for mutant, its_steps in mutants:
            while len(self.running) >= self.jobs:
                self._reap()
            self._start(Running(mutant, its_steps, self.tree / f"log-{id(mutant)}", 0.0))
        while self.running:
            self._reap()

    def stop(self) -> None:
        for pid in self.running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _start(self, item: Running) -> None:
        item.steps = [step for step in item.steps if step]
        if not item.steps:
            self.report(item.mutant, "survived", "")
            return
        item.deadline = time.monotonic() + CPU_SECONDS * WALL_FACTOR
        pid = fork(lambda: run_tests(item.mutant, item.steps[0], item.log))
        self.running[pid] = item

    def _reap(self) -> None:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            for late, item in self.running.items():
                if time.monotonic() > item.deadline:
                    os.kill(late, signal.SIGKILL)
            time.sleep(0.05)
            return
        item = self.running.pop(pid)
        code = os.waitstatus_to_exitcode(status)
        text = item.log.read_text(errors="replace")
        item.log.unlink()
        if code == 0:
            del item.steps[0]
            self._start(item)
        else:
            self.report(item.mutant, "killed", f"ended by signal {-code}" if code < 0 else failure(text))


def failure(text: str) -> str:
    """Return the first failed test or error of pytest's output."""
    found = re.search(r"^(?:FAILED|ERROR|SUBFAILED\S*) (\S+)", text, re.MULTILINE)
    if found:
        return found[1].removeprefix(f"{TESTS}/")
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no output")[:120]


def all_mutants(tree: Path) -> list[Mutant]:
    base = tree / SOURCE
    paths: list[Path] = []
    for target in TARGETS:
        path = base / "jackstay" / "protocol" / target
        paths += [path] if path.is_file() else sorted(path.rglob("*.py"))
    return [
        mutant
        for path in paths
        if path.name != "__init__.py" or "lazy" not in path.read_text()
        for mutant in Finder(str(path.relative_to(base)), path.read_text()).found
    ]


def copy_tree(target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    ignore = shutil.ignore_patterns("__pycache__", ".*")
    for name in COPIED:
        source = ROOT / name
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=ignore)
        else:
            shutil.copy2(source, target / name)


def load_results() -> dict[str, dict[str, str]]:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=300, help="how many mutants are drawn (300)")
    parser.add_argument("--seed", default="1", help="which ones are drawn")
    parser.add_argument("--jobs", type=int, default=2, help="how many run at a time (2)")
    parser.add_argument("--only", default="", help="a regular expression over file:scope: kind: before -> after")
    parser.add_argument("--steps", type=int, default=3, help="1: tests of the module; 2: of its package; 3: searches")
    parser.add_argument("--list", action="store_true", help="print the mutants and run none")
    parser.add_argument("--again", action="store_true", help="run survivors of an earlier run again")
    options = parser.parse_args()
    if options.list:
        for mutant in draw(all_mutants(ROOT), options.count, options.seed):
            print(f"{mutant.path}:{mutant.line}: {mutant.kind}: {mutant.before} -> {mutant.after}")
        return 0
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # one run at a time: they share the tree and the results
        return run(BUILD / "tree", options)


def run(tree: Path, options: argparse.Namespace) -> int:
    copy_tree(tree)
    found = all_mutants(tree)
    drawn = [mutant for mutant in draw(found, options.count, options.seed) if re.search(options.only, mutant.key)]
    print(f"{len(found)} possible mutants, {len(drawn)} drawn with seed {options.seed}", flush=True)
    results = load_results()
    # A result holds for the source that it was found with, and a survivor only for the tests of that time.
    digests = {
        mutant.key: hashlib.sha256((tree / SOURCE / mutant.path).read_bytes()).hexdigest()[:16] for mutant in drawn
    }

    def is_known(mutant: Mutant) -> bool:
        known = results.get(mutant.key, {})
        if known.get("source") != digests[mutant.key]:
            return False
        return known["result"] == "killed" or (not options.again and int(known["steps"]) >= options.steps)

    todo = [mutant for mutant in drawn if not is_known(mutant)]
    os.chdir(tree)
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(BUILD / "bytecode")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for module in ("pytest", "hypothesis", "hypothesis.stateful", "msgspec", "_pytest.assertion.rewrite"):
        importlib.import_module(module)
    if todo and not is_sound(tree, todo):
        return 2

    def report(mutant: Mutant, result: str, reason: str) -> None:
        results[mutant.key] = {
            "result": result,
            "reason": reason,
            "source": digests[mutant.key],
            "steps": str(options.steps),
        }
        RESULTS.write_text(json.dumps(results, indent=1))
        line = f"{mutant.path}:{mutant.line}: {mutant.kind}: {mutant.before} -> {mutant.after}"
        print(f"{result}: {line}{f'  ({reason})' if reason else ''}", flush=True)

    def first_step(mutant: Mutant) -> int:
        known = results.get(mutant.key, {})
        is_valid = known.get("source") == digests[mutant.key] and not options.again
        return int(known["steps"]) if is_valid else 0

    pool = Pool(tree, options.jobs, report)
    try:
        pool.run([(mutant, steps(mutant.path, tree)[first_step(mutant) : options.steps]) for mutant in todo])
    finally:
        pool.stop()
    survivors = [mutant for mutant in drawn if results[mutant.key]["result"] == "survived"]
    print(f"\n{len(drawn)} mutants, {len(drawn) - len(survivors)} killed, {len(survivors)} survived")
    for mutant in survivors:
        print(f"{mutant.path}:{mutant.line}: {mutant.scope}: {mutant.kind}: {mutant.before} -> {mutant.after}")
    return 0


def is_sound(tree: Path, mutants: Iterable[Mutant]) -> bool:
    """Whether the tests pass without a mutation; this also stores their bytecode."""
    wanted = {tuple(steps(mutant.path, tree)[1]) for mutant in mutants}
    log = tree / "log"
    for step in sorted(wanted):
        began = time.monotonic()
        pid = fork(lambda step=step: run_tests(None, list(step), log))  # type: ignore[misc]
        _, status = os.waitpid(pid, 0)
        if status:
            print(f"the tests fail without a mutation: {' '.join(step)}\n{log.read_text()}")
            return False
        print(f"passes without a mutation in {time.monotonic() - began:.1f} s: {' '.join(step)[:100]}", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
