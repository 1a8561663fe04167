#include "embed_bitcode.h"

#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/MemoryBufferRef.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace llvm;

namespace transect {

PreservedAnalyses EmbedBitcodePass::run(Module &module, ModuleAnalysisManager &) {
  constexpr const char *section = ".llvm.lto";
  if (module.getGlobalVariable("llvm.embedded.module", /*AllowInternal=*/true))
    return PreservedAnalyses::all();
  // Says that this is for the link of one whole module.
  if (!module.getModuleFlag("ThinLTO"))
    module.addModuleFlag(Module::Error, "ThinLTO", uint32_t(0));
  std::string bitcode;
  raw_string_ostream stream(bitcode);
  WriteBitcodeToFile(module, stream);
  stream.flush();
  embedBufferInModule(module, MemoryBufferRef(bitcode, "bitcode"), section);
  return PreservedAnalyses::none();
}

}  // namespace transect
