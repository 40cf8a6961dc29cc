"""What intermodal costs beside bare NumPy: time per op and time of import. Run ``python -m benchmarks --help``."""
