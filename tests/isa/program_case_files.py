"""Which case files there are of instructions that are no function of one thread's registers, the ISA's section of each, and what makes them.

``python -m program_case_files`` in ``tests/isa`` writes them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from program_cases import FOLDER, Block, written
from program_control import barriers, branches, calls, endings, externs, mbarriers
from program_matrices import matrix_loads, matrix_stores, products, sparse_products, transpositions, warp_products
from program_memory import accesses, addresses, atomic, carries, copies, hints, parameters, spaces, uniform
from program_warps import active, elections, matches, moves, reductions, shuffles, votes

_MOVE, _SYNC = "Data Movement and Conversion Instructions: ", "Parallel Synchronization and Communication Instructions: "
_MATRIX, _MISC = "Warp Level Matrix Multiply-Accumulate Instructions: ", "Miscellaneous Instructions: "
#: file -> section of the PTX ISA 9.1, and its blocks
FILES: dict[str, tuple[str, Callable[[], list[Block]]]] = {
    "ld-st": (_MOVE + "ld, st", accesses), "ld-st-param": (_MOVE + "ld, st; Kernel Function Parameters", parameters), "ldu": (_MOVE + "ldu", uniform),
    "atom": (_SYNC + "atom", partial(atomic, "atom")), "red": (_SYNC + "red", partial(atomic, "red")), "cp.async": (_MOVE + "cp.async", copies),
    "cvta": (_MOVE + "cvta", addresses), "isspacep": (_MOVE + "isspacep", spaces), "mov": (_MOVE + "mov; Special Registers", moves),
    "carry": ("Extended-Precision Integer Arithmetic Instructions", carries), "shfl": (_MOVE + "shfl.sync", shuffles),
    "vote": (_SYNC + "vote.sync", votes), "match": (_SYNC + "match.sync", matches), "redux": (_SYNC + "redux.sync", reductions),
    "elect": (_SYNC + "elect.sync", elections), "activemask": (_SYNC + "activemask", active),
    "mma": (_MATRIX + "mma", products), "mma.sp": (_MATRIX + "mma.sp", sparse_products), "wmma": (_MATRIX + "wmma.load, wmma.store, wmma.mma", warp_products),
    "ldmatrix": (_MATRIX + "ldmatrix", matrix_loads), "stmatrix": (_MATRIX + "stmatrix", matrix_stores), "movmatrix": (_MATRIX + "movmatrix", transpositions),
    "mbarrier": (_SYNC + "mbarrier", mbarriers), "bar": (_SYNC + "bar", partial(barriers, "bar")), "barrier": (_SYNC + "barrier", partial(barriers, "barrier")),
    "branch": ("Control Flow Instructions: bra, brx.idx, ret", branches), "call": ("Control Flow Instructions: call, ret", calls),
    **{name: (section, partial(endings, name)) for name, section in (
        ("ret", "Control Flow Instructions: ret"), ("exit", "Control Flow Instructions: exit"), ("trap", _MISC + "trap"))},
    "extern": ("no section: functions without a body that a launch declares to be operators ([externs])", externs),
    **{name: (section, partial(hints, name)) for name, section in (
        ("prefetch", _MOVE + "prefetch"), ("prefetchu", _MOVE + "prefetchu"), ("applypriority", _MOVE + "applypriority"),
        ("createpolicy", _MOVE + "createpolicy"), ("nanosleep", _MISC + "nanosleep"), ("brkpt", _MISC + "brkpt"),
        ("setmaxnreg", _MISC + "setmaxnreg"), ("griddepcontrol", _SYNC + "griddepcontrol"), ("membar", _SYNC + "membar, fence"),
        ("fence", _SYNC + "membar, fence"), ("bar.warp.sync", _SYNC + "bar.warp.sync"))},
}  # fmt: skip
FILES["bar.warp.sync"] = FILES["bar.warp.sync"][0], partial(hints, "bar")


def rendered(name: str) -> str:
    """The text of a file."""
    section, blocks = FILES[name]
    lines = [f"# {name}: made by program_case_files.py from the models; bits in hexadecimal", f"# PTX ISA 9.1, {section}"]
    for block in blocks():
        lines += ["", *written(block)]
    return "\n".join(lines) + "\n"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in FILES:
        (FOLDER / f"{name}.txt").write_text(rendered(name), encoding="ascii")


if __name__ == "__main__":
    main()
