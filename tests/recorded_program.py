"""What the tests of `transect criticality` and of `transect walk` share: a program is run under the command, undisturbed by
others, and what comes back is its streams, its status and the command's JSON."""
import json
import os
import signal
import subprocess

# Programs run before all others: for a machine that is busy with other work.
real_time = False


def undisturbed():
    """For a child before exec: others at work on the machine change what is compared as little as the system lets us, and
    signals that the test run was started to ignore (in the background of a shell) are not ignored."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    if real_time:
        try:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        except OSError:
            pass
    try:
        os.setsid()
        with open("/proc/self/autogroup", "w") as group:
            group.write("-15")
    except OSError:
        pass
    try:
        os.nice(-15)
    except OSError:
        pass


class Answer:
    """One run: the program's streams and status, and the part of the JSON that the view's name leads to."""

    VIEW = ""
    profile = ""

    def __init__(self, status, out, err, data):
        self.status, self.out, self.err, self.data = status, out, err, data
        self.rows = (data or {}).get(self.VIEW, data) or {}

    def truth(self):
        """The line of JSON that a workload prints of itself."""
        for line in self.out.splitlines():
            if line.startswith('{"truth"'):
                return json.loads(line)
        return None

    def lost(self):
        """What the recording lost, in words."""
        try:
            with open(os.path.join(self.profile, "meta.json")) as text:
                return [f"{loss['count']} {loss['what']} ({loss['where']})" for loss in json.load(text)["loss"] if loss["count"]]
        except (OSError, KeyError):
            return []

    def complaint(self):
        """The last line that says why there is no answer."""
        return ((self.err or "").strip() or f"status {self.status}").splitlines()[-1][:300]


class Tool:
    """The command under test; ANSWER is what it gives."""

    ANSWER = Answer

    def __init__(self, transect, folder, options=()):
        self.transect, self.folder, self.options = transect, folder, list(options)
        self.number, self.last = 0, ""

    def fresh(self):
        """Name of a file for the next answer."""
        self.number += 1
        self.last = os.path.join(self.folder, f"answer-{self.number}.json")
        return self.last

    def line(self, file, options=()):
        return [self.transect, self.ANSWER.VIEW, "--quiet", "-o", file + ".transect", *self.options, *options, "--format", "json", "--output", file]

    def run(self, command, options=(), timeout=180, **more):
        return self.told(["--", *command], options, timeout, **more)

    def told(self, subject, options, timeout, **more):
        file = self.fresh()
        more = {"stdin": subprocess.DEVNULL, **{name: value for name, value in more.items() if value is not None}}
        done = subprocess.run(self.line(file, options) + subject, capture_output=True, text=True, errors="replace", timeout=timeout, preexec_fn=undisturbed, **more)
        return self.answer(file, done)

    def answer(self, file, done):
        data = None
        if os.path.exists(file):
            with open(file) as text:
                data = json.load(text)
        answer = self.ANSWER(done.returncode, done.stdout, done.stderr, data)
        answer.profile = file + ".transect"
        return answer
