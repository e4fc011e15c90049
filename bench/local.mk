# Benchmarks: built by hand (make bench), never part of check.
