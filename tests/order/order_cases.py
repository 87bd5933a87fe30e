"""Named small programs with their verdict; every racy one has a clean twin that differs in one operation.

What must be clean and what must race comes from the PTX ISA's rules, and the explorer is asked as well.
"""

from __future__ import annotations

from order_programs import Program, written

#: name -> (program, whether it races)
CASES: dict[str, tuple[Program, bool]] = {}
#: those in which barriers or mbarriers are misused
MISUSED: set[str] = set()


def case(name: str, threads: list[str], *, races: bool, per_cta: int = 0, warp: int = 2, misused: bool = False) -> None:
    CASES[name] = (written(threads, per_cta, warp), races)
    MISUSED.update([name] if misused else [])


case("store then load, barrier", ["st s0=1; bar 0 2", "bar 0 2; ld s0"], races=False)
case("store then load, no barrier", ["st s0=1", "ld s0"], races=True)
case("lanes of a warp are not in lockstep", ["st s0=1; ld s4", "st s4=1; ld s0"], races=True)
case("lanes of a warp, warp sync", ["st s0=1; warp 0 1; ld s4", "st s4=1; warp 0 1; ld s0"], races=False)
case("warp sync in a CTA of two warps", ["st s0=1; warp 0 1", "warp 0 1; ld s0", "ld s4", "ld s8"], races=False)
case("warp sync of two of three lanes, two warps", ["st s0=1; warp 0 1", "warp 0 1", "ld s0", "ld s4"], races=True, warp=3)
case("warp sync of another warp", ["st s0=1", "warp 1", "warp 2 3", "warp 2 3; ld s0"], races=True)
case("warp sync of two of three lanes", ["st s0=1; warp 0 1", "warp 0 1; ld s0", "ld s4"], races=False, warp=3)
case("warp sync without the reading lane", ["st s0=1; warp 0 1", "warp 0 1", "ld s0"], races=True, warp=3)
case("write after read across a back edge", ["ld s0; bar 0 2; st s0=1", "st s4=1; bar 0 2; ld s4; st s0=2"], races=True)
case("partial overlap of widths", ["st s0:8=1", "ld s4"], races=True)
case("neighbours of different widths", ["st s0:8=1", "ld s8"], races=False)
case("vector stores overlap in part", ["st g0:8=1", "st g4=2"], races=True, per_cta=1)
case("vector stores of one value overlap in part", ["st g0:8=1", "st g4=1"], races=True, per_cta=1)

case("named barrier, producer and consumer", ["st s0=1; arrive 1 2", "bar 1 2; ld s0"], races=False)
case("access after the arrival", ["arrive 1 2; st s0=1", "bar 1 2; ld s0"], races=True)
case("the arriving thread does not wait", ["arrive 1 2; ld s0", "st s0=1; bar 1 2"], races=True)
case("two named barriers", ["st s0=1; arrive 1 2; bar 2 2; st s0=2", "bar 1 2; ld s0; arrive 2 2"], races=False)
case("two named barriers, second swapped", ["st s0=1; arrive 1 2; st s0=2; bar 2 2", "bar 1 2; ld s0; arrive 2 2"], races=True)
case("partial barrier leaves a thread out", ["st s0=1; bar 1 2", "bar 1 2; ld s0", "ld s0"], races=True)
case("partial barriers at once", ["st s0=1; bar 1 2", "bar 1 2; ld s0", "st s4=1; bar 2 2", "bar 2 2; ld s4"], races=False)
case("partial barriers at once, crossed", ["st s0=1; bar 1 2", "bar 1 2; ld s4", "st s4=1; bar 2 2", "bar 2 2; ld s0"], races=True)
case("partial barriers chain", ["st s0=1; bar 1 2", "bar 1 2; bar 2 2", "bar 2 2; ld s0"], races=False)
case("an id that two pairs use at once", ["bar 1 2", "bar 1 2", "bar 1 2", "bar 1 2"], races=False, misused=True)
case("an id handed on to others", ["bar 1 2", "bar 1 2; bar 2 3", "bar 2 3; bar 1 2", "bar 2 3; bar 1 2"], races=False)
case("an id handed on to one of them", ["bar 1 2", "bar 1 2; bar 2 2", "bar 2 2; bar 1 2", "bar 1 2"], races=False, misused=True)
case(
    "an id that was only arrived at, used again by who knows",
    ["arrive 1 2; bar 2 3", "arrive 1 2; bar 2 3", "bar 2 3; bar 1 1"],
    races=False,
)
case("an id that was only arrived at, of which one knows half", ["arrive 1 2; bar 2 2", "arrive 1 2", "bar 2 2; bar 1 1"], races=False,
     misused=True)  # fmt: skip
case("a thread that arrives alone, twice", ["arrive 1 1; arrive 1 1", "ld s0"], races=False)
case("two that arrive twice", ["arrive 1 2; arrive 1 2", "arrive 1 2; arrive 1 2"], races=False, misused=True)
case("a producer that arrives again without an answer", ["arrive 1 2; arrive 1 2", "bar 1 2; bar 1 2"], races=False, misused=True)
case("a producer that waits for the answer", ["arrive 1 2; bar 2 2; arrive 1 2", "bar 1 2; arrive 2 2; bar 1 2"], races=False)

case(
    "exited after a warp sync, the barrier passes it on",
    ["ld s4; bar 1 2; ld s0", "ld s8", "warp 2 3; bar 1 2", "st s0=1; warp 2 3"],
    races=False,
)
case("exited after a warp sync and a store", ["ld s4; bar 1 2; ld s0", "ld s8", "warp 2 3; bar 1 2", "warp 2 3; st s0=1"], races=True)
case("exited before the barrier", ["st s0=1", "bar 0 2; ld s0", "bar 0 2"], races=True)
case("stored before a barrier, exited after it", ["st s0=1; bar 0 3", "bar 0 3; bar 1 2; ld s0", "bar 0 3; bar 1 2"], races=False)

case("copy, wait, own load", ["copy s0 g0; commit; wait 0; ld s0"], races=False)
case("copy, own load without a wait", ["copy s0 g0; commit; ld s0"], races=True)
case("copy, wait for all but one group", ["copy s0 g0; commit; wait 1; ld s0"], races=True)
case("copy not committed, wait_group 0", ["copy s0 g0; wait 0; ld s0"], races=True)
case("copy not committed, wait_all", ["copy s0 g0; wait -1; ld s0"], races=False)
case("copy after a wait_all", ["copy s0 g0; wait -1; copy s4 g0; ld s4"], races=True)
case("wait_all after each copy", ["copy s0 g0; wait -1; copy s4 g0; wait -1; ld s4"], races=False)
case("two groups, wait 1, first read", ["copy s0 g0; commit; copy s4 g0; commit; wait 1; ld s0"], races=False)
case("two groups, wait 1, second read", ["copy s0 g0; commit; copy s4 g0; commit; wait 1; ld s4"], races=True)
case("an empty group counts", ["copy s0 g0; commit; commit; wait 1; ld s0"], races=False)
case("copy, wait, barrier, other load", ["copy s0 g0; commit; wait 0; bar 0 2", "bar 0 2; ld s0"], races=False)
case("copy, barrier, wait, other load", ["copy s0 g0; commit; bar 0 2; wait 0", "bar 0 2; ld s0"], races=True)
case(
    "copy waited for, no barrier after it", ["copy s0 g0; commit; bar 0 2; wait 0; bar 1 2", "bar 0 2; ld s4; bar 1 2; ld s0"], races=False
)
case("pending across two barriers", ["copy s0 g0; commit; bar 0 2; bar 0 2; wait 0", "bar 0 2; bar 0 2; ld s0"], races=True)
case("overwritten before it was read", ["bar 0 2; copy s0 g0; commit; wait 0", "ld s0; bar 0 2"], races=False)
case("overwritten while it may be read", ["copy s0 g0; commit; wait 0; bar 0 2", "ld s0; bar 0 2"], races=True)
case("own store before the copy", ["st s0=1; copy s0 g0; commit; wait 0"], races=False)
case("two copies to one place", ["copy s0 g0; commit; copy s0 g8; commit; wait 0"], races=True)
case("two copies to one place, waited between", ["copy s0 g0; commit; wait 0; copy s0 g8; commit; wait 0"], races=False)
case(
    "a wait completes a copy once",
    ["copy s0 g0; commit; wait 0; bar 1 2; wait 0", "copy s8 g0; bar 1 2; ld s0", "ld s4"], races=False,
)  # fmt: skip
case("source changed while it is copied", ["copy s0 g0; commit; st g0=1; wait 0"], races=True)
case("source changed after the wait", ["copy s0 g0; commit; wait 0; st g0=1"], races=False)

case("flag, release and acquire", ["st g0=1; set.strong 1", "await.strong 1; ld g0"], races=False, per_cta=1)
case("flag, relaxed store", ["st g0=1; set 1", "await.strong 1; ld g0"], races=True, per_cta=1)
case("flag, relaxed load", ["st g0=1; set.strong 1", "await 1; ld g0"], races=True, per_cta=1)
case("flag, fences around relaxed operations", ["st g0=1; fence; set 1", "await 1; fence; ld g0"], races=False, per_cta=1)
case("flag, fence on one side only", ["st g0=1; set 1", "await 1; fence; ld g0"], races=True, per_cta=1)
case("flag, fence before the store", ["fence; st g0=1; set 1", "await.strong 1; ld g0"], races=True, per_cta=1)
case(
    "flags chain over three CTAs",
    ["st g0=1; set.strong 1", "await.strong 1; set.strong 2", "await.strong 2; ld g0"],
    races=False,
    per_cta=1,
)
case("flags chain, weak link", ["st g0=1; set.strong 1", "await.strong 1; set 2", "await.strong 2; ld g0"], races=True, per_cta=1)
case(
    "barrier, then one thread releases for its CTA",
    ["st g0=1; bar 0 2", "bar 0 2; set.strong 1", "await.strong 1; bar 0 2", "bar 0 2; ld g0"], races=False, per_cta=2,
)  # fmt: skip
case(
    "fence before the barrier releases the fencing thread only",
    ["st g0=1; fence; bar 0 2", "fence; bar 0 2; set 1", "await.strong 1; bar 0 2", "bar 0 2; ld g0"], races=True, per_cta=2,
)  # fmt: skip
case("an own release does not strengthen a relaxed load", ["await 1; add.strong 2; await_count.strong 2 1; ld g0", "st g0=1; set.strong 1"],
     races=True, per_cta=1)  # fmt: skip
case("an acquire before an own release", ["await.strong 1; add.strong 2; await_count.strong 2 1; ld g0", "st g0=1; set.strong 1"],
     races=False, per_cta=1)  # fmt: skip
case("counter, all adds awaited", ["st g0=1; add.strong 1", "st g4=1; add.strong 1", "await_count.strong 1 2; ld g0; ld g4"],
     races=False, per_cta=1)  # fmt: skip
case("counter, one add relaxed", ["st g0=1; add.strong 1", "st g4=1; add 1", "await_count.strong 1 2; ld g0; ld g4"],
     races=True, per_cta=1)  # fmt: skip
case("atomics of the grid", ["rmw g0", "rmw g0"], races=False, per_cta=1)
case("atomics of scope cta from two CTAs", ["rmw.cta g0", "rmw g0"], races=True, per_cta=1)
case("atomics of both scopes by one thread", ["rmw.cta g0; rmw g0", "rmw g0"], races=True, per_cta=1)
case("atomics of both scopes by two threads of a CTA", ["rmw.cta g0; rmw g4", "rmw g0", "rmw g4", "rmw g0"], races=True, per_cta=2)
case("atomics of both scopes, the narrow one elsewhere", ["rmw.cta g4; rmw g0", "rmw g0"], races=False, per_cta=1)
case("atomics of scope cta in one CTA", ["rmw.cta g0", "rmw g0"], races=False)
case("atomic and plain load", ["rmw s0", "ld s0"], races=True)
case("atomic of two threads and the second's plain load", ["rmw s0", "rmw s0; ld s0"], races=True)
case("atomics of two widths", ["rmw s0:8", "rmw s0"], races=True)

case("mbarrier phase", ["st s0=1; mb_arrive 1 1", "mb_wait 1 0; ld s0"], races=False)
case("mbarrier, access after the arrival", ["mb_arrive 1 1; st s0=1", "mb_wait 1 0; ld s0"], races=True)
case("mbarrier, two arrivals", ["st s0=1; mb_arrive 1 2", "st s4=1; mb_arrive 1 2", "mb_wait 1 0; ld s0; ld s4"], races=False)
case("knowledge is kept over an acquire", ["st s0=1; bar 1 2", "bar 1 2; mb_wait 1 0; ld s0", "mb_arrive 1 1"], races=False)
case("knowledge of an mbarrier is passed on", ["st s0=1; mb_arrive 1 1", "mb_wait 1 0; bar 1 2", "bar 1 2; ld s0"], races=False)
case("mbarrier of copies", ["copy s0 g0; copy_arrive 1 1", "mb_wait 1 0; ld s0"], races=False)
case("mbarrier of copies, plain arrival", ["copy s0 g0; mb_arrive 1 1", "mb_wait 1 0; ld s0"], races=True)
case("mbarrier of copies, a later copy", ["copy s4 g0; copy_arrive 1 1; copy s0 g0", "mb_wait 1 0; ld s0"], races=True)
case("mbarrier of copies, store before the copy", ["st s4=1; copy s0 g0; copy_arrive 1 1", "mb_wait 1 0; ld s4"], races=False)
case("mbarrier of copies, store after the copy", ["copy s0 g0; st s4=1; copy_arrive 1 1", "mb_wait 1 0; ld s4"], races=True)
case("mbarrier of counted copies", ["copy s0 g0; copy_count 1 1; mb_arrive 1 1", "mb_wait 1 0; ld s0"], races=False)
case("mbarrier of counted copies, counted after the arrival", ["copy s0 g0; mb_arrive 1 2; copy_count 1 2; mb_arrive 1 2",
     "mb_wait 1 0; ld s0"], races=False)  # fmt: skip
case("a wait acquires its own phase only", ["st s0=1; mb_arrive 1 1; mb_wait 1 0; mb_arrive 1 1", "mb_wait 1 1; ld s0"], races=False)
case("full and empty, two turns", ["mb_arrive 1 1; mb_wait 2 0; st s0=1; mb_arrive 1 1", "mb_wait 1 0; ld s0; mb_arrive 2 1; mb_wait 1 1; ld s0"],
     races=False)  # fmt: skip
case("full and empty, freed too early", ["mb_arrive 1 1; mb_wait 2 0; st s0=1; mb_arrive 1 1",
     "mb_wait 1 0; mb_arrive 2 1; ld s0; mb_wait 1 1"], races=True)  # fmt: skip
case("a wait for phase -1 of a new mbarrier passes", ["mb_wait 1 -1; st s0=1; mb_arrive 1 1", "mb_wait 1 0; ld s0"], races=False)

case("an arrival without a wait for the phase before", ["mb_arrive 1 1; mb_arrive 1 1", "mb_wait 1 0"], races=False, misused=True)
case("an arrival after its own wait", ["mb_arrive 1 1; mb_wait 1 0; mb_arrive 1 1", "ld s0"], races=False)
case("an arrival after another's wait, told by a barrier", ["mb_arrive 1 1; bar 1 2; mb_arrive 1 1", "mb_wait 1 0; bar 1 2"], races=False)
case("two arrive twice, one without waiting", ["mb_arrive 1 2; mb_wait 1 0; mb_arrive 1 2", "mb_arrive 1 2; mb_arrive 1 2"], races=False,
     misused=True)  # fmt: skip
case("a wait that phases may overtake", ["mb_arrive 1 1; mb_wait 1 0; mb_arrive 1 1", "mb_wait 1 0"], races=False, misused=True)
case("a wait before the next phase's arrival", ["mb_arrive 1 1; mb_wait 1 0; bar 1 2; mb_arrive 1 1", "mb_wait 1 0; bar 1 2"], races=False)
case("a wait after a barrier that the next arrival follows too", ["mb_arrive 1 1; mb_wait 1 0; bar 1 2; mb_arrive 1 1", "bar 1 2; mb_wait 1 0"],
     races=False, misused=True)  # fmt: skip
case("a second wait, which comes too late", ["mb_arrive 1 1; bar 1 2; mb_arrive 1 1", "mb_wait 1 0; bar 1 2; mb_wait 1 0"], races=False,
     misused=True)  # fmt: skip
case("two waits in time", ["mb_arrive 1 1; bar 1 2; mb_arrive 1 1", "mb_wait 1 0; mb_wait 1 0; bar 1 2"], races=False)
case(
    "an arrival of copies issued before the last wait", ["copy s0 g0; copy_arrive 1 1; mb_wait 1 0; copy_arrive 1 1", "ld s4"], races=False
)
case("another's wait, told by its copies", ["mb_arrive 1 1; mb_wait 2 0; mb_arrive 1 1", "copy s0 g0; mb_wait 1 0; copy_arrive 2 1"],
     races=False)  # fmt: skip
case("copies arrive in the phase in which they are told to", ["copy s0 g0; copy_arrive 1 1; mb_wait 1 0; copy s0 g8; copy_arrive 1 1",
     "ld s4"], races=False)  # fmt: skip

# what copies' arrivals release in time does not bring an arrival at a barrier into an earlier use of its id
case("an id used again by who waits for copies", ["bar 1 2; bar 3 4; st s0=1; copy_arrive 1 1; arrive 3 2", "bar 1 2; arrive 3 4; mb_wait 1 0; bar 3 2",
     "ld s0; arrive 3 4", "arrive 3 4"], races=False, warp=1)  # fmt: skip
case("an id used again by who waits for copies, load after the arrival", ["bar 1 2; bar 3 4; st s0=1; copy_arrive 1 1; arrive 3 2",
     "bar 1 2; arrive 3 4; mb_wait 1 0; bar 3 2", "arrive 3 4; ld s0", "arrive 3 4"], races=True, warp=1)  # fmt: skip

case("two CTAs, one output element", ["st g0=1", "st g0=2"], races=True, per_cta=1)
case("two CTAs, two output elements", ["st g0=1", "st g4=2"], races=False, per_cta=1)
case("a barrier is of one CTA", ["st g0=1; bar 0 1", "bar 0 1; ld g0"], races=True, per_cta=1)
case("shared memory is of one CTA", ["st s0=1", "st s0=2"], races=False, per_cta=1)
