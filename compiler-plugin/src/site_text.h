// The assembly text of one site: its instruction, its entry in `transect_sites` and its USDT note.
#pragma once

#include "region.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"

namespace transect {

/// What a site says; values as in `event_abi::region_arena::EVENT_*`.
enum class SiteKind : unsigned { Begin = 0, End = 1, Restore = 2 };

/// One site to emit.
struct Site {
  SiteKind kind;
  int region;      ///< Index into RegionSet::regions; -1 for a restore outside of regions.
  unsigned depth;  ///< Regions with sites of this function that stay open (sections.h).

  bool operator==(const Site &other) const {
    return kind == other.kind && region == other.region && depth == other.depth;
  }
};

/// Emits sites of one module in one mode.
class SiteWriter {
public:
  /// `record` is the address of each region's record in the region table.
  SiteWriter(llvm::Module &module, const RegionSet &regions, std::vector<llvm::Constant *> records, SiteMode mode);

  /// Adds the assembly that all sites of the module need once.
  void writeSharedParts();

  /// Adds a site before `where`.
  void write(llvm::Instruction *where, const Site &site);

private:
  std::string text(const Site &site) const;
  llvm::Constant *sharedName(int region);
  void call(llvm::IRBuilder<> &builder, const std::string &text, const std::string &constraints,
            llvm::ArrayRef<llvm::Value *> operands);
  void writeSharedEnds();

  llvm::Module &module;
  const RegionSet &regions;
  std::vector<llvm::Constant *> records;
  std::vector<llvm::Constant *> names;
  SiteMode mode;
};

}  // namespace transect
