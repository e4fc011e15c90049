#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs into a scratch folder and uses what lies there: the daemon, the headers and the library through
# pkg-config (examples/embed.c), the manual page, the unit, the completions; and removes it all again. Prints TAP.
set -u

source=$(CDPATH='' cd -- "${GMV_SRCDIR:-.}" && pwd) || exit 1
build=$(CDPATH='' cd -- "${GMV_BUILDDIR:-$source/build}" && pwd) || exit 1
cd "$source" || exit 1
. tests/lint/tap.sh

work=$(mktemp -d "${TMPDIR:-/tmp}/gmv-install.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
root=$work/root

# The value of a variable of the makefile, so that another --prefix is followed.
install_variable()
{
    printf 'include Makefile\ninstall-print:\n\t@echo "$(%s)"\n' "$1" >"$work/print.mk"
    make -s --no-print-directory -C "$build" -f "$work/print.mk" install-print MAKEFLAGS= 2>&1 | tail -n 1
}

# The parts of the tree, in whose absence the rest makes no sense.
install_missing()
{
    for file in "$bindir/gmvd" "$includedir/gmv/gmv.h" "$libdir/pkgconfig/libgmv.pc" "$mandir/man8/gmvd.8" \
        "$datadir/bash-completion/completions/gmvd" "$datadir/zsh/site-functions/_gmvd" \
        "$datadir/fish/vendor_completions.d/gmvd.fish" "$prefix/lib/systemd/system/gmvd.service"
    do
        [ -f "$root$file" ] || echo "$file is not installed"
    done
    (cd "$source/include" && find gmv -name '*.h') | while read -r header; do
        [ -f "$root$includedir/$header" ] || echo "the header $header is not installed"
    done
    (cd "$root$includedir" && find . -name '*.h') | while read -r header; do
        [ -f "$source/include/$header" ] || echo "the header $header lies in the wrong place"
    done
}

install_pkg_config()
{
    PKG_CONFIG_PATH=$root$libdir/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root \
        ${PKG_CONFIG:-pkg-config} --define-variable=prefix="$prefix" "$@" libgmv
}

# The flags of a build with sanitizers are needed wherever its archive is linked.
install_embed()
{
    flags=$(install_variable GMV_SAN_CFLAGS)
    # shellcheck disable=SC2086
    (${CC:-cc} -Wall -Wextra -Werror $flags -o "$work/embed" examples/embed.c $(install_pkg_config --cflags --libs) &&
        LD_LIBRARY_PATH=$root$libdir "$work/embed" >"$work/embed.out" && grep -q 'nulls     2' "$work/embed.out") 2>&1 ||
        echo "the example does not build and run against the installed library"
}

prefix=$(install_variable prefix)
bindir=$(install_variable bindir) includedir=$(install_variable includedir) libdir=$(install_variable libdir)
mandir=$(install_variable mandir) datadir=$(install_variable datadir) version=$(install_variable VERSION)

# install_make TARGET: what it says if it fails.
install_make()
{
    make -s -C "$build" "$1" DESTDIR="$root" MAKEFLAGS= >"$work/log" 2>&1 || cat "$work/log"
}

install_make install >"$work/out"
tap_check 'make install succeeds' <"$work/out"
install_missing >"$work/out"
tap_check 'all parts are in place' <"$work/out"
said=$(LD_LIBRARY_PATH=$root$libdir "$root$bindir/gmvd" --version 2>&1)
{ [ "$said" = "gmvd $version" ] || echo "$said"; } >"$work/out"
tap_check 'the installed daemon says its version' <"$work/out"

if command -v "${PKG_CONFIG:-pkg-config}" >/dev/null 2>&1; then
    said=$(install_pkg_config --modversion 2>&1)
    { [ "$said" = "$version" ] || echo "$said"; } >"$work/out"
    tap_check 'pkg-config knows the library' <"$work/out"
    install_embed >"$work/out"
    tap_check 'a C program embeds the installed library' <"$work/out"
else
    tap_skip 'pkg-config knows the library' 'there is no pkg-config'
    tap_skip 'a C program embeds the installed library' 'there is no pkg-config'
fi

grep -n '@[a-z_]*@' "$root$libdir/pkgconfig/libgmv.pc" "$root$prefix/lib/systemd/system/gmvd.service" >"$work/out"
tap_check 'nothing is left to be filled in' <"$work/out"

{ install_make uninstall; find "$root" ! -type d; } >"$work/out"
tap_check 'make uninstall takes it all away' <"$work/out"
tap_done
