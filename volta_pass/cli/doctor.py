"""``volta-pass doctor``: prints what ``volta_pass.doctor`` found."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from volta_pass.doctor import examine
from volta_pass.terminal import Painter, printable, wants_color

_MARKS = {"ok": "good", "note": "note", "problem": "error"}


def command(args: argparse.Namespace) -> int:
    """Print the findings; 0, or 4 where validation would not happen although it was asked for."""
    facts = examine()
    if args.json:
        print(json.dumps([asdict(fact) for fact in facts], indent=2))
    else:
        paint = Painter(not args.no_color and wants_color(sys.stdout))
        for fact in facts:
            print(f"{paint(_MARKS[fact.state], fact.state.ljust(8))} {fact.subject.ljust(14)} {printable(fact.text)}")
            if fact.remedy:
                print(f"{'':24}help: {printable(fact.remedy)}")
    return 4 if any(fact.state == "problem" for fact in facts) else 0
