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
  # A system folder: the toolkit's headers are not held to this project's warnings.
  CUDA_CPPFLAGS=
  AS_IF([test "x$have_cuda" = xyes], [CUDA_CPPFLAGS="-isystem $CUDA_DIR/include"])
  AC_SUBST([NVCC])
  AC_SUBST([CUDA_DIR])
  AC_SUBST([CUDA_CPPFLAGS])
  AM_CONDITIONAL([GMV_HAVE_CUDA], [test "x$have_cuda" = xyes])
])
