"""Measure seconds to read whole tables from S3 behind a delaying proxy, against deltalake.

The server must already run; AWS_ENDPOINT_URL and the credentials select it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import uuid

import numpy as np
import pyarrow as pa

import tablefmt
from benchmarks.harness import run_alternating


def rows(count: int, seed: int) -> pa.Table:
    """Return incompressible numbers and slightly compressible text."""
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(count),
            "a": random.random(count),
            "b": random.integers(0, 1 << 40, count),
            "s": [f"text {i % 977} {i}" for i in range(count)],
        }
    )


def main() -> None:
    """Make both tables, then read them in turn and print seconds."""
    import deltalake

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bucket")
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--rows", type=int, default=3, help="of a file")
    parser.add_argument("--ms", type=float, default=100, help="round trip, milliseconds")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    ours = f"s3://{given.bucket}/reads-{uuid.uuid4().hex}"
    theirs = {"AWS_ALLOW_HTTP": "true", "conditional_put": "etag"}
    table = tablefmt.create(ours, rows(1, 0).schema)
    for seed in range(given.files):
        part = rows(given.rows, seed)
        table.append(part)
        deltalake.write_deltalake(f"{ours}-delta", part, mode="append", storage_options=theirs)
    # In a process of its own: one in Python would share our interpreter's lock, and not theirs.
    command = [sys.executable, "-m", "benchmarks.delay", endpoint, "--ms", str(given.ms)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as proxy:
        assert proxy.stdout is not None
        far = proxy.stdout.readline().strip()
        opened = tablefmt.open(ours, storage_options={"endpoint_url": far})
        delta = deltalake.DeltaTable(
            f"{ours}-delta", storage_options={**theirs, "AWS_ENDPOINT_URL": far}
        )
        cases = {
            "tablefmt": lambda: len(opened.to_arrow()) and None,
            "deltalake": lambda: len(delta.to_pyarrow_table()) and None,
        }
        try:
            run_alternating(cases, given.rounds, warm_up=1)
        finally:
            proxy.terminate()


if __name__ == "__main__":
    main()
