// The commands, each from its options to an exit code. Results go to stdout, the rest to stderr.
#pragma once

#include <span>

#include "options.hpp"

namespace mla_bench {

int run_command(const RunOptions& options, std::span<const char* const> argv);
int compare_command(const CompareOptions& options);
int export_command(const ExportOptions& options);
int gate_command(const GateOptions& options, std::span<const char* const> argv);
int selftest_command(const SelftestOptions& options);
int list_command(const ListOptions& options);

}  // namespace mla_bench
