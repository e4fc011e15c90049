# Tests of codec.
