"""The .pth line and the import hook: nothing of ours without the variable, nothing but the standard library with it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PTH = ROOT / "hooks" / "volta_pass_autoload.pth"
SHOW = (
    "import sys; print(sorted(m for m in sys.modules if m.split('.')[0] in ('volta_hooks', 'volta_pass', 'ptx_engine', 'triton', 'numpy')))"
)


def started(value, code=SHOW):
    """Run ``code`` in an interpreter that executes the .pth line first, as ``site`` does."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("VOLTA_")}
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "hooks")])
    if value is not None:
        env["VOLTA_VALIDATE"] = value
    program = f"exec({PTH.read_text()!r})\n{code}"
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done


def test_the_pth_file_is_one_line_that_site_executes():
    text = PTH.read_text()
    assert text.startswith("import ") and text.count("\n") == 1


@pytest.mark.parametrize("value", [None, "", "0", "off"])
def test_nothing_of_ours_is_imported_without_the_variable(value):
    assert started(value).stdout == "[]\n"


def test_with_the_variable_only_the_import_hook_is_loaded():
    assert started("1").stdout == "['volta_hooks', 'volta_hooks.autoload']\n"


FAKE = """
import sys, types
sys.path.insert(0, {folder!r})
import volta_hooks
hook = types.ModuleType("volta_hooks.triton")
def install():
    import triton
    print("installed", hasattr(triton, "READY"), type(triton.__spec__.loader).__name__)
hook.install = install
sys.modules["volta_hooks.triton"] = hook
import {module}
import {module}
print("over")
"""


@pytest.mark.parametrize("module, expected", [("triton", "installed True SourceFileLoader\nover\n"), ("other", "over\n")])
def test_the_hook_follows_the_compilers_import_once(tmp_path, module, expected):
    (tmp_path / f"{module}.py").write_text("READY = True\n")
    assert started("1", FAKE.format(folder=str(tmp_path), module=module)).stdout == expected


@pytest.mark.parametrize("version, said", [("3.6.0", "too old"), ("2.1.0", "too old"), ("3.10.1", "newer than"), ("unknown", "too old")])
def test_an_unsupported_triton_is_refused_with_a_clear_message_and_still_works(tmp_path, version, said):
    (tmp_path / "triton.py").write_text(f"__version__ = {version!r}\n")
    done = started("1", f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport triton\nprint(triton.__version__)")
    assert done.stdout == f"{version}\n"
    assert f"Triton {version} is {said}" in done.stderr and "pip install" in done.stderr and "Traceback" not in done.stderr


def test_strict_mode_refuses_to_import_an_unsupported_triton(tmp_path):
    (tmp_path / "triton.py").write_text("__version__ = '3.6.0'\n")
    code = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\ntry:\n    import triton\nexcept Exception as error:\n    print(error)"
    assert "too old" in started("strict", code).stdout
