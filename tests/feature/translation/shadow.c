/* Truth for translated samples: a runtime for sites of mode "trace" that keeps each thread's stack of open regions, and a
 * thread that interrupts all others; the signal's handler writes down that stack beside the call stack of the same instant.
 *
 * File SHADOW_FILE, one line a sample:  T <region> <region> ...  | S <address> <address> ...
 * Regions are offsets of their records in the section transect_regions, outermost first; addresses are offsets in the
 * executable, innermost first, with "r" before return addresses; frames of other objects are left out. Samples that hit
 * this runtime itself, or an exception on its way, are only counted ("X <count> <stack cut short> <no room>"): there the
 * truth is about to change. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

struct site {
  int32_t address, region;
  uint8_t kind, zero;
  uint16_t depth;
};

extern const struct site __start_transect_sites[], __stop_transect_sites[] __attribute__((weak));
extern const char __start_transect_regions[];
extern const char __executable_start[], etext[];

enum { DEPTH = 4096, FRAMES = 512, SAMPLES = 1 << 16, TABLE = 1 << 16 };

struct open_region {
  int32_t region;
  uintptr_t stack;
};

struct shadow {
  _Atomic int depth;
  /* Stack pointer of a frame in which a restoring site of an inlined function left open what can't be told here; 0 else. */
  _Atomic uintptr_t ambiguous;
  /* Regions open at that time. */
  int mark;
  struct open_region open[DEPTH];
};

static __thread struct shadow shadow __attribute__((tls_model("initial-exec")));

/* Sites by address: open addressing, filled before main. */
static const struct site *sites[TABLE];

static const char *site_address(const struct site *site) { return (const char *)&site->address + site->address; }

static int site_region(const struct site *site) {
  return site->region ? (int)((const char *)&site->region + site->region - __start_transect_regions) : -1;
}

static unsigned slot_of(const void *address) { return (unsigned)(((uintptr_t)address * 0x9e3779b97f4a7c15u) >> 48); }

__attribute__((constructor(101))) static void read_sites(void) {
  for (const struct site *site = __start_transect_sites; site < __stop_transect_sites; ++site) {
    unsigned slot = slot_of(site_address(site));
    while (sites[slot]) slot = (slot + 1) % TABLE;
    sites[slot] = site;
  }
}

/* A site may be passed before the constructor ran. */
static const struct site *site_at(const char *address) {
  unsigned slot = slot_of(address);
  while (sites[slot] && site_address(sites[slot]) != address) slot = (slot + 1) % TABLE;
  return sites[slot];
}

#define RUNTIME __attribute__((no_caller_saved_registers, used, noinline, section("shadow_runtime")))

RUNTIME static void drop_below(struct shadow *s, uintptr_t stack) {
  int depth = s->depth;
  while (depth && s->open[depth - 1].stack < stack) --depth;
  s->depth = depth;
  if (s->ambiguous && s->ambiguous < stack) s->ambiguous = 0;
}

RUNTIME void shadow_event(const char *address, uintptr_t stack) {
  struct shadow *s = &shadow;
  const struct site *site = site_at(address);
  if (!site) return;
  drop_below(s, stack);
  int region = site_region(site), depth = s->depth;
  switch (site->kind) {
    case 0:
      if (depth == DEPTH) __builtin_trap();
      s->open[depth].region = region;
      s->open[depth].stack = stack;
      s->depth = depth + 1;
      return;
    case 1:
      if (s->ambiguous == stack) {
        /* The end of a region from before tells what was left open. */
        while (depth && s->open[depth - 1].stack == stack && s->open[depth - 1].region != region) --depth;
        if (depth <= s->mark) s->ambiguous = 0;
      }
      if (!depth || s->open[depth - 1].region != region) __builtin_trap();
      s->depth = depth - 1;
      return;
    default:
      if (region < 0) {
        if (depth && s->open[depth - 1].stack == stack && s->ambiguous != stack) {
          s->ambiguous = stack;
          s->mark = depth;
        }
        return;
      }
      while (depth && s->open[depth - 1].stack == stack && s->open[depth - 1].region != region) --depth;
      s->depth = depth;
      s->ambiguous = 0;
  }
}

/* Programs may tell what a handler leaves open, by the count that they had when they came to its block. */
RUNTIME int shadow_depth(void) { return shadow.depth; }

RUNTIME void shadow_left_open(int regions) {
  if (shadow.depth > regions) shadow.depth = regions;
  shadow.ambiguous = 0;
}

/* The site is the five bytes before the return address; flags may change, registers don't. */
#define SITE(name)                                                                     \
  __asm__(".pushsection shadow_runtime,\"ax\",@progbits\n.globl " name "\n.type " name \
          ",@function\n" name ":\n.cfi_startproc\npushq %rdi\n.cfi_adjust_cfa_offset 8\n" \
          "pushq %rsi\n.cfi_adjust_cfa_offset 8\nmovq 16(%rsp), %rdi\nsubq $5, %rdi\n" \
          "leaq 24(%rsp), %rsi\ncall shadow_event\npopq %rsi\n.cfi_adjust_cfa_offset -8\n" \
          "popq %rdi\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n.popsection")
SITE("transect_region_begin");
SITE("transect_region_end");
SITE("transect_region_restore");

extern const char __start_shadow_runtime[], __stop_shadow_runtime[];

/* The unwinder keeps a cache under the lock of this function: who is interrupted in it must not unwind. */
static __thread volatile int in_tables __attribute__((tls_model("initial-exec")));

int dl_iterate_phdr(int (*callback)(struct dl_phdr_info *, size_t, void *), void *data) {
  static int (*next)(int (*)(struct dl_phdr_info *, size_t, void *), void *);
  if (!next) next = (int (*)(int (*)(struct dl_phdr_info *, size_t, void *), void *))dlsym(RTLD_NEXT, "dl_iterate_phdr");
  ++in_tables;
  int result = next(callback, data);
  --in_tables;
  return result;
}

/* What the signal writes. */
struct sample {
  int frames, regions, first;
};
static struct sample samples[SAMPLES];
static _Atomic unsigned sample_count, hit_runtime, cut_short, full;
static long *words;
static _Atomic long words_used;
enum { WORDS = 1 << 24 };

struct walk {
  int frames, in_runtime;
  uintptr_t last;
  long at[FRAMES];
};

static uintptr_t unwinder_start, unwinder_end;

static int find_unwinder(struct dl_phdr_info *object, size_t size, void *data) {
  (void)size, (void)data;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    uintptr_t start = object->dlpi_addr + object->dlpi_phdr[i].p_vaddr, end = start + object->dlpi_phdr[i].p_memsz;
    if (object->dlpi_phdr[i].p_type == PT_LOAD && (uintptr_t)_Unwind_Resume >= start && (uintptr_t)_Unwind_Resume < end)
      unwinder_start = start, unwinder_end = end;
  }
  return 0;
}

extern const char _start[];
extern const void *_Unwind_Find_FDE(void *address, void *bases);

static _Unwind_Reason_Code frame(struct _Unwind_Context *context, void *argument) {
  struct walk *walk = argument;
  int exact = 0;
  uintptr_t address = _Unwind_GetIPInfo(context, &exact);
  if (address - !exact >= (uintptr_t)__start_shadow_runtime && address - !exact < (uintptr_t)__stop_shadow_runtime)
    walk->in_runtime = 1;
  /* An exception on its way: the unwinder changes the very frames that are walked here. */
  if (address >= unwinder_start && address < unwinder_end) walk->in_runtime = 1;
  walk->last = address;
  if (address < (uintptr_t)__executable_start || address >= (uintptr_t)etext || walk->frames == FRAMES) return _URC_NO_REASON;
  walk->at[walk->frames++] = (long)((address - (uintptr_t)__executable_start) << 1) | !exact;
  return _URC_NO_REASON;
}

static void take(int signal, siginfo_t *information, void *context) {
  (void)signal, (void)information;
  uintptr_t at = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
  if (in_tables || (at >= unwinder_start && at < unwinder_end)) {
    ++hit_runtime;
    return;
  }
  /* lld's linkage stubs have no unwind tables. */
  struct { void *text, *data, *function; } bases;
  if (!_Unwind_Find_FDE((void *)at, &bases)) {
    ++cut_short;
    return;
  }
  struct walk walk = {0};
  int depth = shadow.depth;
  _Unwind_Backtrace(frame, &walk);
  /* This function and the signal's frame come first. */
  if (walk.in_runtime || shadow.ambiguous) {
    ++hit_runtime;
    return;
  }
  if (walk.last >= (uintptr_t)__executable_start && walk.last < (uintptr_t)etext &&
      (walk.last < (uintptr_t)_start || walk.last > (uintptr_t)_start + 64)) {
    ++cut_short;
    return;
  }
  unsigned number = sample_count++;
  long first = atomic_fetch_add(&words_used, walk.frames + depth);
  if (number >= SAMPLES || first + walk.frames + depth > WORDS) {
    ++full;
    return;
  }
  samples[number] = (struct sample){walk.frames, depth, (int)first};
  for (int i = 0; i < depth; ++i) words[first + i] = shadow.open[i].region;
  for (int i = 0; i < walk.frames; ++i) words[first + depth + i] = walk.at[i];
}

static _Atomic int sampling;
static pthread_t sampler;

/* Interrupts all other threads, at odd times. */
static void *interrupt(void *argument) {
  (void)argument;
  pid_t pid = getpid(), self = (pid_t)syscall(SYS_gettid);
  uint64_t state = 0x9e3779b97f4a7c15u;
  while (sampling) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    struct timespec nap = {0, 150000 + (long)(state % 300000)};
    nanosleep(&nap, NULL);
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
      pid_t tid = atoi(entry->d_name);
      if (tid && tid != self && sampling) syscall(SYS_tgkill, pid, tid, SIGPROF);
    }
    if (tasks) closedir(tasks);
  }
  return NULL;
}

__attribute__((constructor(102))) static void start(void) {
  if (!getenv("SHADOW_FILE")) return;
  words = calloc(WORDS, sizeof *words);
  struct sigaction action = {.sa_sigaction = take, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigaction(SIGPROF, &action, NULL);
  dl_iterate_phdr(find_unwinder, NULL);
  /* The unwinder's first call may load a library. */
  struct walk walk = {0};
  _Unwind_Backtrace(frame, &walk);
  sampling = 1;
  pthread_create(&sampler, NULL, interrupt, NULL);
}

__attribute__((destructor)) static void finish(void) {
  const char *path = getenv("SHADOW_FILE");
  if (!path || !words) return;
  sampling = 0;
  pthread_join(sampler, NULL);
  FILE *file = fopen(path, "w");
  if (!file) return;
  unsigned count = sample_count < SAMPLES ? sample_count : SAMPLES;
  for (unsigned i = 0; i < count; ++i) {
    struct sample *sample = &samples[i];
    fputs("T", file);
    for (int k = 0; k < sample->regions; ++k) fprintf(file, " %ld", words[sample->first + k]);
    fputs(" | S", file);
    for (int k = 0; k < sample->frames; ++k) {
      long at = words[sample->first + sample->regions + k];
      /* The handler's own frames. */
      if ((uintptr_t)__executable_start + (at >> 1) >= (uintptr_t)take &&
          (uintptr_t)__executable_start + (at >> 1) < (uintptr_t)interrupt)
        continue;
      fprintf(file, " %s%lx", at & 1 ? "r" : "", at >> 1);
    }
    fputc('\n', file);
  }
  fprintf(file, "X %u %u %u\n", hit_runtime, cut_short, full);
  fclose(file);
}
