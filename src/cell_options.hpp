// The options that say what is measured, as run, gate and selftest take them: variants, devices,
// problems and inputs.
#pragma once

#include <string>
#include <vector>

#include "option_grammar.hpp"
#include "options.hpp"

namespace mla_bench {

std::vector<OptionRow> cell_rows();
std::vector<OptionRow> problem_rows();
std::vector<OptionRow> input_rows();
inline constexpr const char* kProblemTitle =
    "Problem (default: the headline 4x96x256, rank 48, 4 heads of 32)";

// Of --device; empty where none is named.
std::vector<DeviceRequest> devices_of(const Parsed& parsed);

void read_cells(const Parsed& parsed, RunOptions& options);

// What was given of them, as words for another run.
std::vector<std::string> cell_words(const Parsed& parsed);

}  // namespace mla_bench
