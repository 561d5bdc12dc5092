"""State machines of exactly-once delivery: no sockets, files, clocks or threads. Times are arguments, in seconds."""
