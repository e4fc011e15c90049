# Tests over real HTTP (pytest); scripts/check runs them against every flavour of the build.
EXTRA_DIST += \
	tests/requirements.txt \
	tests/integration/conftest.py \
	tests/integration/cuda_exporter.py \
	tests/integration/openapi_check.py \
	tests/integration/openapi_compare.py \
	tests/integration/test_batch.py \
	tests/integration/test_buffers.py \
	tests/integration/test_contents.py \
	tests/integration/test_columns_nested.py \
	tests/integration/schemathesis.toml \
	tests/integration/test_clients.py \
	tests/integration/test_conformance.py \
	tests/integration/test_cuda.py \
	tests/integration/test_cuda_ipc.py \
	tests/integration/test_docs.py \
	tests/integration/test_dlpack.py \
	tests/integration/test_events.py \
	tests/integration/test_examples.py \
	tests/integration/test_gmv_share.py \
	tests/integration/test_faults_elsewhere.py \
	tests/integration/test_generated_client.py \
	tests/integration/test_http.py \
	tests/integration/test_inspect.py \
	tests/integration/test_kernels.py \
	tests/integration/test_large.py \
	tests/integration/test_lifetime.py \
	tests/integration/test_lives.py \
	tests/integration/test_look.py \
	tests/integration/test_messages.py \
	tests/integration/test_main_job.py \
	tests/integration/test_openapi_compatibility.py \
	tests/integration/test_openapi_document.py \
	tests/integration/test_options.py \
	tests/integration/test_retries.py \
	tests/integration/test_packed_nested.py \
	tests/integration/test_packed_stream.py \
	tests/integration/test_pylibcudf.py \
	tests/integration/test_splits.py \
	tests/integration/test_tables.py \
	tests/integration/test_tables_random.py \
	tests/integration/test_variations_http.py \
	tests/integration/test_variations_lives.py \
	tests/integration/test_views.py

.PHONY: check-integration
check-integration: gmvd
	GMV_SRCDIR='$(abs_top_srcdir)' GMV_BUILDDIR='$(abs_top_builddir)' $(PYTHON) -m pytest -q -p no:cacheprovider $(abs_top_srcdir)/tests/integration
