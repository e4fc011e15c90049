# Programs that a reader can run against a daemon; tests/integration/test_examples.py runs them too.
EXTRA_DIST += examples/tour.sh examples/penguins.py examples/embed.c examples/cupy_share.py examples/data/penguins.csv examples/data/README.md
