# Real producers and consumers of GPU memory (pytest), on a machine with a GPU: scripts/check-gpu runs them.
EXTRA_DIST += \
	tests/gpu/conftest.py \
	tests/gpu/fault.h \
	tests/gpu/heap.c \
	tests/gpu/plain_producer.c \
	tests/gpu/poison.c \
	tests/gpu/support.py \
	tests/gpu/test_gmv_share.py \
	tests/gpu/test_lives.py \
	tests/gpu/test_producers.py \
	tests/gpu/workers/cupy_worker.py \
	tests/gpu/workers/share_helper.py \
	tests/gpu/workers/driver_worker.py \
	tests/gpu/workers/numba_worker.py \
	tests/gpu/workers/recipes.py \
	tests/gpu/workers/service.py \
	tests/gpu/workers/torch_worker.py
