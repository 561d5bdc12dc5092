"""Messages, connections and certificates between relay, workers and trainer."""
