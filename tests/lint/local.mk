# Checks of the source text. They print TAP and need the source tree, not the built one.
lint_scripts = \
	tests/lint/errors.sh \
	tests/lint/floors.sh \
	tests/lint/format.sh \
	tests/lint/headers.sh \
	tests/lint/manual.sh \
	tests/lint/words.sh

TESTS += $(lint_scripts)
EXTRA_DIST += $(lint_scripts) tests/lint/tap.sh
