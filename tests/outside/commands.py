"""What is run around a program, or attached to it."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Command:
    name: str
    # Arguments of transect before `-- PROGRAM` or `-p PID`; {profile} and {view} are paths.
    arguments: tuple
    # Kinds of programs that it says it can't do, with a status of its own.
    refuses: tuple = ()
    # The program runs by itself, and the command is started at a random moment of its life.
    attached: bool = False
    # The command looks at a recording of the program, from a random moment on.
    watching: bool = False
    # Kinds of programs that it is made for; none: all.
    only: tuple = ()

    def is_for(self, program):
        return not self.only or program.kind in self.only

    def argv(self, transect, profile, view):
        return [transect, *(word.format(profile=profile, view=view) for word in self.arguments)]


def recording(name, *arguments, **more):
    return Command(name, (*arguments, "--quiet", "-o", "{profile}"), **more)


def attached(name, *arguments, **more):
    return Command(name + " -p", (*arguments, "--for", "300ms"), attached=True, **more)


# The agent's memory is a file, and so is that of probes: the limit counts for them.
FILES = ("file size",)
# The kernel's programs take a descriptor each.
KERNEL = ("few descriptors",)
COMMANDS = (
    recording("record", "record", refuses=FILES),
    recording("record --collect flow", "record", "--collect", "flow", refuses=("static", *FILES)),
    recording("record --timing full", "record", "--collect", "flow", "--timing", "full", refuses=("static", *FILES)),
    recording("record --collect sched", "record", "--collect", "sched", refuses=KERNEL),
    recording("record --collect sched,walk", "record", "--collect", "sched,walk", refuses=KERNEL),
    recording("record --collect flow,latency", "record", "--collect", "flow,latency", refuses=("static", *FILES)),
    recording("record --collect feature", "record", "--collect", "feature", only=("regions",)),
    recording("latency", "latency", refuses=("static", *FILES)),
    recording("run", "run", "--output", "{view}", refuses=FILES),
    recording("criticality", "criticality", "--output", "{view}", refuses=KERNEL),
    # Its table has more bytes than the limit allows.
    recording("walk", "walk", "--output", "{view}", refuses=(*KERNEL, *FILES)),
    Command("probe count", ("probe", "count", "libc.so.6:malloc", "--output", "{view}"), refuses=("static", *FILES)),
    Command("probe time", ("probe", "time", "libc.so.6:malloc", "--output", "{view}"), refuses=("static", *FILES)),
    attached("latency", "latency", "--quiet", "-o", "{profile}", "--output", "{view}"),
    attached("criticality", "criticality", "--quiet", "-o", "{profile}", "--output", "{view}"),
    attached("walk", "walk", "--quiet", "-o", "{profile}", "--output", "{view}"),
    Command("top", ("top", "-n", "2", "--delay", "100ms", "{profile}"), watching=True, refuses=FILES),
    attached("probe time", "probe", "time", "libc.so.6:malloc", "--output", "{view}"),
)
