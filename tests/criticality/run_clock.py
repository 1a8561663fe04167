"""Time that processes run, from switch to switch, by the kernel's task clock. Their schedstat and rusage also have the time
between a wake-up and the switch on an idle CPU, which a busy machine makes long."""
import ctypes
import glob
import os
import platform
import struct
import threading
import time

SYSTEM_CALL = {"x86_64": 298, "aarch64": 241}
SOFTWARE, TASK_CLOCK, INHERIT = 1, 1, 1 << 1
SIZE = 112
EVERY = 0.02  # s


def opened(tid):
    """A counter of what the thread, and what it starts from now on, runs; None if the thread is gone."""
    attributes = struct.pack("=IIQ", SOFTWARE, SIZE, TASK_CLOCK) + bytes(24) + struct.pack("=Q", INHERIT)
    call = ctypes.CDLL(None, use_errno=True).syscall
    file = call(SYSTEM_CALL[platform.machine()], attributes.ljust(SIZE, b"\0"), tid, -1, -1, 8)
    return file if file >= 0 else None


class RunClock:
    """Reads the clock of a process again and again while the block runs."""

    def __init__(self, pid):
        tids = [int(os.path.basename(task)) for task in glob.glob(f"/proc/{pid}/task/*")]
        self.counters = [file for file in map(opened, tids) if file is not None]
        if not self.counters:
            raise OSError(f"the threads of process {pid} can't be counted")
        self.readings, self.ended = [], threading.Event()
        self.reader = threading.Thread(target=self.read)

    def read(self):
        while True:
            last = self.ended.is_set()
            ran = sum(struct.unpack("=Q", os.read(file, 8))[0] for file in self.counters)
            self.readings.append((time.monotonic_ns(), ran))
            if last:
                return
            self.ended.wait(EVERY)

    def __enter__(self):
        self.reader.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.reader.join()
        for file in self.counters:
            os.close(file)

    def at(self, time_ns):
        """The clock at a time within the readings."""
        for (before, low), (after, high) in zip(self.readings, self.readings[1:]):
            if time_ns <= after:
                return low + (high - low) * (time_ns - before) / (after - before)
        return self.readings[-1][1]

    def within(self, length_ns):
        """(least, most) that ran within any stretch of that length."""
        begin, end = self.readings[0][0], self.readings[-1][0]
        starts = [at for at, _ in self.readings if at + length_ns <= end] or [begin]
        ran = [self.at(start + length_ns) - self.at(start) for start in starts]
        return min(ran), max(ran)
