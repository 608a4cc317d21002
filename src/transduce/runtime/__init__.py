"""What a process runs on: device and threads, the other processes of its training, signals, and rates of progress."""
