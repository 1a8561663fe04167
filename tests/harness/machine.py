"""How quiet the machine was while something was measured: the share of its CPU time that others used, the share that the
host of a virtual machine stole, and how long a known amount of work takes against the best time seen here."""
import os
import resource
import statistics
import time

# Above one of these a measurement that is off says nothing about the tool.
OTHERS, STEAL, SPIN = 0.10, 0.02, 1.15
# Seconds that one process waits in all for the machine to become quiet.
PATIENCE = 20.0

_patience = PATIENCE
_best_spin = None


def spin():
    """Seconds that a fixed amount of work takes; the median of five, so that one interrupt is not seen and another
    program on the same CPU is."""
    def once():
        begin, total = time.perf_counter(), 0
        for number in range(40_000):
            total += number
        return time.perf_counter() - begin
    return statistics.median(once() for _ in range(5))


def spin_ratio():
    """That time against the shortest that this process has seen."""
    global _best_spin
    if _best_spin is None:
        _best_spin = min(spin() for _ in range(5))
    now = spin()
    _best_spin = min(_best_spin, now)
    return now / _best_spin


def ticks():
    """(all, busy, stolen) ticks of all CPUs since boot; stolen ones are not busy ones."""
    with open("/proc/stat") as text:
        user, nice, system, idle, waiting, irq, softirq, steal = (int(field) for field in text.readline().split()[1:9])
    busy = user + nice + system + irq + softirq
    return busy + idle + waiting + steal, busy, steal


def own_ticks():
    """Ticks that this process and those of its children that ended have used."""
    seconds = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        used = resource.getrusage(who)
        seconds += used.ru_utime + used.ru_stime
    return seconds * os.sysconf("SC_CLK_TCK")


class Watch:
    """What others did to the machine from the creation of this object until `stop`."""

    def __init__(self):
        self.others = self.steal = 0.0
        self.spin = spin_ratio()
        self.own, (self.all, self.busy, self.stolen) = own_ticks(), ticks()

    def stop(self):
        every, busy, stolen = ticks()
        whole = max(1, every - self.all)
        self.others = max(0.0, busy - self.busy - (own_ticks() - self.own)) / whole
        self.steal = (stolen - self.stolen) / whole
        self.spin = max(self.spin, spin_ratio())
        return self

    def quiet(self):
        return self.others <= OTHERS and self.steal <= STEAL and self.spin <= SPIN

    def __str__(self):
        return f"others {self.others:.0%}, steal {self.steal:.1%}, spin x{self.spin:.2f}"


def await_quiet(longest=5.0):
    """Waits until a second passes in which the machine is quiet, as long as this process has patience left."""
    global _patience
    end = time.monotonic() + min(longest, _patience)
    while time.monotonic() < end:
        watch, begin = Watch(), time.monotonic()
        time.sleep(0.5)
        quiet = watch.stop().quiet()
        _patience -= time.monotonic() - begin
        if quiet:
            return


def measured(attempt, says=print, uncounted=lambda: None):
    """Judges what others at work on the machine can put off. `attempt` gives (what is wrong whatever the machine does,
    what is off). Returns (wrong, off, not_judged, again): `not_judged` says why no verdict could be had, `again` whether
    a run on a quiet machine was off.

    The first run decides if it is right. Else runs go on until three on a quiet machine are off or enough are right;
    those that are off on a busy machine count for nothing (`uncounted` is called), and after four of them there is no
    verdict.
    """
    off_quiet, off_busy, right, first = 0, [], 0, []
    while True:
        watch = Watch()
        wrong, off = attempt()
        watch.stop()
        if wrong:
            return [*wrong, *off], [], None, off_quiet > 0
        if not off:
            right += 1
        elif watch.quiet():
            off_quiet, first = off_quiet + 1, first or off
            says(f"   off on a quiet machine ({watch}): {'; '.join(off)[:900]}")
        else:
            off_busy.append(str(watch))
            uncounted()
            says(f"   off on a busy machine ({watch}): {'; '.join(off)[:900]}")
        if right and (not off_quiet or right >= 3):
            return [], [], None, off_quiet > 0
        if off_quiet >= 3:
            return [], [*first, f"off in {off_quiet} of {off_quiet + right} runs on a quiet machine"], None, True
        if len(off_busy) >= 4:
            return [], [], f"the machine was never quiet: {', then '.join(off_busy)}", off_quiet > 0
        await_quiet()
