// Which features' values reach which decisions.
#pragma once

#include "analysis_copy.h"
#include "dependence.h"
#include "points_to.h"

#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace transect {

/// Decisions of which the analysis is to tell why they carry their features.
struct TaintQuestion {
  std::string function;  ///< Function or source file; empty: of none.
  unsigned line = 0;
  bool cuts = false;  ///< And through which places most features reach most decisions (cuts.h).
  std::vector<std::string> features;
  llvm::raw_ostream *out = nullptr;  ///< Null: nothing is asked.

  /// From `FUNCTION:LINE` or `FILE:LINE`; without a line, all of the function or file.
  static TaintQuestion read(llvm::StringRef text, bool cuts, std::vector<std::string> features, llvm::raw_ostream &out);
  bool asksFor(const llvm::Instruction &decision) const;
};

/// Features that each decision of the program depends on, and how; most have none. Flow of values is told apart by call site
/// (functions are summarised by what their results take from their parameters); memory by object and field.
std::vector<FeatureUses> decisionFeatures(const AnalysisCopy &copy, const PointsTo &pointsTo,
                                                    ImplicitFlow implicit, const TaintQuestion &question = {});

}  // namespace transect
