# Tests of integration.
EXTRA_DIST += tests/integration/openapi_check.py tests/integration/test_openapi_document.py \
	tests/integration/test_generated_client.py
