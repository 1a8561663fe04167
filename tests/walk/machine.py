"""The suite inside of a virtual machine with another kernel, where each instruction takes one nanosecond of the clock by which
programs measure themselves.

That clock leaps ahead while the machine waits for a file of the host. So all that takes part is in the machine's memory, and
no time limit inside of it means anything; the machine itself has one, on the host's clock.
"""
import os
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
RUN = os.path.join(HERE, "../../dev/vm/run.sh")
FOREVER = 1_000_000


def status_inside(kernel, limit, transect, build, arguments):
    """Runs the suite in the machine, with the arguments that it was called with here, and gives its status."""
    rest = list(arguments)
    at = next(i for i, word in enumerate(rest) if word == "--vm" or word.startswith("--vm="))
    del rest[at:at + (2 if rest[at] == "--vm" else 1)]
    machine = [RUN, "--icount", "--memory", "2048", "--timeout", str(limit), "--keep", os.path.dirname(transect), "--keep", build, kernel]
    command = [*machine, "python3", "-u", os.path.join(HERE, "run.py"), *rest, "--transect", transect, "--build", build, "--inside"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL)
    if done.returncode == 3:
        print(f"NOT RUN: the walk in a virtual machine with Linux {kernel}")
        return 0
    return done.returncode


def settle(transect, build):
    """In the machine: (command, folder of the programs, folder on a disk, seconds that a test may take)."""
    own = "/var/tmp/suite"
    os.makedirs(own)
    for file in (transect, *(os.path.join(os.path.dirname(transect), f"libtransect_{name}.so") for name in ("agent", "probe_agent"))):
        shutil.copy(file, own)
    shutil.copytree(build, os.path.join(own, "programs"))
    return os.path.join(own, os.path.basename(transect)), os.path.join(own, "programs"), disk(), FOREVER


def disk():
    """The folder of a new ext4 file system on a loop device."""
    module = os.path.join(os.environ["TRANSECT_VM_MODULES"], "loop.ko")
    image, folder = "/var/tmp/disk", "/mnt"
    subprocess.run(["busybox", "insmod", module], check=True)
    with open(image, "wb") as file:
        file.truncate(900 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, folder], check=True)
    return folder
