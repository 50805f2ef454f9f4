"""The programs of the example MPI jobs."""
