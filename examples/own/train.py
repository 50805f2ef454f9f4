"""A program of one's own: each rank says where it runs."""

import os

from mpi4py import MPI

world = MPI.COMM_WORLD
print(f"rank {world.rank} of {world.size} in {os.getcwd()}", flush=True)
