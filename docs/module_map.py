"""Prints docs/modules.md: every module with the first sentence of its docstring (``make modules``)."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("ptx_engine", "volta_pass", "hooks/volta_hooks")


def first_sentence(path: Path) -> str:
    """The first sentence of a module's docstring, on one line."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    sentence, stop, _ = paragraph.partition(". ")
    return sentence + stop.strip()


def main() -> None:
    """Print the page."""
    print("# Modules\n\nMade from the modules' docstrings by `make modules`; do not edit. How they hang together: `docs/architecture.md`.")
    for folder in FOLDERS:
        packages = sorted({path.parent for path in (ROOT / folder).rglob("*.py")})
        for package in packages:
            print(f"\n## {package.relative_to(ROOT).as_posix()}\n")
            for path in sorted(package.glob("*.py")):
                if path.name == "__init__.py":
                    print(f"{first_sentence(path)}\n")
                else:
                    print(f"* `{path.name}`: {first_sentence(path)}")


if __name__ == "__main__":
    main()
