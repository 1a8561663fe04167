// From regions to sites: which sites stand at which place, and in which order.
#include "debug_regions.h"
#include "hot_loops.h"
#include "region_table.h"
#include "report.h"
#include "site_text.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/IR/CFG.h"
#include "llvm/Support/raw_ostream.h"

#include <cassert>
#include <cstdlib>

using namespace llvm;

namespace transect {

namespace {

/// Sites of one place, in the order in which they run.
using SiteList = SmallVector<Site, 2>;

/// At one place what was open closes first, innermost first; then what begins does, outermost first.
bool runsBefore(const Site &a, const Site &b) {
  auto rank = [](SiteKind kind) { return kind == SiteKind::Restore ? 0 : kind == SiteKind::End ? 1 : 2; };
  if (a.kind != b.kind)
    return rank(a.kind) < rank(b.kind);
  return a.kind == SiteKind::End ? a.depth > b.depth : a.depth < b.depth;
}

/// Where a block can take a site at its end: before its terminator, or before the call that must be followed by return.
Instruction *blockEnd(BasicBlock *block) {
  if (CallInst *tail = block->getTerminatingMustTailCall())
    return tail;
  return block->getTerminator();
}

class Placement {
public:
  void add(const Place &place, const Site &site) {
    if (!place.to)
      add(inBlocks[place.from], site);
    else
      add(onEdges[{place.from, place.successor}], site);
  }

  void write(SiteWriter &writer) {
    for (auto &entry : onEdges)
      llvm::stable_sort(entry.second, runsBefore);
    for (auto &entry : inBlocks)
      llvm::stable_sort(entry.second, runsBefore);
    // Starts of blocks before their ends, as both may be the same instruction.
    MapVector<BasicBlock *, SiteList> atStarts;
    for (auto &[edge, sites] : onEdges)
      if (BasicBlock *to = target(edge); entersAtStart(edge))
        for (const Site &site : sites)
          add(atStarts[to], site);
    for (auto &[block, sites] : inBlocks)
      if (block->isEHPad())
        for (const Site &site : sites)
          if (site.kind == SiteKind::Restore)
            add(atStarts[block], site);
    for (auto &[block, sites] : atStarts)
      writeAll(writer, startOf(block), sites);
    for (auto &[block, sites] : inBlocks) {
      if (block->isEHPad())
        erase_if(sites, [](const Site &site) { return site.kind == SiteKind::Restore; });
      writeAll(writer, blockEnd(block), sites);
    }
    MapVector<std::pair<BasicBlock *, BasicBlock *>, SmallVector<unsigned, 2>> splits;
    for (auto &[edge, sites] : onEdges) {
      if (entersAtStart(edge))
        continue;
      if (edge.first->getTerminator()->getNumSuccessors() == 1)
        writeAll(writer, blockEnd(edge.first), sites);
      else
        splits[{edge.first, target(edge)}].push_back(edge.second);
    }
    for (auto &[ends, successors] : splits)
      split(writer, ends.first, ends.second, successors);
  }

private:
  using Edge = std::pair<BasicBlock *, unsigned>;

  static BasicBlock *target(const Edge &edge) { return edge.first->getTerminator()->getSuccessor(edge.second); }

  /// Whether an edge's sites can stand at the start of its target: no one else comes there, or it is a landing pad,
  /// whose edges can't be split.
  static bool entersAtStart(const Edge &edge) {
    BasicBlock *to = target(edge);
    // A computed goto's targets are named by their addresses, too, and may be several times in its list.
    if (isa<IndirectBrInst>(edge.first->getTerminator()))
      return to->isEHPad() || to->getUniquePredecessor();
    return to->isEHPad() || (edge.first->getTerminator()->getNumSuccessors() > 1 && to->getSinglePredecessor());
  }

  static void add(SiteList &list, const Site &site) {
    if (!is_contained(list, site))
      list.push_back(site);
  }

  static Instruction *startOf(BasicBlock *block) { return &*block->getFirstInsertionPt(); }

  static void writeAll(SiteWriter &writer, Instruction *where, const SiteList &sites) {
    for (const Site &site : sites)
      writer.write(where, site);
  }

  /// Edges of a switch that carry the same sites share a new block.
  void split(SiteWriter &writer, BasicBlock *from, BasicBlock *to, SmallVectorImpl<unsigned> &successors) {
    Instruction *terminator = from->getTerminator();
    assert(!isa<IndirectBrInst>(terminator) && !isa<CallBrInst>(terminator) && "their targets can't be replaced");
    while (!successors.empty()) {
      const SiteList sites = onEdges[{from, successors.front()}];
      auto *middle = BasicBlock::Create(from->getContext(), "transect", from->getParent(), to);
      auto *jump = BranchInst::Create(to, middle);
      jump->setDebugLoc(terminator->getDebugLoc());
      unsigned moved = 0;
      erase_if(successors, [&](unsigned successor) {
        if (!(onEdges[{from, successor}] == sites))
          return false;
        terminator->setSuccessor(successor, middle);
        ++moved;
        return true;
      });
      for (PHINode &phi : to->phis()) {
        Value *value = phi.getIncomingValueForBlock(from);
        for (unsigned i = 0; i < moved; ++i)
          phi.removeIncomingValue(from, /*DeletePHIIfEmpty=*/false);
        phi.addIncoming(value, middle);
      }
      writeAll(writer, jump, sites);
    }
  }

  MapVector<Edge, SiteList> onEdges;
  MapVector<BasicBlock *, SiteList> inBlocks;
};

/// Number of regions with sites around each region: those without sites are not counted at run time.
std::vector<unsigned> siteDepths(const RegionSet &set) {
  std::vector<unsigned> depths(set.regions.size(), 0);
  for (size_t i = 0; i < set.regions.size(); ++i)
    for (int parent = set.regions[i].parent; parent >= 0; parent = set.regions[parent].parent)
      depths[i] += set.regions[parent].irregular.empty();
  return depths;
}

}  // namespace

void emitSites(Module &module, const RegionSet &found, SiteMode mode) {
  RegionSet set = found;
  if (mode != SiteMode::Inlined)
    leaveHotLoopsToSampling(module, set);
  if (mode == SiteMode::Trace || mode == SiteMode::Shared)
    for (Region &region : set.regions)
      if (region.irregular.empty() && featureNames(set, region.features).empty())
        region.irregular = "by content only: events of it are not compiled in";
  if (std::getenv("TRANSECT_FEATURE_REPORT"))
    for (const Region &region : set.regions)
      if (StringRef(region.irregular).starts_with(kHotLoop))
        errs() << "transect: region " << region.number << " in " << region.function->getName() << ", line "
               << (region.where ? region.where.getLine() : 0) << ": " << region.irregular << "\n";
  const std::vector<unsigned> depths = siteDepths(set);
  SiteWriter writer(module, set, writeRegionTable(module, set, depths, mode), mode);
  if (mode == SiteMode::None || mode == SiteMode::Confirm)
    return;
  describeInDebugInfo(module, set, mode == SiteMode::Inlined);
  if (mode == SiteMode::Inlined)
    return;
  if (mode != SiteMode::Probe)
    for (Function &function : module)
      if (!function.isDeclaration())
        function.addFnAttr(Attribute::NoRedZone);  // sites call
  writer.writeSharedParts();
  Placement placement;
  for (size_t i = 0; i < set.regions.size(); ++i) {
    const Region &region = set.regions[i];
    // Regions without sites that unwinding ends in are the affair of the regions around them.
    if (!region.irregular.empty())
      continue;
    for (const Place &place : region.begins)
      placement.add(place, {SiteKind::Begin, int(i), depths[i]});
    for (const Place &place : region.ends)
      placement.add(place, {SiteKind::End, int(i), depths[i]});
    for (const Place &place : region.restores)
      placement.add(place, {SiteKind::Restore, int(i), depths[i] + 1});
  }
  for (const Place &place : set.restores)
    placement.add(place, {SiteKind::Restore, -1, 0});
  placement.write(writer);
}

}  // namespace transect
