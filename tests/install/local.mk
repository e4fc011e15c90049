# What `make install` puts in place, used as a user of it would.
install_scripts = tests/install/completion.sh tests/install/symbols.sh tests/install/tree.sh
TESTS += $(install_scripts)
EXTRA_DIST += $(install_scripts)
