"""The experiment store: runs on disk. Imports no torch and starts runs as processes."""
