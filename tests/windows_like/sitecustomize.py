"""Makes this Python look to Paddock like one on Windows. With this folder on PYTHONPATH, children look so, too.

What Windows lacks is taken away from Paddock's own modules only: other packages bring their own code for Windows. Locks
are real ones, by `lockf`.
"""

import builtins
import errno
import fcntl
import os
import pathlib
import signal
import types

GONE = {"fcntl", "resource", "termios", "tty", "pwd", "grp", "posix"}
LACKS = {
    "os": {
        "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_DIRECTORY", "getuid", "geteuid", "getgid", "getegid", "fchmod",
        "fchown", "chown", "fork", "killpg", "getpgid", "setsid", "sched_getaffinity", "statvfs", "mkfifo", "uname",
        "pread", "pwrite", "register_at_fork", "fdatasync", "memfd_create", "getloadavg", "sync", "nice", "WNOHANG",
    },
    "signal": {
        "SIGKILL", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGCONT", "SIGPIPE", "SIGCHLD", "SIGSTOP", "setitimer",
        "ITIMER_REAL", "alarm", "pause", "pthread_sigmask", "pthread_kill", "sigwait",
    },
}  # fmt: skip


class Lacking(types.ModuleType):
    """A module without some of its names."""

    def __init__(self, module, lacks):
        super().__init__(module.__name__)
        self.__dict__["_module"], self.__dict__["_lacks"] = module, lacks

    def __getattr__(self, name):
        if name in self._lacks:
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}' on Windows")
        return getattr(self._module, name)


def open_no_folder(path, *arguments, **options):
    if os.path.isdir(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))
    return os.open(path, *arguments, **options)


def no_symlink(path, target, target_is_directory=False):
    raise OSError(errno.EINVAL, "A required privilege is not held by the client", str(path))


def locking(descriptor, mode, count):
    """`msvcrt.locking`: of `count` bytes from the file's position on."""
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, count, os.lseek(descriptor, 0, os.SEEK_CUR))


lacking = {name: Lacking(module, LACKS[name]) for name, module in (("os", os), ("signal", signal))}
lacking["os"].__dict__["open"] = open_no_folder
pathlib.Path.symlink_to = no_symlink
lacking["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK=2)
real_import = builtins.__import__


def import_without_unix(name, globals=None, locals=None, fromlist=(), level=0):
    asker = (globals or {}).get("__name__") or ""
    if level == 0 and asker.partition(".")[0] == "paddock":
        if name in GONE:
            raise ImportError(f"No module named '{name}' on Windows")
        if name in lacking:
            return lacking[name]
    return real_import(name, globals, locals, fromlist, level)


builtins.__import__ = import_without_unix
