"""One workload of a case study: its command, an input that takes so long, and one run of it."""
import math
import os
import signal
import subprocess
import time

import feature_inputs as inputs
import feature_programs as real

# Longer inputs are this one several times: what a program does with it does not depend on more.
LARGEST_FILE = 1 << 26
LARGEST_ALONE = 1 << 29
# Variables of the first formula, and those that double a solver's time.
VARIABLES, DOUBLING = 150, 20


class Workload:
    """A program's options and its input; `{out}` in them is a file that the program writes."""

    def __init__(self, work, program, title, kind, arguments):
        self.work, self.program, self.title, self.kind = work, program, title, kind
        self.out = os.path.join(work, f"{program.name}.out")
        self.arguments = [word.format(out=self.out) for word in arguments]
        self.files = []

    def command(self, binary, files=None):
        return [binary, *self.arguments, *(files or self.files)]

    def shown(self):
        """The command as the document has it, and how large its input is."""
        words = [os.path.basename(word) if word == self.out else word for word in self.arguments]
        return " ".join([self.program.binary, *words]), f"{sum(os.path.getsize(path) for path in self.files) / 1e6:.0f} MB"

    def size(self, binary, seconds):
        """Makes an input on which the program takes about so much CPU time."""
        if self.kind == "formula":
            self.files = [self.formula(binary, seconds)]
            return
        size, most = 1 << 20, LARGEST_FILE if self.program.several_files else LARGEST_ALONE
        while True:
            self.files = [inputs.make_input(self.work, self.kind, size)]
            took = self.run(binary, 60 + 4 * seconds)[0]
            if took >= min(0.5, seconds / 2) or size >= most:
                break
            size = min(most, size * 8)
        wanted = size * seconds / max(took, 0.02)
        if wanted <= most:
            self.files = [inputs.make_input(self.work, self.kind, max(1 << 16, int(wanted)))]
        else:
            self.files = [inputs.make_input(self.work, self.kind, most)] * (math.ceil(wanted / most) if self.program.several_files else 1)

    def formula(self, binary, seconds):
        """The largest random formula of a growing row that does not take much longer than wanted."""
        size, known, best = VARIABLES, VARIABLES, None
        while True:
            self.files = [inputs.make_input(self.work, "formula", size)]
            try:
                took = self.run(binary, 3 * seconds + 5)[0]
            except real.Absent:
                # Neighbours differ a hundredfold: perhaps one in between does not take too long.
                if size - known < 4:
                    return best or self.files[0]
                size = (known + size) // 2
                continue
            known, best = size, self.files[0]
            if took > 0.6 * seconds or size > 600:
                return best
            size += max(5, min(40, round(0.7 * DOUBLING * math.log2(seconds / max(took, 0.01)))))

    def run(self, binary, seconds, before=()):
        """(CPU time of the command, of what it started, hash of its output, status); `before` is a recorder's command."""
        if os.path.exists(self.out):
            os.remove(self.out)
        own, started, whole, status = spent([*before, *self.command(binary)], seconds)
        if status not in (0, 10, 20):  # a solver's answers
            raise real.Absent(f"{self.title}: status {status}")
        if os.path.exists(self.out):
            whole = subprocess.run(["sha256sum", self.out], capture_output=True, text=True, check=True).stdout.split()[0]
        return own, started, whole, status


def spent(command, seconds):
    """(the command's own CPU time, that of what it started, hash of its output, status), s."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    hasher = subprocess.Popen(["sha256sum"], stdin=child.stdout, stdout=subprocess.PIPE, text=True)
    child.stdout.close()
    try:
        whole = hasher.communicate(timeout=seconds)[0].split()[0]
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        hasher.communicate()
        child.wait()
        raise real.Absent(f"not done after {seconds:.0f} s") from None
    end = time.monotonic() + 300
    while not os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
        if time.monotonic() > end:
            os.killpg(child.pid, signal.SIGKILL)
        time.sleep(0.01)
    # It has ended but was not waited for: the kernel still tells its times and those of its children apart.
    with open(f"/proc/{child.pid}/stat") as file:
        ticks = [int(word) for word in file.read().rsplit(")", 1)[1].split()[11:15]]
    second = os.sysconf("SC_CLK_TCK")
    return (ticks[0] + ticks[1]) / second, (ticks[2] + ticks[3]) / second, whole, child.wait()
