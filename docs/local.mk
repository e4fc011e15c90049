# The manual page, and one page for each thing that a user wants to do: tests/integration/test_docs.py tries what
# they show, tests/lint/errors.sh and manual.sh hold them against the sources.
dist_man8_MANS = docs/gmvd.8
dist_doc_DATA = \
	README.md \
	CHANGELOG.md \
	docs/calls.md \
	docs/clients.md \
	docs/concepts.md \
	docs/containers.md \
	docs/errors.md \
	docs/packing.md \
	docs/performance.md \
	docs/reading.md \
	docs/sharing.md
