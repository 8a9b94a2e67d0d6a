"""`python -m ditto_fast.export` is `ditto-export`."""

from ditto_fast.export.cli import main

main()
