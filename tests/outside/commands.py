"""What is run around a program: each way of recording that launches one."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Command:
    name: str
    # Arguments of transect before `-o PROFILE -- PROGRAM`.
    arguments: tuple
    # Kinds of programs that it says it can't do, with a status of its own.
    refuses: tuple = ()


COMMANDS = (
    # The agent's memory is a file, and the limit counts for it.
    Command("record", ("record", "--quiet"), refuses=("file size",)),
    Command("record --collect flow", ("record", "--quiet", "--collect", "flow"), refuses=("static", "file size")),
    Command("record --timing full", ("record", "--quiet", "--collect", "flow", "--timing", "full"), refuses=("static", "file size")),
    Command("record --collect sched", ("record", "--quiet", "--collect", "sched")),
    Command("record --collect sched,walk", ("record", "--quiet", "--collect", "sched,walk")),
    Command("record --collect flow,latency", ("record", "--quiet", "--collect", "flow,latency"), refuses=("static", "file size")),
    Command("latency", ("latency", "--quiet"), refuses=("static", "file size")),
)
