"""Which CTAs to execute when not all are: corners first, then a seeded sample of the edges, then of the inside."""

from __future__ import annotations

import itertools
import random


def choose_ctas(grid: tuple[int, int, int], limit: int | None, seed: int = 0) -> tuple[tuple[int, int, int], ...] | None:
    """At most ``limit`` CTAs of a grid in launch order (x fastest); None where that is all of them."""
    total = grid[0] * grid[1] * grid[2]
    if limit is None or limit >= total:
        return None
    corners = {(x, y, z) for x, y, z in itertools.product(*({0, extent - 1} for extent in grid))}
    chosen = set(sorted(corners, key=_launch_order)[:limit])
    generator = random.Random(f"{seed} {grid}")
    edge_goal = len(chosen) + (limit - len(chosen)) // 2
    attempts = 0
    while len(chosen) < limit and attempts < 50 * limit:
        attempts += 1
        cta = tuple(generator.randrange(extent) for extent in grid)
        if len(chosen) < edge_goal:
            axis = generator.randrange(3)
            cta = tuple(generator.choice((0, grid[axis] - 1)) if d == axis else c for d, c in enumerate(cta))
        chosen.add((cta[0], cta[1], cta[2]))
    return tuple(sorted(chosen, key=_launch_order))


def _launch_order(cta: tuple[int, int, int]) -> tuple[int, int, int]:
    return cta[2], cta[1], cta[0]


def affordable(total: int, few: int, few_cost: float, more: int, more_cost: float, budget: float) -> int | None:
    """How many of ``total`` CTAs fit into a budget (seconds, terms), from what two smaller numbers cost; None where all do.

    The cost is taken to be linear in the number of CTAs beyond ``few`` (a batch has a fixed cost).
    """
    each = max((more_cost - few_cost) / (more - few), 1e-6)
    count = more + int(max(0.0, budget - more_cost) / each)
    return None if count >= total else max(count, min(more, total))
