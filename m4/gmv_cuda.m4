# GMV_CUDA: --with-cuda=auto|yes|no|DIR. Finds nvcc and the driver API header of a CUDA Toolkit.
# auto takes what is there; yes and DIR fail when it is not.
AC_DEFUN([GMV_CUDA], [
  AC_ARG_WITH([cuda],
    [AS_HELP_STRING([--with-cuda=auto|yes|no|DIR], [CUDA Toolkit to build the CUDA backend with (default: auto)])],
    [], [with_cuda=auto])
  CUDA_DIR=
  NVCC=
  AS_CASE([$with_cuda],
    [no], [],
    [auto|yes], [
      AC_PATH_PROG([NVCC], [nvcc], [], [$PATH:/usr/local/cuda/bin])
      AS_IF([test -n "$NVCC"], [CUDA_DIR=$(dirname "$(dirname "$(readlink -f "$NVCC")")")])
    ],
    [
      CUDA_DIR=$with_cuda
      AC_PATH_PROG([NVCC], [nvcc], [], [$CUDA_DIR/bin])
    ])
  have_cuda=no
  AS_IF([test -n "$NVCC" && test -f "$CUDA_DIR/include/cuda.h"], [have_cuda=yes])
  AS_IF([test "x$have_cuda" = xno && test "x$with_cuda" != xauto && test "x$with_cuda" != xno],
    [AC_MSG_ERROR([--with-cuda=$with_cuda: no nvcc with include/cuda.h found; give the toolkit's directory, or --with-cuda=no])])
  GMV_CUDA_TOOLKIT=
  AS_IF([test "x$have_cuda" = xyes], [
    GMV_CUDA_TOOLKIT=$("$NVCC" --version | sed -n 's/.*release \([[0-9.]]*\),.*/\1/p')
  ])
  AC_ARG_WITH([cuda-gencode],
    [AS_HELP_STRING([--with-cuda-gencode=LIST], [compute capabilities to make kernels for, as in 80,90 (default: 75,80,86,89,90,100,120, as far as nvcc knows them); the last one is added as PTX for newer devices])],
    [], [with_cuda_gencode=])
  CUDA_GENCODE=
  cuda_arches=
  AS_IF([test "x$have_cuda" = xyes], [
    gmv_known=$("$NVCC" --list-gpu-arch | sed -n 's/^compute_//p' | tr '\n' ' ')
    gmv_wanted=$with_cuda_gencode
    AS_IF([test -z "$gmv_wanted"], [gmv_wanted=75,80,86,89,90,100,120])
    gmv_last=
    for gmv_arch in $(echo "$gmv_wanted" | tr ',' ' ')
    do
      AS_CASE([" $gmv_known "],
        [*" $gmv_arch "*], [
          CUDA_GENCODE="$CUDA_GENCODE -gencode arch=compute_$gmv_arch,code=sm_$gmv_arch"
          cuda_arches="$cuda_arches $gmv_arch"
          gmv_last=$gmv_arch
        ],
        [AS_IF([test -n "$with_cuda_gencode"],
          [AC_MSG_ERROR([--with-cuda-gencode: $NVCC makes no code for $gmv_arch; it knows $gmv_known])])])
    done
    AS_IF([test -z "$gmv_last"], [AC_MSG_ERROR([--with-cuda-gencode: no compute capability is left])])
    CUDA_GENCODE="$CUDA_GENCODE -gencode arch=compute_$gmv_last,code=compute_$gmv_last"
  ])
  # A system folder: the toolkit's headers are not held to this project's warnings.
  CUDA_CPPFLAGS=
  AS_IF([test "x$have_cuda" = xyes], [CUDA_CPPFLAGS="-isystem $CUDA_DIR/include"])
  AC_DEFINE_UNQUOTED([GMV_CUDA_TOOLKIT], ["$GMV_CUDA_TOOLKIT"], [Version of the CUDA Toolkit, "" without one.])
  AC_SUBST([NVCC])
  AC_SUBST([CUDA_DIR])
  AC_SUBST([CUDA_CPPFLAGS])
  AC_SUBST([CUDA_GENCODE])
  AM_CONDITIONAL([GMV_HAVE_CUDA], [test "x$have_cuda" = xyes])
])
