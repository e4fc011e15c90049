# Tests of lint.
