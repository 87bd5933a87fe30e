"""The tree is the architecture: imports point one way, compilers stay in their adapters, files stay small."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = {"ptx_engine": ROOT / "ptx_engine", "volta_pass": ROOT / "volta_pass", "volta_hooks": ROOT / "hooks" / "volta_hooks"}

#: unit -> units it may import; a unit is a package, or a sub-package or module of ptx_engine
ALLOWED: dict[str, set[str]] = {
    "ptx_engine.errors": set(),
    "ptx_engine.findings": set(),
    "ptx_engine.verdict": set(),
    "ptx_engine.watching": set(),
    "ptx_engine.terms": set(),
    "ptx_engine.launch": {"ptx_engine.terms", "ptx_engine.errors"},
    "ptx_engine.syntax": {"ptx_engine.errors"},
    "ptx_engine.isa": {"ptx_engine.terms", "ptx_engine.syntax", "ptx_engine.errors"},
    "ptx_engine.decide": {"ptx_engine.terms", "ptx_engine.verdict", "ptx_engine.launch", "ptx_engine.errors"},
    "ptx_engine.order": {"ptx_engine.findings", "ptx_engine.launch", "ptx_engine.errors"},
    "ptx_engine.machine": {
        "ptx_engine.errors", "ptx_engine.findings", "ptx_engine.verdict", "ptx_engine.terms", "ptx_engine.launch", "ptx_engine.syntax",
        "ptx_engine.isa", "ptx_engine.order", "ptx_engine.decide", "ptx_engine.watching",
    },
    "volta_pass": {"ptx_engine"},
    "volta_hooks": {"ptx_engine", "volta_pass"},
}  # fmt: skip

#: packages that only their own adapters may import, and those adapters
COMPILERS = {"triton", "mlir", "iree", "jaxlib", "torch", "torch_mlir", "tilelang", "tvm"}
ADAPTERS = {
    "volta_hooks.triton", "volta_hooks.triton_driver", "volta_hooks.triton_errors", "volta_hooks.triton_guard",
    "volta_hooks.triton_knobs", "volta_hooks.triton_recipe", "volta_hooks.triton_runtime", "volta_hooks.tilelang",
    "volta_hooks.tilelang_again", "volta_hooks.tilelang_arguments", "volta_hooks.tilelang_calls", "volta_hooks.tilelang_gemm", "volta_hooks.tilelang_guard", "volta_hooks.tilelang_launch",
    "volta_hooks.tilelang_ptx", "volta_hooks.tilelang_runtime", "volta_hooks.tilelang_source", "volta_hooks.tilelang_stand_in", "volta_hooks.tilelang_threads",
    "volta_hooks.tilelang_tool", "volta_hooks.tilelang_tuner", "volta_pass.baseline.recompile", "volta_pass.check.triton_library",
    "volta_pass.check.triton_side", "volta_pass.references.generic", "volta_pass.references.mlir_binding",
}  # fmt: skip

FORBIDDEN_NAMES = {"utils", "util", "common", "helpers", "helper", "misc"}
MAX_LINES = 500
MAX_FUNCTION_LINES = 60


def modules() -> Iterator[tuple[str, Path]]:
    """Dotted name and path of every module of ours."""
    for package, folder in PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            yield ".".join((package, *(part for part in parts if part != "__init__"))), path


MODULES = dict(modules())
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}


def imports(tree: ast.Module) -> Iterator[str]:
    """Dotted names that a module imports anywhere, those for type checkers only left out."""
    typing_only = {
        id(node)
        for guard in ast.walk(tree)
        if isinstance(guard, ast.If) and ast.unparse(guard.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for node in ast.walk(guard)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno} imports relatively"
            assert node.module is not None
            for alias in node.names:
                dotted = f"{node.module}.{alias.name}"
                yield dotted if dotted in MODULES else node.module


def unit_of(dotted: str) -> str:
    """The row of the table that a module of ours belongs to."""
    parts = dotted.split(".")
    return ".".join(parts[:2]) if parts[0] == "ptx_engine" and len(parts) > 1 else parts[0]


@pytest.mark.parametrize("name", [name for name in MODULES if name != "ptx_engine"])
def test_imports_point_one_way(name: str) -> None:
    unit = unit_of(name)
    allowed = ALLOWED[unit]
    for imported in imports(TREES[name]):
        if imported.split(".")[0] not in PACKAGES:
            continue
        target = unit_of(imported)
        assert target == unit or target in allowed or target.split(".")[0] in allowed, f"{name} imports {imported}"


def test_the_table_is_the_tree() -> None:
    present = {unit_of(name) for name in MODULES} - {"ptx_engine"}
    assert present == set(ALLOWED)
    assert set(ADAPTERS) <= set(MODULES)


def test_a_forbidden_arrow_would_be_seen() -> None:
    tree = ast.parse("def f():\n    from volta_pass.report import write_json\n")
    assert list(imports(tree)) == ["volta_pass.report"]
    assert unit_of("volta_pass.report") not in ALLOWED["ptx_engine.machine"]


@pytest.mark.parametrize("name", [name for name in MODULES if name not in ADAPTERS])
def test_compilers_stay_in_their_adapters(name: str) -> None:
    assert not COMPILERS & {imported.split(".")[0] for imported in imports(TREES[name])}


@pytest.mark.parametrize("name", list(MODULES))
def test_files_and_functions_stay_small(name: str) -> None:
    text = MODULES[name].read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MAX_LINES, f"{name} has {len(text.splitlines())} lines"
    tree = TREES[name]
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= MAX_FUNCTION_LINES, f"{name}.{node.name} has {length} lines"
    documentation = ast.get_docstring(tree)
    assert documentation and len(documentation.splitlines()) <= 15, f"{name} needs a module docstring of at most 15 lines"


@pytest.mark.parametrize("name", list(MODULES))
def test_names_name_a_job(name: str) -> None:
    assert not FORBIDDEN_NAMES & set(name.split("."))


def test_nothing_untrusted_is_evaluated_or_unpickled() -> None:
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "eval", f"{name}:{node.lineno} calls eval"
        assert not {"pickle", "shelve", "marshal"} & {imported.split(".")[0] for imported in imports(TREES[name])}, name


def imported_by(statement: str) -> set[str]:
    """Top-level names in ``sys.modules`` after a statement in a fresh interpreter."""
    code = f"import sys; sys.path[:0] = {[str(ROOT), str(ROOT / 'hooks')]!r}; {statement}; print(' '.join(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import volta_pass", {"numpy", "triton", "torch", "iree", "ptx_engine", "gmpy2", "rich"}),
        ("import volta_pass.cli.arguments", {"triton", "torch", "iree", "numpy", "rich"}),
        ("import volta_pass.spec, volta_pass.check, volta_pass.report, volta_pass.doctor", {"triton", "torch", "iree", "jaxlib"}),
        ("import ptx_engine.machine, ptx_engine.decide", {"triton", "torch", "iree", "volta_pass"}),
        ("import volta_hooks.autoload", {"numpy", "triton", "volta_pass", "ptx_engine"}),
    ],
)
def test_imports_are_lazy(statement: str, absent: set[str]) -> None:
    assert not absent & imported_by(statement)


def test_every_public_name_is_there() -> None:
    import volta_pass

    for name in volta_pass.__all__:
        assert getattr(volta_pass, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        volta_pass.nonsense  # noqa: B018


def test_files_of_tests_have_names_of_their_own() -> None:
    """Two of one name cannot be collected together; TileLang's run by themselves."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py") if "tilelang" not in path.parts]
    assert sorted(set(names)) == sorted(names)
