#include "feature.h"

struct writer {
  void (*put)(unsigned char byte, struct writer *writer);
  unsigned char *bytes;
  unsigned used, size;
};
static void drop(unsigned char byte, struct writer *writer) { work(byte / 200); }
static void put(unsigned char byte, struct writer *writer) {
  if (writer->used >= writer->size) {
    writer->size = writer->size ? writer->size * 2 : 64;
    writer->bytes = realloc(writer->bytes, writer->size);
  }
  writer->bytes[writer->used] = byte;
  writer->used++;
}
static void set(unsigned char level, unsigned char *to) { *to = level; }
int main(int argc, char **argv) {
  FEATURE(A) int level = argc;
  struct writer writer = {argc > 3 ? put : drop, 0, 0, 0};
  unsigned char kept;
  writer.put(argc, &writer);
  writer.put(level, &writer);
  set(level, &kept);
  if (writer.bytes[argc] > 3)
    work(1);
  if (kept > 3) // region {A}
    work(2);
  return 0;
}
