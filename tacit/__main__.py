"""`python -m tacit` is `tacit`."""

from tacit.cli.app import main

main()
