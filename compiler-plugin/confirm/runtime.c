// What a program built with TRANSECT_SITES=confirm does besides its work: it counts each of its decisions and keeps which
// labels their conditions carried. DataFlowSanitizer has eight labels, so a run follows eight features; the command `transect
// feature confirm` runs the program once for each eight. Counts are in a file that all processes of one program map, so
// that nothing is lost when one is killed or becomes another program, and so that runs add up.
//
// TRANSECT_CONFIRM=FOLDER        where the file is; without it nothing is kept
// TRANSECT_CONFIRM_GROUP=NUMBER  which eight labels, from 0
//
// The file: see FILE_FORMAT.md, "Counts of a confirming run".
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef uint8_t dfsan_label;
void dfsan_add_label(dfsan_label label, void *address, size_t bytes);

enum { LABELS = 8, HEADER = 8192 };

/// Memory that is never written.
struct table {
  const char *start;
  uint64_t bytes;
};

/// The plugin emits it (confirmation.cpp); a program without regions has none.
struct program {
  uint64_t identity;
  uint64_t decisions;
  uint64_t tables;
  struct table table[];
};
extern const struct program transect_confirm_program __attribute__((weak));

struct header {
  char magic[8];
  uint64_t identity, decisions, group;
  char program[PATH_MAX];
};

struct decision {
  uint64_t executions;
  uint8_t labels;
  uint8_t zero[7];
};

static struct decision *decisions;
static uint32_t first;
static struct table *tables;
static size_t table_count;

static int compare(const void *a, const void *b) {
  const char *first = ((const struct table *)a)->start, *second = ((const struct table *)b)->start;
  return first < second ? -1 : first > second;
}

static void sort_tables(const struct program *program) {
  tables = malloc(program->tables * sizeof *tables);
  if (!tables)
    return;
  table_count = program->tables;
  memcpy(tables, program->table, table_count * sizeof *tables);
  qsort(tables, table_count, sizeof *tables, compare);
}

__attribute__((constructor(101))) static void start(void) {
  const char *folder = getenv("TRANSECT_CONFIRM"), *group = getenv("TRANSECT_CONFIRM_GROUP");
  const struct program *program = &transect_confirm_program;
  if (!program || !folder || !*folder)
    return;
  const uint64_t number = group ? strtoul(group, NULL, 10) : 0;
  first = number * LABELS;
  char path[PATH_MAX];
  if ((size_t)snprintf(path, sizeof path, "%s/%016llx-%llu.counts", folder, (unsigned long long)program->identity,
                       (unsigned long long)number) >= sizeof path)
    return;
  const size_t size = HEADER + program->decisions * sizeof(struct decision);
  int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0)
    return;
  // Processes that start together do the same.
  char *memory = ftruncate(file, size) ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED)
    return;
  struct header *header = (struct header *)memory;
  header->identity = program->identity;
  header->decisions = program->decisions;
  header->group = number;
  if (readlink("/proc/self/exe", header->program, sizeof header->program - 1) < 0)
    header->program[0] = 0;
  memcpy(header->magic, "TRCOUNT1", sizeof header->magic);
  sort_tables(program);
  decisions = (struct decision *)(memory + HEADER);
}

/// A value that is read from a feature's variable.
uint64_t __dfsw_transect_confirm_label(uint64_t value, uint32_t number, dfsan_label had, dfsan_label none,
                                       dfsan_label *result) {
  *result = had | (number - first < LABELS ? 1u << (number - first) : 0);
  return value;
}

static int is_table(const char *address) {
  size_t low = 0, high = table_count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (tables[middle].start <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low > 0 && (uint64_t)(address - tables[low - 1].start) < tables[low - 1].bytes;
}

/// What is read from a table depends on where.
uint64_t __dfsw_transect_confirm_load(uint64_t value, const void *address, uint32_t always, dfsan_label had,
                                      dfsan_label where, dfsan_label none, dfsan_label *result) {
  *result = had | (where && (always || is_table(address)) ? where : 0);
  return value;
}

/// The same of what is copied.
void __dfsw_transect_confirm_copy(void *to, const void *from, uint64_t bytes, dfsan_label there, dfsan_label where,
                                  dfsan_label none) {
  if (where && is_table(from))
    dfsan_add_label(where, to, bytes);
}

/// A constant that is handed on because of a condition carries the condition's labels.
uint64_t __dfsw_transect_confirm_choice(uint64_t value, uint64_t condition, dfsan_label had, dfsan_label labels,
                                        dfsan_label *result) {
  *result = had | labels;
  return value;
}

/// A decision is made by `condition`.
void __dfsw_transect_confirm_decision(uint32_t number, uint64_t condition, dfsan_label none, dfsan_label labels) {
  if (!decisions)
    return;
  struct decision *decision = &decisions[number];
  __atomic_fetch_add(&decision->executions, 1, __ATOMIC_RELAXED);
  if (labels & ~decision->labels)
    __atomic_fetch_or(&decision->labels, labels, __ATOMIC_RELAXED);
}
