# Tests of lint.
TESTS += tests/lint/routes.sh
EXTRA_DIST += tests/lint/routes.sh scripts/openapi-json openapi/gmvd.yaml openapi/gmvd.json openapi/docs.html
