/* Deflates and inflates; allocates through callbacks of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static void *allocate(void *opaque, unsigned n, unsigned size) { (void)opaque; return calloc(n, size); }
static void release(void *opaque, void *at) { (void)opaque; free(at); }

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 10;
  static unsigned char in[60000], out[80000], back[60000];
  unsigned long crc = 0;
  for (int r = 0; r < rounds; r++) {
    for (size_t i = 0; i < sizeof in; i++) in[i] = (i * 7 + r) % 251 ^ (i >> 3);
    z_stream s = {.zalloc = allocate, .zfree = release};
    if (deflateInit(&s, 1 + r % 9) != Z_OK) return 1;
    s.next_in = in, s.avail_in = sizeof in, s.next_out = out, s.avail_out = sizeof out;
    while (deflate(&s, s.avail_in ? Z_NO_FLUSH : Z_FINISH) != Z_STREAM_END) {}
    unsigned long made = s.total_out;
    deflateEnd(&s);
    uLongf length = sizeof back;
    if (uncompress(back, &length, out, made) != Z_OK || memcmp(in, back, sizeof in)) return 2;
    crc = crc32(adler32(crc, back, length), out, made);
  }
  printf("%lx\n", crc);
  return 0;
}
