# Tests of fuzz.
