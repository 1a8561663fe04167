// Sites and sections by hand, as the compiler plugin makes them (compiler-plugin/src/sections.h).
// TRACE: calls of the runtime; otherwise no-ops that probes are put on.
#pragma once
#include <stdint.h>

#ifdef TRACE
#define SITE_BEGIN "call transect_region_begin"
#define SITE_END "call transect_region_end"
#define SITE_RESTORE "call transect_region_restore"
#else
#define SITE_BEGIN ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00"
#define SITE_END SITE_BEGIN
#define SITE_RESTORE SITE_BEGIN
#endif

#define SITE(code, region, kind, depth)                                                                              \
  __asm__ volatile("771: " code "\n"                                                                                 \
                   ".pushsection transect_sites, \"aR\", @progbits\n"                                                \
                   "772: .long 771b - 772b\n"                                                                        \
                   "773: .long " region " - 773b\n"                                                                  \
                   ".byte " #kind ", 0\n"                                                                            \
                   ".short " #depth "\n"                                                                             \
                   ".popsection" ::: "cc", "memory")

#define REGION_BEGIN(n, depth) SITE(SITE_BEGIN, "region_" #n, 0, depth)
#define REGION_END(n, depth) SITE(SITE_END, "region_" #n, 1, depth)
/// Control comes back by unwinding, inside of region n, with `depth` regions of the function open.
#define REGION_RESTORE(n, depth) SITE(SITE_RESTORE, "region_" #n, 2, depth)
#define REGION_RESTORE_OUTSIDE() SITE(SITE_RESTORE, "773b", 2, 0)

#ifdef TRACE
#define SITES_WORD "trace"
#else
#define SITES_WORD "probe"
#endif

#define UNIT(features)                                                                                               \
  ".pushsection transect_regions, \"aR\", @progbits\n"                                                               \
  ".ascii \"U\\tversion=2\\tbuild=00000000000000aa\\tunit=whole program\\tmodel=00000000000000bb\\timplicit=constant"  \
  "\\tsites=" SITES_WORD "\\tcompiler=by-hand\\tfeatures=" features "\\n\"\n"
#define REGION(n, features, function, parent, depth)                                                                 \
  "region_" #n ": .ascii \"R\\tnumber=" #n "\\tfeatures=" features "\\tkind=branch\\tfunction=" function             \
  "\\tfile=by_hand.c\\tline=" #n "\\tcolumn=1\\tend_line=" #n "\\tparent=" parent "\\tdepth=" #depth "\\tirregular=\\n\"\n"
#define END_OF_UNIT ".popsection\n"
