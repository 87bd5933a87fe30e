"""``volta-pass cache``: what is stored, whether all of it is whole, and making room."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from ptx_engine.errors import LaunchError
from volta_pass.store import Stats, Store
from volta_pass.store.recheck import recheck


def command(args: argparse.Namespace) -> int:
    """Print figures, or what was done; 1 where entries were damaged."""
    if args.recheck is not None and args.action != "verify":
        raise LaunchError(f"--recheck with {args.action}", hint="volta-pass cache verify --recheck")
    store = Store.from_environment()
    result: dict[str, Any]
    if args.action == "stats":
        rows = store.stats()
        result = {"places": [_row(stats) for stats in rows]}
        lines = [line for stats in rows for line in _lines(stats)]
    elif args.action == "clear":
        result = {"removed": store.clear()}
        lines = [f"{result['removed']} entries removed from {store.local}"]
    else:
        whole, damaged = store.verify()
        result = {"whole": whole, "damaged": damaged}
        lines = [f"{whole} entries are whole", *(f"damaged and removed: {name}" for name in damaged)]
        if args.recheck is not None:
            done = recheck(store, args.recheck or None)
            result |= {"confirmed": done.confirmed, "untried": done.untried, "refused": done.refused}
            untried = f"{done.untried} could not be tried (another version, or no contents)"
            lines.append(f"{done.confirmed} proofs and references came out again, {untried}")
            lines += [f"not to be trusted: {why}" for why in done.refused]
    print(json.dumps(result, indent=2) if args.json else "\n".join(lines))
    return 1 if result.get("damaged") or result.get("refused") else 0


def _row(stats: Stats) -> dict[str, Any]:
    kinds = {kind: {"entries": count, "bytes": stats.bytes[kind]} for kind, count in sorted(stats.entries.items())}
    return {"place": stats.place, "limit_bytes": stats.limit_bytes, "kinds": kinds, "total_bytes": stats.total_bytes}


def _lines(stats: Stats) -> list[str]:
    bound = f" of {stats.limit_bytes / 2**20:.0f}" if stats.limit_bytes else ""
    lines = [stats.place]
    for kind, count in sorted(stats.entries.items()):
        lines.append(f"  {kind.ljust(12)} {count:7d} entries {stats.bytes[kind] / 2**20:9.2f} MiB")
    lines.append(f"  {'total'.ljust(12)} {sum(stats.entries.values()):7d} entries {stats.total_bytes / 2**20:9.2f}{bound} MiB")
    if stats.oldest_use_s:
        lines.append(f"  the oldest was last used {(time.time() - stats.oldest_use_s) / 3600:.1f} hours ago")
    return lines
