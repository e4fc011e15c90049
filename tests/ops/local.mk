# Tests of ops.
