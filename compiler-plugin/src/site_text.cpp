#include "site_text.h"
#include "report.h"
#include "sections.h"

#include "llvm/IR/Attributes.h"
#include "llvm/Support/ModRef.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace llvm;

namespace transect {

namespace {

constexpr const char *kNop5 = ".byte 0x0f,0x1f,0x44,0x00,0x00\n";

/// A USDT note (version 3) of provider `transect` for the instruction at `label`. The section is linked to the code's,
/// so that both are kept or dropped together.
std::string probeNote(const std::string &label, const std::string &name, const std::string &arguments) {
  return ".pushsection .note.stapsdt,\"o?\",@note," + label + "\n.balign 4\n.4byte 992f-991f,994f-993f,3\n" +
         "991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte " + label + "\n.8byte _.stapsdt.base\n.8byte 0\n" +
         ".asciz \"transect\"\n.asciz \"" + name + "\"\n.asciz \"" + arguments + "\"\n994: .balign 4\n.popsection\n";
}

const char *kindName(SiteKind kind) {
  switch (kind) {
  case SiteKind::Begin:
    return "begin";
  case SiteKind::End:
    return "end";
  case SiteKind::Restore:
    return "restore";
  }
  return "";
}

/// One of the four points of mode `shared`; every object that is linked in has them, one copy is kept.
std::string sharedPoint(const std::string &name) {
  const std::string symbol = "transect_shared_" + name, label = ".Ltransect_shared_point_" + name;
  return ".pushsection .text.transect_shared,\"axG\",@progbits,transect_shared,comdat\n.weak " + symbol + "\n.hidden " +
         symbol + "\n.type " + symbol + ",@function\n.p2align 4\n" + symbol + ":\n.cfi_startproc\n" + label + ":\n" +
         kNop5 + "ret\n.cfi_endproc\n.size " + symbol + ",.-" + symbol + "\n" +
         probeNote(label, name, "4@%edi 8@%rsi") + ".popsection\n";
}

}  // namespace

SiteWriter::SiteWriter(Module &module, const RegionSet &regions, std::vector<Constant *> records, SiteMode mode)
    : module(module), regions(regions), records(std::move(records)), names(regions.regions.size(), nullptr),
      mode(mode) {}

void SiteWriter::writeSharedParts() {
  module.appendModuleInlineAsm(".ifndef _.stapsdt.base\n"
                               ".pushsection .stapsdt.base,\"aGR\",@progbits,.stapsdt.base,comdat\n"
                               ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n"
                               ".size _.stapsdt.base,1\n.popsection\n.endif");
  if (mode != SiteMode::Shared)
    return;
  for (const char *name : {"init", "begin", "end", "finalize"})
    module.appendModuleInlineAsm(sharedPoint(name));
  writeSharedEnds();
}

void SiteWriter::call(IRBuilder<> &builder, const std::string &text, const std::string &constraints,
                      ArrayRef<Value *> operands) {
  LLVMContext &context = module.getContext();
  SmallVector<Type *, 2> types;
  for (Value *operand : operands)
    types.push_back(operand->getType());
  FunctionType *type = FunctionType::get(Type::getVoidTy(context), types, false);
  CallInst *site = builder.CreateCall(type, InlineAsm::get(type, text, constraints, /*hasSideEffects=*/true), operands);
  // Memory that no one else sees: a site keeps its place among calls and other sites and is never removed alone, but
  // loads and stores of the program may pass it.
  site->addFnAttr(Attribute::getWithMemoryEffects(context, MemoryEffects::inaccessibleMemOnly()));
  for (Attribute::AttrKind kind : {Attribute::NoMerge, Attribute::NoUnwind, Attribute::WillReturn, Attribute::NoSync,
                                   Attribute::NoFree, Attribute::NoCallback, Attribute::MustProgress})
    if (Attribute::canUseAsFnAttr(kind))
      site->addFnAttr(kind);
}

/// `init` at the start and `finalize` at the end of the object, with the number of regions and the first source's name.
void SiteWriter::writeSharedEnds() {
  LLVMContext &context = module.getContext();
  for (const char *name : {"init", "finalize"}) {
    auto *type = FunctionType::get(Type::getVoidTy(context), false);
    auto *function =
        Function::Create(type, GlobalValue::InternalLinkage, std::string("transect_shared_at_") + name, module);
    function->addFnAttr(Attribute::NoUnwind);
    IRBuilder<> builder(BasicBlock::Create(context, "", function));
    Constant *unit = builder.CreateGlobalString(module.getSourceFileName(), "transect_unit_name");
    call(builder, std::string("movl $0,%edi\nleaq ${1:c}(%rip),%rsi\ncall transect_shared_") + name,
         "i,i,~{edi},~{rsi},~{dirflag},~{fpsr},~{flags}", {builder.getInt32(regions.regions.size()), unit});
    builder.CreateRetVoid();
    if (StringRef(name) == "init")
      appendToGlobalCtors(module, function, 65535);
    else
      appendToGlobalDtors(module, function, 65535);
  }
}

std::string SiteWriter::text(const Site &site) const {
  const std::string label = ".Ltransect_site${:uid}", kind = kindName(site.kind);
  const bool shared = mode == SiteMode::Shared && site.kind != SiteKind::Restore;
  std::string text;
  if (shared)
    text += "movl $1,%edi\nleaq ${2:c}(%rip),%rsi\n";
  text += label + ":\n";
  if (shared)
    text += "call transect_shared_" + kind + "\n";
  else if (mode == SiteMode::Trace)
    text += "call transect_region_" + kind + "@PLT\n";
  else
    text += kNop5;
  text += std::string(".pushsection ") + kSitesSection + ",\"ao?\",@progbits," + label + "\n.long " + label + "-.\n";
  text += site.region < 0 ? ".long 0\n" : ".long ${0:c}-.\n";
  text +=
      ".byte " + std::to_string(unsigned(site.kind)) + ",0\n.short " + std::to_string(site.depth) + "\n.popsection\n";
  if (!shared) {
    std::string name = kind;
    if (site.region >= 0 && site.kind != SiteKind::Restore)
      name += "_" + std::to_string(regions.regions[site.region].number);
    text += probeNote(label, name, "");
  }
  return text;
}

Constant *SiteWriter::sharedName(int region) {
  if (!names[region]) {
    Constant *text = ConstantDataArray::getString(module.getContext(), featureNames(regions, regions.regions[region].features));
    auto *global =
        new GlobalVariable(module, text->getType(), true, GlobalValue::PrivateLinkage, text, "transect_name");
    global->setUnnamedAddr(GlobalValue::UnnamedAddr::Global);
    names[region] = global;
  }
  return names[region];
}

void SiteWriter::write(Instruction *where, const Site &site) {
  IRBuilder<> builder(where);
  builder.SetCurrentDebugLocation(where->getDebugLoc());
  // Without a record the operand is a zero that the text doesn't use.
  SmallVector<Value *, 3> operands{site.region < 0 ? ConstantPointerNull::get(builder.getPtrTy())
                                                   : records[site.region]};
  std::string constraints = "i";
  if (mode == SiteMode::Shared && site.kind != SiteKind::Restore) {
    operands.push_back(builder.getInt32(regions.regions[site.region].number));
    operands.push_back(sharedName(site.region));
    constraints += ",i,i,~{edi},~{rsi}";
  }
  call(builder, text(site), constraints + ",~{dirflag},~{fpsr},~{flags}", operands);
}

}  // namespace transect
