// compare and export.
#include <algorithm>

#include "command_options.hpp"

namespace mla_bench {

Grammar compare_grammar() {
  return {
      "mla-bench compare FILE...",
      "Shows the cells of documents side by side, each with its median, 95 % interval and speed\n"
      "against a reference. Only cells of the same problem, precision, cache state and inputs are\n"
      "compared; what is wrong, untrusted or not comparable is said.\n",
      {
          {"What to compare",
           {
               {"reference", "NAME",
                "variant, device (name, UUID, or as the table has it: 'AMD EPYC, 2 threads') or "
                "FILE that speed is told against (default: the first FILE if another has its "
                "cells, else the first variant, else the first device)"},
           }},
          {"Output",
           {
               {"rows", "LIST",
                "of " + join(names_of<Axis>(kAxes), ", ") + " (default: " +
                    join(names_of<Axis>(kWorkAxes), ", ") + "; or what --columns leaves)"},
               {"columns", "LIST",
                "of the same (default: what --rows leaves); an axis in neither list makes a table "
                "for each of its values"},
               {"format", "NAME", "text, md, csv or json (default: text)"},
               kHelp,
           }},
      }};
}

CompareOptions compare_options(const Parsed& parsed) {
  CompareOptions options{.files = files_of(parsed, "compare"),
                         .reference = text_of(parsed, "reference"),
                         .layout = {.rows = values_of<Axis>(parsed, "rows", kAxes),
                                    .columns = values_of<Axis>(parsed, "columns", kAxes)}};
  std::vector<Axis> axes = options.layout.rows;
  axes.insert(axes.end(), options.layout.columns.begin(), options.layout.columns.end());
  for (auto axis = axes.begin(); axis != axes.end(); ++axis) {
    if (std::find(axes.begin(), axis, *axis) != axis) {
      throw UsageError("--rows and --columns: " + std::string(name_of(*axis)) +
                       " stands there twice");
    }
  }
  options.format =
      value_of<CompareFormat>(parsed, "format", kCompareFormats).value_or(CompareFormat::kText);
  if (options.format == CompareFormat::kCsv || options.format == CompareFormat::kJson) {
    for (const std::string layout : {"rows", "columns"}) {
      if (parsed.has(layout)) {
        throw UsageError("--" + layout + " is for --format text and md: " +
                         std::string(name_of(options.format)) + " has every cell and no layout");
      }
    }
  }
  return options;
}

Grammar export_grammar() {
  return {
      "mla-bench export FILE...",
      "Writes the cells of documents in the form that another tool reads:\n" + export_summaries(),
      {
          {"Output",
           {
               {"to", "FORMAT", "one of the above"},
               {"output", "FILE", "- for stdout (default: -)", FileUse::kWritten},
               {"no-aggregates", nullptr, "gbench: rounds only, no mean, median, stddev and cv"},
               kHelp,
           }},
      }};
}

ExportOptions export_options(const Parsed& parsed) {
  const std::optional<ExportFormat> format = value_of<ExportFormat>(parsed, "to", kExportFormats);
  if (!format) {
    throw UsageError("export needs --to FORMAT; --help lists them");
  }
  const bool no_aggregates = parsed.flags.contains("no-aggregates");
  if (no_aggregates && *format != ExportFormat::kGbench) {
    throw UsageError("--no-aggregates is for --to gbench: " + std::string(name_of(*format)) +
                     " has no aggregates");
  }
  return {.files = files_of(parsed, "export"),
          .format = *format,
          .output = text_of(parsed, "output").value_or("-"),
          .aggregates = !no_aggregates};
}

}  // namespace mla_bench
