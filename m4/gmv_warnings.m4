# GMV_WARNINGS: probes the strict warning set and puts what this compiler knows into GMV_WARN_CFLAGS.
AC_DEFUN([GMV_WARNINGS], [
  GMV_WARN_CFLAGS=
  gmv_saved_CFLAGS=$CFLAGS
  for gmv_flag in -Wall -Wextra -Wshadow -Wpointer-arith -Wcast-qual -Wstrict-prototypes \
      -Wmissing-prototypes -Wold-style-definition -Wundef -Wvla -Wwrite-strings -Wformat=2 \
      -Wimplicit-fallthrough -Wdouble-promotion -Wnull-dereference -Wlogical-op -Wduplicated-cond \
      -Wno-unused-parameter -Wno-missing-field-initializers
  do
    CFLAGS="$gmv_saved_CFLAGS $gmv_flag -Werror"
    AC_MSG_CHECKING([whether $CC accepts $gmv_flag])
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
      [AC_MSG_RESULT([yes]); GMV_WARN_CFLAGS="$GMV_WARN_CFLAGS $gmv_flag"],
      [AC_MSG_RESULT([no])])
  done
  CFLAGS=$gmv_saved_CFLAGS
  AC_ARG_ENABLE([werror],
    [AS_HELP_STRING([--enable-werror], [treat warnings as errors (default: no)])],
    [], [enable_werror=no])
  AS_IF([test "x$enable_werror" = xyes], [GMV_WARN_CFLAGS="$GMV_WARN_CFLAGS -Werror"])
  AC_SUBST([GMV_WARN_CFLAGS])
])
