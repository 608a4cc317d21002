"""The machine: device and threads, the processes of a run, signals, and progress."""
