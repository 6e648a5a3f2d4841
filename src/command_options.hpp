// The options of each command: its grammar, for --help and for reading, and what was read. A new
// command is two functions here and a line in options.cpp.
#pragma once

#include "option_grammar.hpp"
#include "options.hpp"

namespace mla_bench {

// options_run.cpp
Grammar run_grammar();
RunOptions run_options(const Parsed& parsed);
Grammar list_grammar();
ListOptions list_options(const Parsed& parsed);

// options_compare.cpp
Grammar compare_grammar();
CompareOptions compare_options(const Parsed& parsed);
Grammar export_grammar();
ExportOptions export_options(const Parsed& parsed);

// options_gate.cpp
Grammar gate_grammar();
GateOptions gate_options(const Parsed& parsed);
Grammar selftest_grammar();
SelftestOptions selftest_options(const Parsed& parsed);

}  // namespace mla_bench
