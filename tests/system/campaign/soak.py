"""Run rounds for hours, each with a seed that repeats it.

    python -m tests.system.campaign.soak --hours 2
    python -m tests.system.campaign.soak --seed N --round M

A round that fails is printed with its command, its folder stays, and the next round begins. Time in
which the processes are stopped (`kill -STOP -PGID`, `kill -CONT -PGID`) does not count. Ctrl-C and
SIGTERM end after the figures.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.s3server import S3Server
from tests.system.campaign.rounds import Round, RunningTime
from tests.system.real_s3.servers import binary, found_servers


class InProcess(S3Server):
    """moto in this process, where no real server is found."""

    def new_root(self) -> str:
        """The root of a table in a fresh bucket."""
        return f"s3://{self.new_bucket()}/a table"


@contextlib.contextmanager
def server(folder: Path) -> Iterator[Any]:
    """Yield an S3 server: versitygw or MinIO if there is one, else moto."""
    found = found_servers()
    if found:
        folder.mkdir(parents=True)
        with binary(found[0], folder) as running:
            yield running
        return
    moto = InProcess()
    try:
        yield moto
    finally:
        moto.stop()


def said(total: Counter[str]) -> str:
    """Return figures as one line."""
    return ", ".join(f"{name}: {count}" for name, count in sorted(total.items()))


def main(given: list[str] | None = None) -> int:
    """Run; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hours", type=float, help="begin no round after this running time")
    parser.add_argument("--seed", type=int, help="of a run to repeat; else drawn")
    parser.add_argument("--round", type=int, help="run this round alone")
    parser.add_argument("--steps", type=int, default=12, help="steps of each writer and phase")
    parser.add_argument("--places", default="local,s3", help="local, s3, or both")
    parser.add_argument("--folder", type=Path, help="where tables are; else a temporary folder")
    asked = parser.parse_args(given)
    if asked.hours is None and asked.round is None:
        parser.error("give --hours, or --seed and --round")
    seed = random.randrange(1 << 32) if asked.seed is None else asked.seed
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.ExitStack() as open_things:
        folder = asked.folder or Path(
            open_things.enter_context(tempfile.TemporaryDirectory(prefix="soak"))
        )
        s3 = None
        if "s3" in asked.places:
            s3 = open_things.enter_context(server(folder / f"server {seed}"))
        places: list[Any] = [{"local": None, "s3": s3}[one] for one in asked.places.split(",")]
        return _rounds(asked, seed, folder, places)


def _rounds(asked: Any, seed: int, folder: Path, places: list[Any]) -> int:
    clock, total, number, failed = RunningTime(), Counter[str](), asked.round or 0, 0
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            place = places[number % len(places)]
            where = folder / f"seed {seed} round {number}"
            one = Round(where, f"{seed}-{number}", asked.steps, place)
            failed += not _ran(one, f"seed {seed} round {number}", total, asked)
            clock.seconds += one.clock.seconds
            number += 1
            if asked.round is not None or clock.seconds >= asked.hours * 3600:
                break
    print(f"seed {seed}: {number} rounds, {failed} failed, {clock.seconds:.0f} running seconds")
    print(said(total), flush=True)
    return 1 if failed else 0


def _ran(one: Round, name: str, total: Counter[str], asked: Any) -> bool:
    """Run one round, and print how it ended."""
    try:
        one.run()
    except Exception:
        ok = False
        print(traceback.format_exc())
        print(f"{name} failed: {one.shape}; its folder is {one.folder}")
        again = f"--seed {name.split()[1]} --round {name.split()[3]}"
        again += f" --steps {asked.steps} --places {asked.places}"
        print(f"again: python -m tests.system.campaign.soak {again}")
    else:
        ok = True
        print(f"{name} ok: {one.shape}")
    did = one.summary()
    one.end(remove=ok)
    total.update(did)
    one.clock.tick()
    print(f"  {one.clock.seconds:.0f} s, {said(did)}", flush=True)
    return ok


if __name__ == "__main__":
    sys.exit(main())
