# GMV_LIBRARY(VARIABLE, MODULE, REQUIREMENT, OPTION): finds a library by pkg-config, or under the prefix
# that --with-OPTION=DIR names; such a build remembers where its library lies.
AC_DEFUN([GMV_LIBRARY], [
  AC_ARG_WITH([$4],
    [AS_HELP_STRING([--with-$4=DIR], [take $2 from this prefix (default: what pkg-config finds)])],
    [], [with_$4=])
  AS_IF([test -n "$with_$4"], [
    AS_IF([test ! -f "$with_$4/lib/pkgconfig/$2.pc" && test ! -f "$with_$4/lib64/pkgconfig/$2.pc"],
      [AC_MSG_ERROR([--with-$4=$with_$4: there is no lib/pkgconfig/$2.pc below it])])
    gmv_saved_PKG_CONFIG_PATH=$PKG_CONFIG_PATH
    PKG_CONFIG_PATH="$with_$4/lib/pkgconfig:$with_$4/lib64/pkgconfig:$PKG_CONFIG_PATH"
    export PKG_CONFIG_PATH
    PKG_CHECK_MODULES([$1], [$2 $3])
    $1_LIBS="$$1_LIBS -Wl,-rpath,$with_$4/lib"
    PKG_CONFIG_PATH=$gmv_saved_PKG_CONFIG_PATH
  ], [PKG_CHECK_MODULES([$1], [$2 $3])])
])
