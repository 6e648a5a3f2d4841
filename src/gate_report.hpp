// Verdicts as text: for terminals, job summaries, CI servers and programs.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "gate.hpp"

namespace mla_bench {

enum class GateFormat { kText, kMarkdown, kJunit, kJson };

inline constexpr std::array kGateFormats{GateFormat::kText, GateFormat::kMarkdown,
                                         GateFormat::kJunit, GateFormat::kJson};

std::string_view name_of(GateFormat format);

// What a report tells beside the verdicts.
struct GateHeading {
  std::string baseline;  // "base.json", "old/mla-bench (4.2 s)"
  std::string candidate;
  bool strict = false;
};

// Every format holds every cell with its verdict, reason, interval and smallest change that would
// have been found.
std::string render(const GateResult& result, const GateHeading& heading, GateFormat format);

}  // namespace mla_bench
