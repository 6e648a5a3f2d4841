// run and list.
#include <algorithm>

#include "cell_options.hpp"
#include "command_options.hpp"

namespace mla_bench {
namespace {

// "0=nothing,1=work:0.05"
std::vector<Copy> copies_of(const Parsed& parsed) {
  constexpr std::int64_t kMost = 1000;
  std::vector<Copy> copies;
  for (const std::string& item : list_of(parsed, "plant")) {
    const std::size_t equals = item.find('=');
    const std::optional<std::int64_t> number = parse_integer(item.substr(0, equals));
    const std::optional<Planted> planted =
        equals == std::string::npos ? std::nullopt : planted_from(item.substr(equals + 1));
    if (!number || *number < 0 || *number > kMost || !planted) {
      throw UsageError("--plant takes NUMBER=WHAT, such as 0=nothing or 1=work:0.05, not '" +
                       printable(item) + "'");
    }
    copies.push_back({.number = static_cast<int>(*number), .planted = *planted});
  }
  return copies;
}

}  // namespace

Grammar run_grammar() {
  return {
      "mla-bench [run]",
      "Checks and times variants of the MLA key/value up-projection:\n"
      "  latent = hidden @ w_down;  k, v = latent @ w_up_k, w_up_v;  kv = stack(k, v)\n"
      "Lists (a,b,c) multiply: every combination is one cell of the run.\n",
      {
          {"What to run", cell_rows()},
          {kProblemTitle, problem_rows()},
          {"Inputs",
           with(input_rows(), {"save", "FILE", "write inputs and kv of the one cell as safetensors",
                               FileUse::kWritten})},
          {"Measuring",
           {
               {"time-budget", "SECONDS", "for the whole run (default: 60)"},
               {"precision-target", "FRACTION",
                "stop a cell when its 95 % interval is this narrow (default: 0.005)"},
               {"rounds", "N", "exactly this many rounds of each cell"},
               {"samples", "N", "of a round, fewer where a launch is long (default: 31)"},
               {"times-only", nullptr,
                "leave out what stands beside a time: floors, host latency, cold proof, second "
                "witness"},
               {"warmup", "SECONDS", "longest warm-up of each cell (default: 0.5)"},
               {"timeout", "SECONDS",
                "give up a cell that does not answer for so long (default: 120)"},
               {"force", nullptr, "also run cells that are predicted to take too long"},
               {"recalibrate", nullptr, "measure the GPU's ceilings even if today's are known"},
               {"profile", nullptr,
                "launch each cell once in an NVTX range for an outside profiler, time nothing"},
           }},
          {"Output",
           {
               {"json", "FILE", "the document's file, - for stdout (default: results/local/)",
                FileUse::kWritten},
               {"reference", "VARIANT", "tell speed against this variant (default: the slowest)"},
               {"strict", nullptr, "end with 4 where a time cannot be trusted"},
               {"quiet", nullptr, "no table and no progress"},
               {"dry-run", nullptr, "print the plan and end"},
               kHelp,
               {"version", nullptr, "version, commit and compilers"},
           }},
          // For mla-bench selftest, which alone reads such a document.
          {kHidden,
           {
               {"plant", "LIST", "copies of each cell, as NUMBER=WHAT"},
               {"measure-plants", nullptr, "by how much planted work slows launches down"},
           }},
      }};
}

RunOptions run_options(const Parsed& parsed) {
  RunOptions options;
  read_cells(parsed, options);
  options.save = text_of(parsed, "save");
  options.json = text_of(parsed, "json");
  options.reference = text_of(parsed, "reference");
  options.measuring.rounds = count_of(parsed, "rounds", 1, 1000);
  options.measuring.samples =
      count_of(parsed, "samples", 1, 1000).value_or(options.measuring.samples);
  options.measuring.times_only = parsed.flags.contains("times-only");
  options.measuring.measure_plants = parsed.flags.contains("measure-plants");
  options.copies = copies_of(parsed);
  options.measuring.time_budget_s =
      seconds_of(parsed, "time-budget", options.measuring.time_budget_s, 0.1);
  options.measuring.warmup_s = seconds_of(parsed, "warmup", options.measuring.warmup_s, 0);
  options.measuring.timeout_s = seconds_of(parsed, "timeout", options.measuring.timeout_s, 1);
  if (const std::optional<std::string> target = text_of(parsed, "precision-target")) {
    const std::optional<double> fraction = parse_real(*target);
    if (!fraction || *fraction <= 0 || *fraction >= 1) {
      throw UsageError(
          "--precision-target takes a fraction between 0 and 1 (0.005 is 0.5 %), not '" +
          printable(*target) + "'");
    }
    options.measuring.precision_target = *fraction;
  }
  options.force = parsed.flags.contains("force");
  options.strict = parsed.flags.contains("strict");
  options.quiet = parsed.flags.contains("quiet");
  options.dry_run = parsed.flags.contains("dry-run");
  options.recalibrate = parsed.flags.contains("recalibrate");
  options.profile = parsed.flags.contains("profile");
  for (const std::string file : {"json", "save"}) {
    if (options.profile && parsed.has(file)) {
      throw UsageError("--profile times and writes nothing: leave out --" + file);
    }
  }
  return options;
}

Grammar list_grammar() {
  return {"mla-bench list",
          "Lists devices and variants, and why a variant cannot run here.\n",
          {{"Options",
            {{"device", "LIST", "devices whose variants are listed, as of run (default: all)"},
             kHelp}}}};
}

ListOptions list_options(const Parsed& parsed) {
  return {.devices = devices_of(parsed)};
}

}  // namespace mla_bench
