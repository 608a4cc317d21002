"""The machine: device and threads, the processes of a training, signals, and progress."""
