"""π by the midpoint rule: each rank integrates 4 / (1 + x²) over its share of [0, 1], then the parts are added.

Needs mpi4py only.
"""

import argparse
import math

from mpi4py import MPI

from odh_mpi_examples.host import host_name


def part_of_pi(rank: int, size: int, intervals: int) -> float:
    """The share of one rank: every ``size``-th interval, beginning with its own number."""
    width = 1.0 / intervals
    return width * math.fsum(4.0 / (1.0 + ((i + 0.5) * width) ** 2) for i in range(rank, intervals, size))


def main() -> None:
    """Computes π and prints it, with its error, from rank 0."""
    parser = argparse.ArgumentParser(description="π by numerical integration over all ranks")
    parser.add_argument("--intervals", type=int, default=1_000_000, help="number of intervals (default: %(default)s)")
    intervals = parser.parse_args().intervals
    if intervals < 1:
        parser.error("--intervals must be at least 1")

    world = MPI.COMM_WORLD
    print(f"rank {world.rank} of {world.size} on {host_name()}", flush=True)
    pi = world.reduce(part_of_pi(world.rank, world.size, intervals), op=MPI.SUM, root=0)
    if world.rank == 0:
        print(f"pi is approximately {pi:.12f}, error {abs(pi - math.pi):.1e}", flush=True)
