"""The person's own folder, under the name that the simulator's modules use."""

from paddock.core.home import paddock_home

__all__ = ["paddock_home"]
