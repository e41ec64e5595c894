#include "core/isa.h"

#include <algorithm>
#include <atomic>
#include <optional>

#include "core/error.h"

namespace poseidon {

namespace {

bool processor_has(Isa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case Isa::kNative: return true;
    case Isa::kX86V2: return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
    case Isa::kX86V3:
      return processor_has(Isa::kX86V2) && __builtin_cpu_supports("avx2") &&
             __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
             __builtin_cpu_supports("bmi2");
    case Isa::kX86V4:
      return processor_has(Isa::kX86V3) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  }
#endif
  return isa == Isa::kNative;
}

std::optional<Isa> best_isa() {
  std::optional<Isa> best;
  for (const Isa each : built_isas())
    if (processor_has(each)) best = each;
  return best;
}

std::string names(const std::vector<Isa>& isas) {
  std::string out;
  for (const Isa each : isas) out += (out.empty() ? "" : ", ") + std::string(name_of(each));
  return out;
}

/// Empty until the first call of isa() or choose_isa().
std::atomic<std::optional<Isa>>& chosen() {
  static std::atomic<std::optional<Isa>> isa;
  return isa;
}

}  // namespace

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::kX86V2: return "x86-64-v2";
    case Isa::kX86V3: return "x86-64-v3";
    case Isa::kX86V4: return "x86-64-v4";
    default: return "native";
  }
}

const std::vector<Isa>& built_isas() {
  static const std::vector<Isa> kBuilt{POSEIDON_ISAS};  // from third_party/instruction_sets.cmake
  return kBuilt;
}

Isa isa() {
  if (const std::optional<Isa> isa = chosen()) return *isa;
  const std::optional<Isa> best = best_isa();
  if (!best)
    throw RunError(text("this processor lacks the instruction set ", name_of(built_isas()[0]),
                        ", which this build requires"));
  chosen() = best;
  return *best;
}

void choose_isa(std::string_view name) {
  const std::vector<Isa>& built = built_isas();
  const auto found = std::ranges::find(built, name, name_of);
  if (found == built.end())
    throw ConfigError(text("instruction set: expected one that this build contains (", names(built),
                           "), got \"", name, "\""));
  if (!processor_has(*found))
    throw ConfigError(
        text("instruction set: this processor lacks ", name, "; its best is ", name_of(isa())));
  chosen() = *found;
}

bool isa_is_best() { return isa() == best_isa(); }

bool has_fused_multiply_add() {
#ifdef __FMA__
  return true;  // a native build for a processor that has the instruction
#else
  return isa() == Isa::kX86V3 || isa() == Isa::kX86V4;
#endif
}

bool has_wide_carryless() {
#if defined(__x86_64__)
  static const bool kHas = __builtin_cpu_supports("avx512f") &&
                           __builtin_cpu_supports("avx512bw") &&
                           __builtin_cpu_supports("vpclmulqdq");
  return kHas && (isa() == Isa::kX86V4 || isa() == Isa::kNative);
#else
  return false;
#endif
}

}  // namespace poseidon
