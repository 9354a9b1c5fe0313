"""`python -m tacit` is `tacit`."""

from tacit.cli.entry import main

main()
