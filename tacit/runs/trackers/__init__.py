"""Experiment trackers as callbacks, one service a file. Each needs its extra and sends only what is in `sent`."""
