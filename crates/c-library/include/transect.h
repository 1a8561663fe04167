/*
 * transect.h: probes that any thread can toggle while others run through them.
 *
 *     #include <transect.h>
 *
 *     static uint64_t entered(transect_id id, struct transect_registers *r, void *vectors, void *data) { ... }
 *
 *     transect_id id;
 *     transect_handler handler;
 *     struct transect_handler_options h = { .tier = TRANSECT_TIER_VECTOR, .enter = entered };
 *     transect_init(TRANSECT_ABI_VERSION, sizeof(struct transect_options), NULL);
 *     transect_find_function((void *)hot, &id);       // a site gets its dense id: nothing changes yet
 *     transect_register_handler(&h, &handler);
 *     transect_set_handler(id, handler);
 *     transect_install(&id, 1, NULL);                 // its jump is written while other threads run
 *     transect_activate(id);                          // from here on toggling is one store
 *
 * Functions return 0 (TRANSECT_OK) or a count if they succeed, else a negative enum transect_status;
 * transect_last_error() has the details. The library never prints (but for the report asked for by TRANSECT_PROBES),
 * never exits, and leaves no exception.
 *
 * Functions marked [signal-safe] may be called by any thread at any time, in signal handlers and in probes' handlers
 * too; they take no lock, call neither kernel nor C library, and set no last error. The others may not be called in
 * signal handlers.
 *
 * C11 and C++17. x86-64 Linux.
 */
#ifndef TRANSECT_H
#define TRANSECT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRANSECT_ABI_VERSION 1u

/* Sizes of the structures of this version of the interface; asserted below and in the library. */
#define TRANSECT_SIZEOF_OPTIONS 64
#define TRANSECT_SIZEOF_SITE 128
#define TRANSECT_SIZEOF_REGISTERS 96
#define TRANSECT_SIZEOF_FULL_CONTEXT 64
#define TRANSECT_SIZEOF_HANDLER_OPTIONS 32
#define TRANSECT_SIZEOF_TIMES 64
#define TRANSECT_SIZEOF_REFUSAL 48
#define TRANSECT_SIZEOF_WORD_PATCH 48
#define TRANSECT_SIZEOF_CALL_SITE 128
#define TRANSECT_SIZEOF_WINDOW 208
#define TRANSECT_SIZEOF_BATCH_REPORT 40

enum transect_status {
    TRANSECT_OK = 0,
    /** The program was compiled against another version of transect.h. */
    TRANSECT_ERROR_ABI = -1,
    /** transect_init() has not succeeded yet. */
    TRANSECT_ERROR_NOT_INITIALIZED = -2,
    /** An argument is out of its range, or a null pointer. */
    TRANSECT_ERROR_ARGUMENT = -3,
    /** No function or site has this name or address. */
    TRANSECT_ERROR_NOT_FOUND = -4,
    /** Several functions have this name; the last error lists them. */
    TRANSECT_ERROR_AMBIGUOUS = -5,
    /** No such probe id. */
    TRANSECT_ERROR_NO_SITE = -6,
    /** The site is not installed. */
    TRANSECT_ERROR_NOT_INSTALLED = -7,
    /** The site's object was unloaded. */
    TRANSECT_ERROR_GONE = -8,
    /** The site can't do this: timing or an exit handler where the end of a call can't be observed. */
    TRANSECT_ERROR_UNSUPPORTED = -9,
    /** Memory, or ids, are exhausted. */
    TRANSECT_ERROR_MEMORY = -10,
    /** A file can't be read, or is no ELF object for x86-64. */
    TRANSECT_ERROR_OBJECT = -11,
    /** A system call failed; the last error names it. */
    TRANSECT_ERROR_SYSTEM = -12,
    /** Patch refused: other bytes than expected stand there. */
    TRANSECT_ERROR_FOREIGN_BYTES = -20,
    /** Patch refused: no room for a jump. */
    TRANSECT_ERROR_TOO_SHORT = -21,
    /** Patch refused: a jump leads into the window. */
    TRANSECT_ERROR_JUMP_TARGET = -22,
    /** Patch refused: no trampoline in reach. */
    TRANSECT_ERROR_REACH = -23,
    /** Patch refused: shadow stack. */
    TRANSECT_ERROR_SHADOW_STACK = -24,
    /** Patch refused: windows share bytes. */
    TRANSECT_ERROR_OVERLAP = -25,
    /** Another thread is patching there: try again. */
    TRANSECT_ERROR_CONTENDED = -26,
    /** Patch refused: a thread blocks the signal that the protocol needs, or doesn't answer it. */
    TRANSECT_ERROR_THREAD = -27,
    /** Patch refused: not executable memory. */
    TRANSECT_ERROR_NOT_EXECUTABLE = -28,
    /** Patch refused: the instructions can't be displaced, emulated or switched by one store. */
    TRANSECT_ERROR_INSTRUCTION = -29,
    /** Patch refused: the kernel forbids to write to code. */
    TRANSECT_ERROR_NOT_WRITABLE = -30,
    /** Patch refused: other threads can't be serialized. */
    TRANSECT_ERROR_SERIALIZATION = -31,
    /** Patch refused: a debugger takes the breakpoints that the protocol needs. */
    TRANSECT_ERROR_TRACED = -32,
    /** Patch refused: this function isn't one to probe (private convention, not code). */
    TRANSECT_ERROR_NOT_PROBEABLE = -33
};

/** A sentence for a status, in static storage. [signal-safe] */
const char *transect_strerror(int status);

/** What went wrong in the last call of this thread that failed: names, addresses, what to do. Empty if nothing. The
 *  text is valid until the next call of this thread. */
const char *transect_last_error(void);

/** Version of the library, such as "0.1.0". [signal-safe] */
const char *transect_version(void);

/* ---- start ------------------------------------------------------------------------------------------------------ */

enum transect_access {
    /** The first that works. */
    TRANSECT_ACCESS_AUTO = 0,
    /** Pages that are writable and executable. */
    TRANSECT_ACCESS_PAGE_PROTECTION = 1,
    /** /proc/self/mem, and trampolines in memory that is mapped twice: no page is writable and executable at once. */
    TRANSECT_ACCESS_PROC_MEM = 2,
    /** Memory files mapped twice, in the place of text that is toggled in place. */
    TRANSECT_ACCESS_ALIAS = 3
};

enum transect_method {
    TRANSECT_METHOD_AUTO = 0,
    /** INT3 and membarrier: no thread stops. */
    TRANSECT_METHOD_TRAP = 1,
    /** Other threads wait in a signal handler while code is written. */
    TRANSECT_METHOD_STOP = 2
};

/** Initialize it by TRANSECT_OPTIONS_INIT, then change what you like. */
struct transect_options {
    uint32_t site_size;            /**< sizeof(struct transect_site) */
    uint32_t registers_size;       /**< sizeof(struct transect_registers) */
    uint32_t full_context_size;    /**< sizeof(struct transect_full_context) */
    uint32_t handler_options_size; /**< sizeof(struct transect_handler_options) */
    uint32_t times_size;           /**< sizeof(struct transect_times) */
    uint32_t refusal_size;         /**< sizeof(struct transect_refusal) */
    uint32_t access;               /**< enum transect_access */
    uint32_t method;               /**< enum transect_method */
    uint32_t signal;               /**< signal that moves or stops threads during installs; 0: SIGURG */
    uint32_t patience_ms;          /**< longest wait for a thread's answer to it; 0: 1000 */
    uint32_t allow_blocked;        /**< 1: install although threads block that signal */
    uint32_t reserved[5];          /**< zero */
};

/* clang-format off */
#define TRANSECT_OPTIONS_INIT \
    { (uint32_t)sizeof(struct transect_site), (uint32_t)sizeof(struct transect_registers), \
      (uint32_t)sizeof(struct transect_full_context), (uint32_t)sizeof(struct transect_handler_options), \
      (uint32_t)sizeof(struct transect_times), (uint32_t)sizeof(struct transect_refusal), \
      TRANSECT_ACCESS_AUTO, TRANSECT_METHOD_AUTO, 0, 0, 0, { 0, 0, 0, 0, 0 } }
/* clang-format on */

/** Begins. `abi_version` is TRANSECT_ABI_VERSION, `options_size` sizeof(struct transect_options), `options` may be
 *  null. A second call with the same options does nothing. */
int transect_init(uint32_t abi_version, size_t options_size, const struct transect_options *options);

/* ---- sites ------------------------------------------------------------------------------------------------------ */

/** Dense: 0, 1, 2, … in the order of discovery. An id is never reused. */
typedef uint32_t transect_id;
#define TRANSECT_NO_ID UINT32_MAX

enum transect_event { TRANSECT_ENTRY = 0, TRANSECT_EXIT = 1, TRANSECT_POINT = 2 };

enum transect_provider {
    /** Entry of a function as the compiler left it: its first instructions are displaced. */
    TRANSECT_PROVIDER_ENTRY = 0,
    /** -fpatchable-function-entry */
    TRANSECT_PROVIDER_PATCHABLE_ENTRY = 1,
    /** -mfentry -mnop-mcount, -mrecord-mcount */
    TRANSECT_PROVIDER_FENTRY = 2,
    /** LLVM XRay */
    TRANSECT_PROVIDER_XRAY = 3,
    /** -finstrument-functions; such sites appear when they are first executed */
    TRANSECT_PROVIDER_INSTRUMENT_FUNCTIONS = 4,
    /** SystemTap notes (USDT) */
    TRANSECT_PROVIDER_USDT = 5
};

enum transect_state {
    TRANSECT_FOUND = 0,     /**< known; the text is as it was */
    TRANSECT_INSTALLED = 1, /**< can be toggled */
    TRANSECT_GONE = 2,      /**< its object was unloaded */
    TRANSECT_RESTORED = 3   /**< the original bytes are back; can be installed again */
};

/** A site. Its strings live as long as the program. */
struct transect_site {
    transect_id id;
    uint32_t provider;         /**< enum transect_provider */
    uint32_t event;            /**< enum transect_event */
    uint32_t state;            /**< enum transect_state */
    uint32_t active;           /**< 1: switched on */
    uint32_t exit_observable;  /**< 1: an entry whose exit can be timed and handled */
    uint64_t address;          /**< where it stands in this process */
    uint64_t function_address; /**< its function's entry in this process */
    uint64_t function_size;    /**< bytes */
    const char *function;      /**< demangled name, or sub_<hex address in the file> */
    const char *symbol;        /**< as in the symbol table, or empty */
    const char *component;     /**< file name of the object */
    const char *path;          /**< path of the object */
    const char *name;          /**< provider:name of a SystemTap note, or empty */
    const char *file;          /**< source file, or empty */
    uint32_t line;             /**< source line, or 0 */
    uint32_t window_length;    /**< bytes of code that the site occupies */
    uint64_t reserved[3];
};

/** What a discovery callback wants of the site: bits. TRANSECT_STOP ends the discovery (after doing the rest). */
enum transect_site_request {
    TRANSECT_IGNORE = 0,
    TRANSECT_INSTALL = 1,  /**< install it, in a batch with the others, before transect_discover() returns */
    TRANSECT_ACTIVATE = 3, /**< install it and switch it on */
    TRANSECT_STOP = 4
};

/** Called for each site. May call [signal-safe] functions and transect_register_handler(). */
typedef int (*transect_discovery_fn)(const struct transect_site *site, void *data);

enum transect_discover_flags {
    /** Also the sites of objects that are loaded later: the callback is called when the loader has mapped them, before
     *  their constructors run, in the thread that loads them and under the loader's lock. */
    TRANSECT_FUTURE_OBJECTS = 1,
    /** Don't look for source lines (which takes a while in programs with much debug information). */
    TRANSECT_NO_LINES = 2
};

/** Finds sites. `pattern` is COMPONENT:FUNCTION[@SOURCE]: globs (* and ?); COMPONENT is matched with the file name or
 *  the path of the object and may be left out (any object), an empty one is the executable. FUNCTION is matched with the
 *  symbol, the demangled name, and the demangled name without arguments. Several patterns are separated by commas or
 *  blanks; one that begins with ! excludes. The library itself is never probed.
 *
 *  Returns the number of sites that matched. A site keeps the id of its first discovery. If a site can't be installed
 *  as wished, the others are; the last error says which, and transect_site() shows its state. */
int64_t transect_discover(const char *pattern, uint32_t flags, transect_discovery_fn callback, void *data);

/** Site at the entry of a function given by its address. */
int transect_find_function(const void *function, transect_id *id);

/** Site at the entry of the one function with this name ("component:function" or "function", no globs). */
int transect_find(const char *name, transect_id *id);

/** Metadata and state of a site. */
int transect_get_site(transect_id id, struct transect_site *site);

/** Ids given out so far. [signal-safe] */
uint32_t transect_site_count(void);

/** A function that can't be probed. */
struct transect_refusal {
    const char *function;
    const char *component;
    const char *reason;
    uint64_t function_address;
    int32_t status; /**< enum transect_status */
    uint32_t reserved0;
    uint64_t reserved1;
};

typedef void (*transect_refusal_fn)(const struct transect_refusal *refusal, void *data);

/** Functions that match the pattern and can't be probed, with the reason. Returns their number. */
int64_t transect_refused(const char *pattern, transect_refusal_fn callback, void *data);

/* ---- installing and toggling -------------------------------------------------------------------------------------- */

/** Writes the sites' jumps, in one batch, while other threads run. statuses (may be null) gets an enum transect_status
 *  for each id. Returns the number of sites that are installed now; sites that can't be are left out, and the last
 *  error tells of the first of them. Installed sites are off. */
int64_t transect_install(const transect_id *ids, size_t count, int32_t *statuses);

/** Puts the original bytes back. As transect_install(). */
int64_t transect_restore(const transect_id *ids, size_t count, int32_t *statuses);

/** Restores all sites of all objects and takes the library's own probes out, too (on the loader and the unwinders): all
 *  code is as it was before. Calls that are still open return without an exit handler; discovery of future objects ends.
 *  Returns the number of sites. */
int64_t transect_restore_all(void);

/** Switches an installed site on. Wait-free. [signal-safe] */
int transect_activate(transect_id id);
/** Switches an installed site off. Calls that have begun get their exit handler. Wait-free. [signal-safe] */
int transect_deactivate(transect_id id);
/** 1: on, 0: off. [signal-safe] */
int transect_is_active(transect_id id);
/** Switches many sites on. Returns how many of them are on. [signal-safe] */
int64_t transect_activate_batch(const transect_id *ids, size_t count);
/** Switches many sites off. Returns how many of them are off. [signal-safe] */
int64_t transect_deactivate_batch(const transect_id *ids, size_t count);

/* ---- handlers ----------------------------------------------------------------------------------------------------- */

/** Integer registers at a probe. What a handler writes there is what the program goes on with; `probe` and
 *  `return_address` are for reading. The handler's pointer is the stack pointer at the probe less
 *  offsetof(struct transect_registers, return_address): at an entry, stack arguments follow the structure. */
struct transect_registers {
    uint64_t rbp, r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax;
    uint64_t probe;
    uint64_t return_address;
};

/** Third argument of handlers of TRANSECT_TIER_FULL; the XSAVE area in its standard form follows at +64 (xmm0 at +64 +
 *  160, upper half of ymm0 at +64 + 576). Flags and stack pointer are for reading. */
struct transect_full_context {
    uint64_t rflags, rbx, r12, r13, r14, r15, rsp;
    uint64_t reserved;
};

enum transect_tier {
    /** Handler and what it calls must not touch vector registers: compile with -mgeneral-regs-only. No memcpy, no printf. */
    TRANSECT_TIER_INTEGER = 1,
    /** `vectors` points to xmm0 to xmm15, 16 bytes each. Any C code may be called. Upper halves of these registers are
     *  kept; mask registers and zmm16 to zmm31, which no call preserves, are not. */
    TRANSECT_TIER_VECTOR = 2,
    /** `vectors` points to a struct transect_full_context. */
    TRANSECT_TIER_FULL = 3,
    /** As TRANSECT_TIER_VECTOR, for a handler that neither contains nor calls AVX code (libc's string functions are such
     *  code): finding out about the upper halves costs more than the rest of the probe. */
    TRANSECT_TIER_SSE = 4
};

/** At an entry, exit (of providers that have exit sites) or point. What it returns is the exit handler's cookie. */
typedef uint64_t (*transect_enter_fn)(transect_id id, struct transect_registers *registers, void *vectors, void *data);
/** At the exit of a function whose entry was probed: rax, rdx, xmm0 and xmm1 hold the result. */
typedef void (*transect_exit_fn)(transect_id id, struct transect_registers *registers, void *vectors, uint64_t cookie,
                                 void *data);

struct transect_handler_options {
    uint32_t tier;           /**< enum transect_tier */
    uint32_t reserved;       /**< zero */
    transect_enter_fn enter; /**< may be null if exit is not */
    transect_exit_fn exit;   /**< may be null */
    void *data;              /**< passed on */
};

/** A registered handler. */
typedef uint32_t transect_handler;
/** Built in: counts calls (the tier of a site that has no other). */
#define TRANSECT_HANDLER_COUNT ((transect_handler)0)
/** Built in: does nothing. */
#define TRANSECT_HANDLER_NOTHING ((transect_handler)1)
/** Built in: counts calls and times them. */
#define TRANSECT_HANDLER_TIME ((transect_handler)2)

/** Makes a handler known. Handlers live as long as the program.
 *
 *  A handler runs in the program's thread, in the middle of whatever it does, perhaps in a signal handler or under a
 *  lock: it should take no lock, and must leave errno as it found it and not leave by longjmp or an exception. Probes that
 *  it runs into itself call no handler (they count, if they count). */
int transect_register_handler(const struct transect_handler_options *options, transect_handler *handler);

/** Gives a site another handler, at any time, installed or not, on or off. A call that has begun with a handler ends
 *  with the one that is set when it ends. Wait-free. [signal-safe] */
int transect_set_handler(transect_id id, transect_handler handler);

/** Calls counted by TRANSECT_HANDLER_COUNT and _TIME. */
struct transect_times {
    uint64_t calls;      /**< calls that met the probe switched on */
    uint64_t timed;      /**< calls timed */
    uint64_t total_ns;   /**< their sum, what an empty timed call shows taken off */
    uint64_t mean_ns;
    uint64_t p50_ns;     /**< from a histogram with eight buckets per power of two */
    uint64_t p90_ns;
    uint64_t p99_ns;
    uint64_t max_ns;
};

/** [signal-safe] */
int transect_count(transect_id id, uint64_t *calls);
int transect_get_times(transect_id id, struct transect_times *times);
/** Begins counts and times of a site anew. */
int transect_reset(transect_id id);

/* ---- patching of words, calls and windows of your own ------------------------------------------------------------- */

/** A word of code to replace. */
struct transect_word_patch {
    uint64_t address;   /**< where it is executed, any alignment */
    uint64_t moved;     /**< where a thread goes on that meets the word meanwhile: a copy of the old or new instructions;
                             0 if the old or new instruction can be emulated (calls, jumps, no-ops, pushes, …) */
    uint8_t old_bytes[8];
    uint8_t new_bytes[8];
    uint32_t length;    /**< bytes that count, 1 to 8 */
    uint32_t reserved0; /**< zero */
    uint64_t reserved1; /**< zero */
};

/** Patches a word while other threads execute it; 1 if it is done, 0 if another thread is patching there.
 *
 *  If the bytes that differ lie in one aligned 8-byte word, that is one store: no system call, no lock. Otherwise it is
 *  two calls of membarrier(2). The first patch of a page prepares it, which takes system calls; the page may be gone, or
 *  be another one, by the next: TRANSECT_ERROR_NOT_EXECUTABLE or TRANSECT_ERROR_FOREIGN_BYTES, not a crash, unless the
 *  program has replaced the handler of SIGSEGV that preparing sets (and which passes on all other faults). */
int transect_patch(const struct transect_word_patch *patch);
/** Prepares the pages of a word beforehand. */
int transect_prepare_word(uint64_t address, uint32_t length);
/** The same as transect_patch() in steps: starts, and returns. 1: started, 0: another thread is patching there. */
int transect_start_patch(const struct transect_word_patch *patch);
/** Takes the next step of what transect_start_patch() began, and returns: 1 if no patch is under way there any more, 0 if
 *  it is: call again. Any thread may. Waits for no thread and no time; a step is at most one call of membarrier(2). */
int transect_finish_patch(const struct transect_word_patch *patch);

/** How other threads are made to see new code. */
enum transect_serialization {
    TRANSECT_SERIALIZE_MEMBARRIER = 0,
    /** Waits instead, as published by Chamith et al. (PLDI '16). Not safe on cold lines: for measurements. */
    TRANSECT_SERIALIZE_WAIT = 1
};

/** Sets it for transect_patch() and its two steps. `ticks` is the wait, of the time-stamp counter. */
int transect_set_serialization(uint32_t serialization, uint64_t ticks);

/** A five-byte call or jump of your own that is switched on and off by one store. Opaque. */
struct transect_call_site {
    uint64_t opaque[16];
};

/** Prepares the site at `address`: a call (opcode 0xE8) or jump (0xE9) of five bytes to `target` while on. While off it
 *  does nothing, or (address % 8 == 7) calls `idle`, which only returns (for a jump: which does what the site does while
 *  off). `original` are the five bytes that stand there now. The site is off afterwards. */
int transect_prepare_call(struct transect_call_site *site, uint64_t address, uint8_t opcode, uint64_t target, uint64_t idle,
                          const uint8_t original[5]);
/** Switches it on. Wait-free. [signal-safe] */
int transect_activate_call(const struct transect_call_site *site);
/** Switches it off. Wait-free. [signal-safe] */
int transect_deactivate_call(const struct transect_call_site *site);

/** A stretch of code to replace: `old_bytes` are whole instructions, `new_bytes` one instruction (a jump, call or no-op)
 *  followed by bytes that are never executed, or the other way round. */
struct transect_window {
    uint64_t address;
    uint32_t length; /**< at most 19 */
    uint32_t starts; /**< bit i: an old instruction begins at address + i */
    uint8_t old_bytes[19];
    uint8_t new_bytes[19];
    uint8_t reserved[2];
    uint64_t moves[19]; /**< where a thread goes on whose program counter is at old instruction start i */
};

struct transect_batch_report {
    uint64_t written; /**< windows written */
    uint64_t already; /**< windows that had their new bytes already */
    uint64_t moved;   /**< threads whose program counter was moved */
    uint64_t trapped; /**< threads that met a breakpoint and were led around it */
    uint64_t ticks;   /**< from the first store to the last serialization */
};

/** Replaces all windows, or none. `report` may be null. */
int transect_patch_windows(const struct transect_window *windows, size_t count, struct transect_batch_report *report);

/* ---- the compiler's hooks (-finstrument-functions) ---------------------------------------------------------------- */

/** What the sites of -finstrument-functions do when they are met for the first time: 1 they are converted and switched
 *  on with `handler`; 0 they are converted and off. Before this is called: they count. [signal-safe] */
int transect_instrument_functions(transect_handler handler, int active);

#if defined(__cplusplus)
#define TRANSECT_ASSERT(condition) static_assert(condition, "transect.h: unexpected layout")
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define TRANSECT_ASSERT(condition) _Static_assert(condition, "transect.h: unexpected layout")
#else
#define TRANSECT_ASSERT(condition) struct transect_assert
#endif
TRANSECT_ASSERT(sizeof(struct transect_options) == TRANSECT_SIZEOF_OPTIONS);
TRANSECT_ASSERT(sizeof(struct transect_site) == TRANSECT_SIZEOF_SITE);
TRANSECT_ASSERT(sizeof(struct transect_registers) == TRANSECT_SIZEOF_REGISTERS);
TRANSECT_ASSERT(sizeof(struct transect_full_context) == TRANSECT_SIZEOF_FULL_CONTEXT);
TRANSECT_ASSERT(sizeof(struct transect_handler_options) == TRANSECT_SIZEOF_HANDLER_OPTIONS);
TRANSECT_ASSERT(sizeof(struct transect_times) == TRANSECT_SIZEOF_TIMES);
TRANSECT_ASSERT(sizeof(struct transect_refusal) == TRANSECT_SIZEOF_REFUSAL);
TRANSECT_ASSERT(sizeof(struct transect_word_patch) == TRANSECT_SIZEOF_WORD_PATCH);
TRANSECT_ASSERT(sizeof(struct transect_call_site) == TRANSECT_SIZEOF_CALL_SITE);
TRANSECT_ASSERT(sizeof(struct transect_window) == TRANSECT_SIZEOF_WINDOW);
TRANSECT_ASSERT(sizeof(struct transect_batch_report) == TRANSECT_SIZEOF_BATCH_REPORT);

#ifdef __cplusplus
}
#endif

#endif
