"""Z3 on one element of a pair of ``bench paper``: both kernels are executed, then Z3 decides the last element on the same terms.

``python -m volta_pass.cli.bench_paper_z3 SPEC MILLISECONDS`` prints the answer and its CPU seconds as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from ptx_engine.terms.arena import Arena
from volta_pass.check.binding import bind_sides
from volta_pass.check.options import CheckOptions
from volta_pass.check.sides import ready_side
from volta_pass.cli.bench_decide_z3 import answer
from volta_pass.spec import read_spec


def element(spec_path: Path) -> tuple[Arena, int, int]:
    """The terms of both sides for the last element that both write to the first output."""
    spec, options = read_spec(spec_path), CheckOptions()
    assert spec.reference is not None
    sides = [ready_side(side, spec, options) for side in (spec.candidate, spec.reference)]
    arena = Arena()
    bounds = bind_sides([side.launch for side in sides], arena)
    candidate, reference = (side.run(bound).footprints[spec.outputs[0]] for side, bound in zip(sides, bounds))
    last = np.intersect1d(candidate.index, reference.index)[-1]
    mine, theirs = (int(side.ids[np.flatnonzero(side.index == last)[0]]) for side in (candidate, reference))
    return arena, theirs, mine


if __name__ == "__main__":
    print(json.dumps(answer(*element(Path(sys.argv[1])), int(sys.argv[2]))))
