"""The Zarr store of a run: layout, digests, lock, resume."""
