# GMV_SANITIZE: --enable-sanitize=LIST, --enable-fuzz and --enable-coverage. Their flags go to
# GMV_SAN_CFLAGS and GMV_SAN_LDFLAGS, which every object and program of this tree takes.
AC_DEFUN([GMV_SANITIZE], [
  GMV_SAN_CFLAGS=
  GMV_SAN_LDFLAGS=
  AC_ARG_ENABLE([sanitize],
    [AS_HELP_STRING([--enable-sanitize=LIST], [sanitizers to build with, such as address,undefined or thread])],
    [], [enable_sanitize=no])
  AS_IF([test "x$enable_sanitize" = xyes], [enable_sanitize=address,undefined])
  AS_IF([test "x$enable_sanitize" != xno], [
    GMV_SAN_CFLAGS="-fsanitize=$enable_sanitize -fno-sanitize-recover=all -fno-omit-frame-pointer"
    GMV_SAN_LDFLAGS="-fsanitize=$enable_sanitize"
  ])
  AC_ARG_ENABLE([fuzz],
    [AS_HELP_STRING([--enable-fuzz], [build the fuzz targets with libFuzzer (needs CC=clang)])],
    [], [enable_fuzz=no])
  AS_IF([test "x$enable_fuzz" = xyes], [
    GMV_SAN_CFLAGS="$GMV_SAN_CFLAGS -fsanitize=fuzzer-no-link"
    GMV_SAN_LDFLAGS="$GMV_SAN_LDFLAGS -fsanitize=fuzzer-no-link"
    gmv_saved_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS -fsanitize=fuzzer-no-link"
    AC_MSG_CHECKING([whether $CC has libFuzzer])
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])], [AC_MSG_RESULT([yes])],
      [AC_MSG_RESULT([no]); AC_MSG_ERROR([--enable-fuzz needs a compiler with libFuzzer: configure with CC=clang])])
    CFLAGS=$gmv_saved_CFLAGS
  ])
  AM_CONDITIONAL([GMV_FUZZ], [test "x$enable_fuzz" = xyes])
  AC_ARG_ENABLE([coverage],
    [AS_HELP_STRING([--enable-coverage], [build with coverage counters (see scripts/coverage)])],
    [], [enable_coverage=no])
  AS_IF([test "x$enable_coverage" = xyes], [
    GMV_SAN_CFLAGS="$GMV_SAN_CFLAGS --coverage -O0"
    GMV_SAN_LDFLAGS="$GMV_SAN_LDFLAGS --coverage"
  ])
  AC_SUBST([GMV_SAN_CFLAGS])
  AC_SUBST([GMV_SAN_LDFLAGS])
])
