# Tests of base.
