"""How a runner counts and prints what its tests found. Every runner ends with the line `N passed, N failed`."""
import contextlib
import threading
import time

from harness import machine


class Results:
    """Counts tests that passed, failed, could not run here and could not be judged. Threads may share one."""

    def __init__(self, only=None):
        self.only = [only] if isinstance(only, str) else only
        self.passed = self.failed = self.skipped = self.not_judged = 0
        self.measured = self.measured_again = 0
        self.lock, self.begun = threading.Lock(), threading.local()

    def wanted(self, name):
        """Whether the command line asks for the test; its time is counted from here."""
        self.begun.at = time.monotonic()
        return not self.only or any(word in name for word in self.only)

    def judge(self, name, complaints):
        with self.lock:
            now = time.monotonic()
            took, self.begun.at = now - getattr(self.begun, "at", now), now
            if complaints:
                self.failed += 1
                print(f"FAILED: {name}: {'; '.join(complaints)[:1800]}", flush=True)
            else:
                self.passed += 1
                print(f"ok {name} ({took:.1f} s)", flush=True)

    def judge_measured(self, name, attempt, **more):
        """Judges what a busy machine can put off; see `machine.measured`."""
        wrong, off, not_judged, again = machine.measured(attempt, **more)
        self.measured += 1
        self.measured_again += again
        if not_judged:
            self.cannot_judge(name, not_judged)
        else:
            self.judge(name, [*wrong, *off])

    def judge_repetitions(self):
        """A tool that is often off on a quiet machine is not right most of the time by luck."""
        if self.measured_again:
            few = self.measured_again <= max(3, self.measured // 5)
            self.judge(f"{self.measured_again} of {self.measured} were measured again on a quiet machine", [] if few else ["no more than a fifth may be"])

    def cannot_judge(self, name, why):
        with self.lock:
            self.not_judged += 1
            print(f"NOT JUDGED: {name}: {why}", flush=True)

    def absent(self, name, why):
        with self.lock:
            self.skipped += 1
            print(f"NOT RUN: {name}: {why}", flush=True)

    @contextlib.contextmanager
    def guarded(self, name, *errors):
        """A test that breaks is a failure, not the end of the others."""
        try:
            yield
        except errors or Exception as error:
            self.judge(name, [f"{type(error).__name__}: {str(error)[:500]}"])

    def end(self):
        """Prints the closing line; the runner's exit status."""
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        return 1 if self.failed else 0
