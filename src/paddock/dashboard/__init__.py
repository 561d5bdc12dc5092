"""The pit wall: a server for the page and its JSON interface. It knows the store and the control channel, nothing of
learning, and runs go on whether it lives or not."""
