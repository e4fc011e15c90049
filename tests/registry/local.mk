# Tests of registry.
