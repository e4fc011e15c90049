#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests of the CUDA backend and of what stands on it, over the stand-in for the driver: each program
# is one TAP test, with streams that work inside the calls and on threads of their own. What the
# stand-in complains of fails the test. It proves nothing about a GPU.
set -u

build=${GMV_BUILDDIR:-.}
fake=$build/tests/fake_cuda
if [ ! -f "$fake/libcuda.so.1" ]; then
    echo '1..0 # SKIP the CUDA backend is not built'
    exit 0
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/gmv-fake-cuda.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
count=0
failed=0

# run_one MODE PROGRAM [ARGUMENT...]
run_one()
{
    mode=$1
    program=$2
    shift 2
    count=$((count + 1))
    description="$program over the stand-in, $mode"
    if [ ! -x "$build/$program" ]; then
        echo "ok $count - $description # SKIP not built"
        return
    fi
    async=0
    [ "$mode" = 'on threads' ] && async=1
    code=0
    LD_LIBRARY_PATH=$fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} GMV_TEST_BACKEND=cuda \
        GMV_FAKE_CUDA_DEVICES=8 GMV_FAKE_CUDA_ASYNC=$async CRITERION_OUTPUTS=tap:- \
        "$build/$program" "$@" >"$work/out" 2>&1 || code=$?
    if [ "$code" -eq 0 ] && ! grep -q -e '^not ok' -e '^fake libcuda: ' -e 'SKIP no CUDA' "$work/out"
    then
        echo "ok $count - $description"
        return
    fi
    failed=$((failed + 1))
    echo "not ok $count - $description (exit code $code)"
    grep -v '^ok ' "$work/out" | tail -n 60 | sed 's/^/# /'
}

# run_both PROGRAM [ARGUMENT...]
run_both()
{
    run_one 'in the calls' "$@"
    run_one 'on threads' "$@"
}

for name in kernels memory reductions sharing vectors ipc; do
    run_both tests/device/test_$name
done
run_both tests/device/test_differential 200 2048
for name in buffer chunked_pack column column_nested engine inspect mask mask_vectors pack pack_nested packed table unpack view view_cai; do
    run_both tests/ops/test_$name
done
run_both tests/ops/test_contents
run_both tests/ops/test_map
run_both tests/codec/test_column_values
run_one 'in the calls' tests/ops/test_engine_chaos # threads do not make the same calls each time
echo "1..$count"
[ "$failed" -eq 0 ]
