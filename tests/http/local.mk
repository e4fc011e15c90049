# Tests of http.
