# SPDX-License-Identifier: Apache-2.0
# What helps programs to talk to gmvd; nothing here is part of the build.

EXTRA_DIST += clients/python/README.md clients/python/pyproject.toml \
	clients/python/gmv_share/__init__.py clients/python/gmv_share/_cuda.py clients/python/gmv_share/_host.py \
	clients/python/gmv_share/_http.py clients/python/gmv_share/_memory.py clients/python/gmv_share/_shared.py \
	clients/python/gmv_share/py.typed
