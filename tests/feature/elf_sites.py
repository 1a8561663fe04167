"""Sites and regions of a marked ELF file, read with nothing but this file: a second reader beside Transect's own."""
import struct

NOP5 = bytes.fromhex("0f1f440000")


class Elf:
    """Sections of a little-endian 64-bit file."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        if self.data[:5] != b"\x7fELF\x02":
            raise ValueError(f"{path} is no 64-bit ELF file")
        start, = struct.unpack_from("<Q", self.data, 0x28)
        size, count, names = struct.unpack_from("<HHH", self.data, 0x3A)
        rows = [struct.unpack_from("<IIQQQQIIQQ", self.data, start + i * size) for i in range(count)]
        self.sections = {}
        for row in rows:
            begin = rows[names][4] + row[0]
            self.sections[self.data[begin : self.data.index(b"\0", begin)].decode()] = row

    def content(self, name):
        row = self.sections.get(name)
        return self.data[row[4] : row[4] + row[5]] if row else b""

    def address(self, name):
        return self.sections[name][3]

    def at(self, address, length):
        """Bytes of the program at an address, b"" if it has none there."""
        for row in self.sections.values():
            if row[1] == 1 and row[2] & 2 and row[3] <= address < row[3] + row[5]:
                begin = row[4] + address - row[3]
                return self.data[begin : begin + length]
        return b""


def regions(elf):
    """Records of the table: list of (letter, fields, address)."""
    if "transect_regions" not in elf.sections:
        return []
    rows, address = [], elf.address("transect_regions")
    for line in elf.content("transect_regions").split(b"\n")[:-1]:
        letter, *fields = line.decode().split("\t")
        rows.append((letter, dict(field.split("=", 1) for field in fields), address))
        address += len(line) + 1
    return rows


def sites(elf):
    """List of (address, address of its region's record or None, kind, depth)."""
    content, base, found = elf.content("transect_sites"), None, []
    for at in range(0, len(content), 12):
        base = elf.address("transect_sites") + at
        code, region, kind, zero, depth = struct.unpack_from("<iiBBH", content, at)
        assert zero == 0, "the byte after the kind must be zero"
        found.append((base + code, base + 4 + region if region else None, kind, depth))
    return found


def notes(elf):
    """USDT notes of provider `transect`: list of (address, name, arguments)."""
    content, found, at = elf.content(".note.stapsdt"), [], 0
    while at + 12 <= len(content):
        owner, size, _ = struct.unpack_from("<III", content, at)
        body = at + 12 + (owner + 3) // 4 * 4
        place, = struct.unpack_from("<Q", content, body)
        provider, name, arguments, *_ = content[body + 24 : body + size].split(b"\0")
        if provider == b"transect":
            found.append((place, name.decode(), arguments.decode()))
        at = body + (size + 3) // 4 * 4
    return found


def complaints(path):
    """What is wrong with the marks of a file, as sections.h defines them."""
    elf = Elf(path)
    table, found = regions(elf), sites(elf)
    wrong = []
    records = {address: fields for letter, fields, address in table if letter == "R"}
    if not any(letter == "U" for letter, _, _ in table):
        return ["no U record"]
    mode = next(fields["sites"] for letter, fields, _ in table if letter == "U")
    opcode = {"probe": NOP5[:1], "trace": b"\xe8", "shared": b"\xe8"}.get(mode)
    if opcode is None and found:
        wrong.append(f"mode {mode} has {len(found)} sites")
    begun, ended = set(), set()
    for address, region, kind, depth in found:
        code = elf.at(address, 5)
        if code[:1] != opcode and not (kind == 2 and code == NOP5):
            wrong.append(f"site {address:#x} of kind {kind} is {code.hex()}")
        if region is not None and region not in records:
            wrong.append(f"site {address:#x} names a record at {region:#x} that isn't there")
            continue
        if kind == 2:
            continue
        (begun if kind == 0 else ended).add(region)
        if records[region]["irregular"]:
            wrong.append(f"region {records[region]['number']} is irregular and has a site")
        if str(depth) != records[region]["depth"]:
            wrong.append(f"site {address:#x}: depth {depth}, its region's is {records[region]['depth']}")
    if begun - ended:
        # A region whose ends are all unreachable is possible; one that ends without a begin is not.
        pass
    if ended - begun:
        wrong.append(f"{len(ended - begun)} regions end and never begin")
    if mode in ("probe", "trace") and {row[0] for row in notes(elf)} != {row[0] for row in found}:
        wrong.append("the USDT notes are at other addresses than the sites")
    return wrong
