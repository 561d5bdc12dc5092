"""How the threads of one launch share its cars: each takes the next few until none are left.

A thread that wakes late then costs nothing but its help. `progress` is int64 [2]: the next car to be taken, and how
many are done; it is read and written atomically, by any number of threads.
"""

from __future__ import annotations

from typing import Any

from numba import extending
from numba.core import cgutils, types

from paddock.sim.threads import kernel

TAKEN, DONE = 0, 1
_intrinsic: Any = extending.intrinsic


@_intrinsic
def add_atomically(typing_context: Any, progress: Any, index: Any, amount: Any) -> Any:
    """Add to one entry of `progress`; its value before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = cgutils.get_item_pointer(context, builder, signature.args[0], array, [arguments[1]])
        return builder.atomic_rmw("add", place, arguments[2], "seq_cst")

    return types.int64(progress, types.intp, types.int64), generate


@kernel()
def all_done(progress: Any, count: int, tries: int) -> bool:
    """Whether all `count` cars are done, looked at up to `tries` times."""
    for _ in range(tries):  # noqa: SIM110 - numba knows no generators here
        if add_atomically(progress, DONE, 0) >= count:
            return True
    return False
