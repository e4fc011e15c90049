# Tests of integration.
