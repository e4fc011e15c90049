# SPDX-License-Identifier: Apache-2.0
# What helps programs to talk to gmvd; nothing here is part of the build.

EXTRA_DIST += clients/python/README.md clients/python/pyproject.toml \
	clients/python/gmv_share/__init__.py clients/python/gmv_share/_cuda.py clients/python/gmv_share/_host.py \
	clients/python/gmv_share/_http.py clients/python/gmv_share/_memory.py clients/python/gmv_share/_shared.py \
	clients/python/gmv_share/py.typed
EXTRA_DIST += clients/check clients/generate clients/scenario/README.md clients/scenario/scenario.c clients/scenario/scenario.go \
	clients/scenario/scenario.ts clients/scenario/scenario_openapi_generator.py clients/scenario/scenario_openapi_python_client.py

# Clients from the document: what a generator is missing for is said by clients/generate.
.PHONY: clients
clients:
	@for language in c go typescript python openapi-python-client; do \
	    rm -rf "generated-clients/$$language"; $(MKDIR_P) "generated-clients/$$language"; \
	    $(srcdir)/clients/generate "$$language" "$(abs_builddir)/generated-clients/$$language" >"generated-clients/$$language.log" 2>&1 || \
	        { cat "generated-clients/$$language.log" >&2; exit 1; }; \
	    echo "generated-clients/$$language"; \
	done
