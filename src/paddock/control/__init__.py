"""How a running process is reached: messages, requests, the channel, the service behind it."""
