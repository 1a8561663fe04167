// The library of scan_packer: looks for each place in all of the window before it. Built without debug information, stripped.
static long longest_at(const unsigned char *page, long size, long at, long *from) {
    long longest = 0;
    for (long start = at > 2048 ? at - 2048 : 0; start < at; start++) {
        long length = 0;
        while (at + length < size && length < 64 && page[start + length] == page[at + length]) // culprit
            length++;
        if (length > longest)
            longest = length, *from = start;
    }
    return longest;
}

__attribute__((visibility("default"))) long pack_page(const unsigned char *page, long size, unsigned char *packed) {
    long written = 0, from = 0;
    for (long at = 0; at < size;) {
        long length = longest_at(page, size, at, &from);
        if (length > 3) {
            packed[written++] = (unsigned char)length;
            packed[written++] = (unsigned char)(at - from);
            at += length;
        } else {
            packed[written++] = page[at++];
        }
    }
    return written;
}
