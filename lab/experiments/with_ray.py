"""Runs the shards of an experiment on a cluster of Ray, and merges their rows.

    python lab/experiments/with_ray.py lab/experiments/main.yaml --shards 16 --out main.csv
    python lab/experiments/with_ray.py ... --address auto          # an existing cluster; without it, this computer

Each node has the repository, with optibfm-lab built, at the same path. A shard that was interrupted continues, on the
node on which it began, when the command is given again.
"""

import argparse
import subprocess
from pathlib import Path

import ray

ROOT = Path(__file__).resolve().parents[2]


@ray.remote(num_cpus=1, max_retries=2)
def run(protocol: str, profile: str, shard: str, out: str) -> bytes:
    """Runs a shard i/n and returns its rows, CSV."""
    command = ["./optibfm-lab", "eval", protocol, "--profile", profile, "--shard", shard, "--jobs", "1", "--out", out]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"shard {shard}: {done.stderr.strip()}")
    return (ROOT / out).read_bytes()


def main() -> None:
    parser = argparse.ArgumentParser(description="Runs the shards of an experiment on a cluster of Ray.")
    parser.add_argument("protocol", help="path in the repository")
    parser.add_argument("--profile", default="full")
    parser.add_argument("--shards", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True, help="CSV")
    parser.add_argument("--address", help="of the cluster (default: this computer)")
    args = parser.parse_args()
    if args.shards < 1:
        parser.error(f"--shards {args.shards}: at least 1")
    if not (ROOT / args.protocol).is_file():
        parser.error(f"{args.protocol} is missing")
    ray.init(address=args.address, log_to_driver=False)
    names = [f"{args.out.stem}-{i}-of-{args.shards}.csv" for i in range(1, args.shards + 1)]
    shards = [run.remote(args.protocol, args.profile, f"{i}/{args.shards}", f"results/{name}")
              for i, name in enumerate(names, 1)]
    parts = [args.out.with_name(name) for name in names]
    for part, rows in zip(parts, ray.get(shards), strict=True):
        part.write_bytes(rows)
    subprocess.run([str(ROOT / "optibfm-lab"), "eval", "merge", str(args.out), *map(str, parts)], check=True)


if __name__ == "__main__":
    main()
