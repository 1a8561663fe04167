// The solver: targets are carried along the edges until nothing changes.
#include "points_to_nodes.h"

#include "type_layout.h"

#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"

#include <algorithm>
#include <ctime>

using namespace llvm;
using namespace transect;

namespace {
/// Of this thread's own CPU time, so that other load changes no result.
constexpr double kMostSeconds = 10;

double cpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}
}  // namespace

/// Whether what a step takes memory for may be there.
bool PointsTo::mayHold(const Object &object, uint64_t offset, const Step &step) const {
  if (!step.seen)
    return true;
  if (object.type)
    return mayBeSeenAs(object.type, offset, step.seen, step.inside, layout);
  return !object.element || offset >= layout.getTypeAllocSize(object.element) ||
         mayBeSeenAs(object.element, offset, step.seen, step.inside, layout);
}

void PointsTo::process(unsigned number) {
  Set fresh = nodes[number]->targets;
  fresh.intersectWithComplement(nodes[number]->done);
  nodes[number]->done = nodes[number]->targets;
  if (fresh.empty())
    return;
  Set memory = fresh;
  memory.intersectWithComplement(code);
  // Lists may grow while they are worked on (new constants' nodes); those get their own turn.
  for (size_t i = 0; i < nodes[number]->loads.size(); ++i)
    for (unsigned location : memory)
      addCopy(contents[location], nodes[number]->loads[i]);
  for (size_t i = 0; i < nodes[number]->stores.size(); ++i)
    for (unsigned location : memory)
      if (!objects[locations[location].object].isReadOnly)
        addCopy(nodes[number]->stores[i], contents[location]);
  for (size_t i = 0; i < nodes[number]->addresses.size(); ++i) {
    auto [into, step] = nodes[number]->addresses[i];
    for (unsigned location : memory) {
      auto [object, offset] = locations[location];
      int64_t by = step.isExact && objects[object].type ? step.exact : step.field;
      if (objects[object].isTable) {
        if (!step.isOnlyRead)
          continue;
        by = step.all;
      }
      int64_t place = static_cast<int64_t>(offset) + by;
      // Nothing is behind an object's end: it is another type's field that is addressed there, in other memory.
      const int64_t size = objects[object].size;
      const bool isOne = isa_and_nonnull<StructType>(objects[object].type);
      if (size != 0 && !objects[object].whole && (place > size || (place == size && isOne)))
        continue;
      if (!mayHold(objects[object], offset, step))
        continue;
      addTarget(into, locationAt(object, place));
    }
  }
  dispatch(number, memory);
  for (size_t i = 0; i < nodes[number]->transfersFrom.size(); ++i) {
    unsigned transfer = nodes[number]->transfersFrom[i];
    for (unsigned location : memory) {
      unsigned object = locations[location].object;
      if (!hasBytes(location, transfers[transfer].length) || !transfers[transfer].from.insert(location).second)
        continue;
      transfersFrom[object].push_back({transfer, location});
      std::vector<std::pair<uint64_t, unsigned>> places(objects[object].locations.begin(),
                                                        objects[object].locations.end());
      for (auto [place, other] : places)
        transferFrom(transfer, location, place, other);
    }
  }
  for (size_t i = 0; i < nodes[number]->transfersTo.size(); ++i) {
    unsigned transfer = nodes[number]->transfersTo[i];
    for (unsigned location : memory) {
      if (objects[locations[location].object].isReadOnly || !hasBytes(location, transfers[transfer].length) ||
          !transfers[transfer].known.insert(location).second)
        continue;
      transfers[transfer].to.push_back(location);
      std::vector<std::pair<uint64_t, unsigned>> between(transfers[transfer].between.begin(),
                                                         transfers[transfer].between.end());
      for (auto [distance, node] : between)
        addCopy(node, contents[locationAt(locations[location].object, locations[location].offset + distance)]);
    }
  }
  for (size_t i = 0; i < nodes[number]->calls.size(); ++i) {
    const CallBase *call = nodes[number]->calls[i];
    for (unsigned location : fresh) {
      Function *entered = functionAt(location);
      if (!entered)
        continue;
      auto *direct = dyn_cast<Function>(call->getCalledOperand()->stripPointerCastsAndAliases());
      if (!direct) {
        enter(call, entered);
        continue;
      }
      if (entered->isDeclaration())
        continue;
      CallTarget target{entered, {}, false};
      for (const Callback &callback : callbacksOf(*direct)) {
        if (callback.argument == kCallResult && static_cast<unsigned>(callback.parameter) < entered->arg_size())
          target.arguments.push_back({call, entered->getArg(callback.parameter)});
        for (unsigned k = 0; callback.argument >= 0; ++k) {
          unsigned argument = callback.argument + k, parameter = callback.parameter + k;
          if (argument >= call->arg_size() || parameter >= entered->arg_size())
            break;
          target.arguments.push_back({call->getArgOperand(argument), entered->getArg(parameter)});
          if (!callback.rest)
            break;
        }
      }
      if (none_of(callTargets[call], [&](const CallTarget &known) { return known.function == entered; }))
        bind(call, std::move(target));
    }
  }
  std::vector<unsigned> edges;
  for (unsigned to : nodes[number]->edges)
    edges.push_back(to);
  for (unsigned to : edges) {
    to = find(to);
    if (to != number && (nodes[to]->targets |= fresh) && !nodes[to]->queued) {
      nodes[to]->queued = true;
      work.push_back(to);
    }
  }
}

/// Nodes that copy to each other in a circle become one.
void PointsTo::collapseCycles() {
  const unsigned count = nodes.size();
  std::vector<unsigned> index(count, 0), low(count, 0), component;
  std::vector<bool> open(count);
  unsigned next = 0;
  struct Frame {
    unsigned node;
    std::vector<unsigned> edges;
    size_t place;
  };
  auto edgesOf = [&](unsigned node) {
    std::vector<unsigned> result;
    for (unsigned to : nodes[node]->edges)
      if (find(to) != node)
        result.push_back(find(to));
    return result;
  };
  for (unsigned root = 0; root < count; ++root) {
    if (find(root) != root || index[root] || nodes[root]->edges.empty())
      continue;
    std::vector<Frame> stack;
    index[root] = low[root] = ++next;
    open[root] = true;
    component.push_back(root);
    stack.push_back({root, edgesOf(root), 0});
    while (!stack.empty()) {
      Frame &frame = stack.back();
      if (frame.place < frame.edges.size()) {
        unsigned to = find(frame.edges[frame.place++]);
        if (!index[to]) {
          index[to] = low[to] = ++next;
          open[to] = true;
          component.push_back(to);
          stack.push_back({to, edgesOf(to), 0});
        } else if (open[to]) {
          low[frame.node] = std::min(low[frame.node], index[to]);
        }
        continue;
      }
      unsigned node = frame.node, reached = low[node];
      stack.pop_back();
      if (!stack.empty())
        low[stack.back().node] = std::min(low[stack.back().node], reached);
      if (reached != index[node])
        continue;
      std::vector<unsigned> members;
      while (true) {
        unsigned member = component.back();
        component.pop_back();
        open[member] = false;
        members.push_back(member);
        if (member == node)
          break;
      }
      for (unsigned member : members) {
        if (member == node)
          continue;
        Node &into = *nodes[node], &gone = *nodes[member];
        representative[member] = node;
        into.targets |= gone.targets;
        into.edges |= gone.edges;
        into.loads.insert(into.loads.end(), gone.loads.begin(), gone.loads.end());
        into.stores.insert(into.stores.end(), gone.stores.begin(), gone.stores.end());
        into.addresses.insert(into.addresses.end(), gone.addresses.begin(), gone.addresses.end());
        into.calls.insert(into.calls.end(), gone.calls.begin(), gone.calls.end());
        into.receivers.insert(into.receivers.end(), gone.receivers.begin(), gone.receivers.end());
        into.tables.insert(into.tables.end(), gone.tables.begin(), gone.tables.end());
        into.transfersTo.insert(into.transfersTo.end(), gone.transfersTo.begin(), gone.transfersTo.end());
        into.transfersFrom.insert(into.transfersFrom.end(), gone.transfersFrom.begin(), gone.transfersFrom.end());
        gone = Node{};
      }
      if (members.size() > 1)
        wake(node);
    }
  }
}

void PointsTo::solve(double end) {
  uint64_t turns = 0, nextCollapse = nodes.size() + 1000;
  std::vector<unsigned> round;
  while (!work.empty()) {
    round.clear();
    round.swap(work);
    for (unsigned number : round) {
      number = find(number);
      nodes[number]->queued = false;
      process(number);
      if ((++turns & 255) == 0 && cpuSeconds() > end) {
        isComplete = false;
        return;
      }
    }
    if (turns > nextCollapse) {
      collapseCycles();
      nextCollapse = turns + nodes.size() + 1000;
    }
  }
}

PointsTo::PointsTo(Module &module, const DenseSet<const Value *> &readOnly)
    : module(module), readOnly(readOnly), layout(module.getDataLayout()) {
  const double end = cpuSeconds() + kMostSeconds;
  build();
  solve(end);
  // Pointers to functions that come from outside may be any whose type fits.
  for (Function &function : module)
    for (Instruction &instruction : instructions(function)) {
      auto *call = dyn_cast<CallBase>(&instruction);
      if (!call || !call->isIndirectCall() || !calls(call).empty() || !externals(call).empty())
        continue;
      std::vector<Function *> fitting;
      for (Function &other : module)
        if (!other.isDeclaration() && other.getFunctionType() == call->getFunctionType() && other.hasAddressTaken())
          fitting.push_back(&other);
      virtualCalls.erase(call);
      if (fitting.size() <= 8)
        for (Function *other : fitting)
          enter(call, other);
    }
  solve(end);
}
