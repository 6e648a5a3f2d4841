#include "compare_report.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <type_traits>

#include "cell_columns.hpp"
#include "json.hpp"
#include "text.hpp"
#include "text_table.hpp"

namespace mla_bench {
namespace {

constexpr std::string_view kSchema = "mla-bench-compare/1";

// A terminal table is broken into several beyond so many characters.
constexpr std::size_t kWidest = 110;

constexpr std::string_view kRunShift =
    "Intervals between runs hold the spread of rounds, not the shift from run to run.";

std::string value_of(const DocumentComparison& comparison, const ComparedCell& cell, Axis axis) {
  const Work& work = cell.key.work;
  switch (axis) {
    case Axis::kProblem:
      return shape_words(work.problem);
    case Axis::kPrecision:
      return std::string(name_of(work.precision));
    case Axis::kL2:
      return std::string(name_of(work.l2)) + " cache";
    case Axis::kInputs:
      return input_words(work.inputs);
    case Axis::kConcurrent:
      return concurrent_words(work.gpus_at_once);
    case Axis::kVariant:
      return cell.key.variant;
    case Axis::kDevice:
      return comparison.devices[cell.device].label;
    case Axis::kRun:
      return comparison.runs[cell.run].label;
  }
  return "?";
}

std::string values_of(const DocumentComparison& comparison, const ComparedCell& cell,
                      const std::vector<Axis>& axes) {
  std::vector<std::string> values;
  for (const Axis axis : axes) {
    values.push_back(value_of(comparison, cell, axis));
  }
  return join(values, ", ");
}

bool contains(const std::vector<Axis>& axes, Axis axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

// Axes as a table uses them.
struct Arrangement {
  std::vector<Axis> constant;  // all cells agree
  std::vector<Axis> tables;
  std::vector<Axis> rows;
  std::vector<Axis> columns;
};

bool varies(const DocumentComparison& comparison, Axis axis) {
  if (axis == Axis::kRun) {
    return comparison.tells_runs_apart;
  }
  const std::vector<ComparedCell>& cells = comparison.cells;
  const std::string first = value_of(comparison, cells.front(), axis);
  return std::any_of(cells.begin(), cells.end(), [&](const ComparedCell& cell) {
    return value_of(comparison, cell, axis) != first;
  });
}

Arrangement arrange(const DocumentComparison& comparison, const Layout& layout) {
  const std::vector<Axis> work(kWorkAxes.begin(), kWorkAxes.end());
  const bool is_alone = comparison.cells.front().key.work.gpus_at_once == 1;
  Arrangement arrangement;
  for (const Axis axis : kAxes) {
    const bool is_row = contains(layout.rows, axis);
    const bool is_column = contains(layout.columns, axis);
    if (!varies(comparison, axis)) {
      // That a device was measured alone goes without saying.
      if (axis != Axis::kRun && !(axis == Axis::kConcurrent && is_alone)) {
        arrangement.constant.push_back(axis);
      }
    } else if (is_row || is_column) {
      continue;  // in the user's order, below
    } else if (layout.rows.empty() && layout.columns.empty()) {
      (contains(work, axis) ? arrangement.rows : arrangement.columns).push_back(axis);
    } else if (layout.rows.empty()) {
      arrangement.rows.push_back(axis);
    } else if (layout.columns.empty() || axis == Axis::kRun) {
      arrangement.columns.push_back(axis);
    } else {
      arrangement.tables.push_back(axis);
    }
  }
  for (const Axis axis : layout.rows) {
    if (varies(comparison, axis)) {
      arrangement.rows.push_back(axis);
    }
  }
  std::vector<Axis> columns;
  for (const Axis axis : layout.columns) {
    if (varies(comparison, axis)) {
      columns.push_back(axis);
    }
  }
  arrangement.columns.insert(arrangement.columns.begin(), columns.begin(), columns.end());
  return arrangement;
}

// So many decimals that an interval of this half width shows, two at least.
std::string factor(double value, double half_width) {
  constexpr int kFewest = 2;
  constexpr int kMost = 4;
  const int decimals =
      half_width > 0 ? static_cast<int>(std::ceil(-std::log10(half_width))) : kMost;
  return fixed(value, std::clamp(decimals, kFewest, kMost));
}

std::string ratio_words(const Ratio& ratio) {
  if (!ratio.ci95) {
    return factor(ratio.estimate, 1) + "x";
  }
  const double half = (ratio.ci95->high - ratio.ci95->low) / 2;
  return factor(ratio.estimate, half) + "x [" + factor(ratio.ci95->low, half) + ", " +
         factor(ratio.ci95->high, half) + "]";
}

// "5.08 us +-0.27 % 88.90x"
std::string entry_of(const ComparedCell& cell) {
  if (!cell.summary) {
    return std::string(name_of(cell.status));
  }
  const Summary& summary = *cell.summary;
  const double half = (summary.ci95_high_ns - summary.ci95_low_ns) / 2;
  return human_time(summary.median_ns) + " " +
         (std::isfinite(half) ? "+-" + fixed(100 * half / summary.median_ns, 2) + " %"
                              : "(1 round)") +
         " " + (cell.speed ? fixed(cell.speed->estimate, 2) + "x" : "-");
}

struct Grid {
  std::string title;  // of its table axes
  TextTable table;
  std::size_t labels = 0;  // columns that name a row
};

// The tables of a layout; rows and columns in the order in which the cells come.
std::vector<Grid> grids_of(const DocumentComparison& comparison, const Arrangement& arrangement) {
  std::vector<Grid> grids;
  std::map<std::string, std::size_t> tables;
  std::vector<std::map<std::string, std::size_t>> rows;
  std::vector<std::map<std::string, std::size_t>> columns;
  for (const ComparedCell& cell : comparison.cells) {
    const std::string title = values_of(comparison, cell, arrangement.tables);
    const auto [table, is_new_table] = tables.emplace(title, grids.size());
    const std::size_t index = table->second;
    if (is_new_table) {
      grids.push_back({.title = title, .table = {}, .labels = arrangement.rows.size()});
      rows.emplace_back();
      columns.emplace_back();
      for (const Axis axis : arrangement.rows) {
        grids[index].table.columns.push_back({std::string(name_of(axis))});
      }
    }
    Grid& grid = grids[index];
    const std::string heading = values_of(comparison, cell, arrangement.columns);
    const auto [column, is_new_column] = columns[index].emplace(heading, grid.table.columns.size());
    if (is_new_column) {
      grid.table.columns.push_back({heading.empty() ? "time" : heading, false});
    }
    const auto [row, is_new_row] =
        rows[index].emplace(values_of(comparison, cell, arrangement.rows), grid.table.rows.size());
    if (is_new_row) {
      std::vector<std::string> labels;
      for (const Axis axis : arrangement.rows) {
        labels.push_back(value_of(comparison, cell, axis));
      }
      grid.table.rows.push_back(std::move(labels));
    }
    std::vector<std::string>& entries = grid.table.rows[row->second];
    entries.resize(std::max(entries.size(), column->second + 1));
    entries[column->second] = entry_of(cell);
  }
  for (Grid& grid : grids) {
    for (std::vector<std::string>& entries : grid.table.rows) {
      entries.resize(grid.table.columns.size());
    }
  }
  return grids;
}

// A grid as tables that fit a terminal, each with the labels of the rows.
std::string fitted(const Grid& grid) {
  const std::vector<TextTable::Column>& columns = grid.table.columns;
  const auto column_width = [&grid](std::size_t column) {
    std::size_t width = width_of(grid.table.columns[column].title);
    for (const std::vector<std::string>& row : grid.table.rows) {
      width = std::max(width, width_of(row[column]));
    }
    return width + 2;
  };
  std::size_t label_width = 0;
  for (std::size_t i = 0; i < grid.labels; ++i) {
    label_width += column_width(i);
  }
  std::string text;
  for (std::size_t next = grid.labels; next < columns.size();) {
    const std::size_t first = next;
    std::size_t width = label_width;
    while (next < columns.size() && (next == first || width + column_width(next) <= kWidest)) {
      width += column_width(next++);
    }
    // The labels, and the columns that fit.
    const auto part_of = [&](const auto& all) {
      auto part = std::remove_cvref_t<decltype(all)>(
          all.begin(), all.begin() + static_cast<std::ptrdiff_t>(grid.labels));
      part.insert(part.end(), all.begin() + static_cast<std::ptrdiff_t>(first),
                  all.begin() + static_cast<std::ptrdiff_t>(next));
      return part;
    };
    TextTable part{.columns = part_of(columns), .rows = {}};
    for (const std::vector<std::string>& row : grid.table.rows) {
      part.rows.push_back(part_of(row));
    }
    text += (text.empty() ? "" : "\n") + aligned(part);
  }
  return text;
}

std::string name_in(const DocumentComparison& comparison, const ComparedCell& cell) {
  return cell.key.variant +
         (comparison.devices.size() > 1 ? " on " + comparison.devices[cell.device].label : "") +
         (comparison.tells_runs_apart ? " (" + comparison.runs[cell.run].label + ")" : "");
}

std::string words_of(const SpeedReference& reference, const DocumentComparison& comparison) {
  switch (reference.kind) {
    case SpeedReference::Kind::kVariant:
      return reference.name;
    case SpeedReference::Kind::kDevice:
      for (const ComparedDevice& device : comparison.devices) {
        if (device.place == reference.place) {
          return device.label;
        }
      }
      return reference.name;
    case SpeedReference::Kind::kRun:
      return reference.name;
  }
  return "?";
}

// The axes of work on which cells differ: what a heading must tell.
std::vector<Axis> heading_axes(const DocumentComparison& comparison) {
  std::vector<Axis> axes;
  for (const Axis axis : kWorkAxes) {
    if (varies(comparison, axis)) {
      axes.push_back(axis);
    }
  }
  return axes;
}

// What is said below the tables: a title, and lines that may stand under headings.
struct Section {
  struct Group {
    std::string heading;
    std::vector<std::string> lines;
  };
  std::string title;
  std::vector<Group> groups;

  void add(const std::string& heading, const std::string& line) {
    if (groups.empty() || groups.back().heading != heading) {
      groups.push_back({.heading = heading, .lines = {}});
    }
    groups.back().lines.push_back(line);
  }
};

std::vector<Section> sections_of(const DocumentComparison& comparison) {
  Section findings{.title = "Findings, with 95 % intervals", .groups = {}};
  bool has_run_shift = false;
  const std::vector<Axis> axes = heading_axes(comparison);
  const auto heading_of = [&](std::size_t cell) {
    return values_of(comparison, comparison.cells[cell], axes);
  };
  for (const Finding& finding : comparison.findings) {
    findings.add(heading_of(finding.faster), words_of(finding, comparison));
    has_run_shift = has_run_shift || (finding.ratio.ci95 && !finding.ratio.paired);
  }
  if (has_run_shift) {
    findings.add("", std::string(kRunShift));
  }
  Section flips{.title = "Ranking flips between devices", .groups = {}};
  for (const RankingFlip& flip : comparison.flips) {
    flips.add(heading_of(flip.here.faster),
              words_of(flip.here, comparison) + ", but " + words_of(flip.there, comparison));
  }
  Section notes{.title = "Not compared", .groups = {}};
  for (const std::string& note : comparison.notes) {
    notes.add("", note);
  }
  std::vector<Section> sections;
  for (Section* section : {&flips, &findings, &notes}) {
    if (!section->groups.empty()) {
      sections.push_back(std::move(*section));
    }
  }
  return sections;
}

std::string head_of(const DocumentComparison& comparison, const Arrangement& arrangement) {
  return values_of(comparison, comparison.cells.front(), arrangement.constant);
}

std::string legend_of(const DocumentComparison& comparison) {
  return "median, 95 % interval, speed against " + words_of(comparison.reference, comparison);
}

std::string text_of(const DocumentComparison& comparison, const Layout& layout) {
  const Arrangement arrangement = arrange(comparison, layout);
  const std::string head = head_of(comparison, arrangement);
  std::string text =
      (head.empty() ? "" : printable(head) + "\n") + printable(legend_of(comparison)) + "\n";
  for (const Grid& grid : grids_of(comparison, arrangement)) {
    text += "\n" + (grid.title.empty() ? "" : printable(grid.title) + "\n") + fitted(grid);
  }
  for (const Section& section : sections_of(comparison)) {
    text += "\n" + section.title + "\n";
    for (const Section::Group& group : section.groups) {
      text += group.heading.empty() ? "" : "  " + printable(group.heading) + "\n";
      for (const std::string& line : group.lines) {
        text += (group.heading.empty() ? "  " : "    ") + printable(line) + "\n";
      }
    }
  }
  return text;
}

std::string markdown_of(const DocumentComparison& comparison, const Layout& layout) {
  const Arrangement arrangement = arrange(comparison, layout);
  const std::string head = head_of(comparison, arrangement);
  std::string text = (head.empty() ? "" : "**" + markdown_text(head) + "**\n\n") +
                     markdown_text(legend_of(comparison)) + "\n";
  for (const Grid& grid : grids_of(comparison, arrangement)) {
    text += "\n" + (grid.title.empty() ? "" : "**" + markdown_text(grid.title) + "**\n\n") +
            markdown(grid.table);
  }
  for (const Section& section : sections_of(comparison)) {
    text += "\n**" + markdown_text(section.title) + "**\n";
    for (const Section::Group& group : section.groups) {
      text += "\n" + (group.heading.empty() ? "" : markdown_text(group.heading) + "\n\n");
      for (const std::string& line : group.lines) {
        text += "- " + markdown_text(line) + "\n";
      }
    }
  }
  return text;
}

std::string csv_of(const DocumentComparison& comparison) {
  TextTable table{.columns = identity_columns(), .rows = {}};
  for (const TextTable::Column& column :
       {TextTable::Column{"status"}, TextTable::Column{"reason"},
        TextTable::Column{"rounds", false}, TextTable::Column{"samples", false},
        TextTable::Column{"median_ns", false}, TextTable::Column{"ci95_low_ns", false},
        TextTable::Column{"ci95_high_ns", false}, TextTable::Column{"reference_file"},
        TextTable::Column{"reference_id"}, TextTable::Column{"speed", false},
        TextTable::Column{"speed_ci95_low", false}, TextTable::Column{"speed_ci95_high", false}}) {
    table.columns.push_back(column);
  }
  for (const ComparedCell& cell : comparison.cells) {
    const ComparedRun& run = comparison.runs[cell.run];
    std::vector<std::string> row =
        identity_entries({.path = run.path,
                          .started_at = run.started_at,
                          .version = run.version,
                          .commit = run.commit,
                          .device_name = comparison.devices[cell.device].label},
                         cell.key);
    row.insert(row.end(), {std::string(name_of(cell.status)), cell.reason,
                           std::to_string(cell.round_medians_ns.size())});
    if (cell.summary) {
      row.insert(row.end(),
                 {std::to_string(cell.summary->samples), shortest(cell.summary->median_ns),
                  shortest(cell.summary->ci95_low_ns), shortest(cell.summary->ci95_high_ns)});
    } else {
      row.insert(row.end(), {"0", "", "", ""});
    }
    if (cell.reference && cell.speed) {
      const ComparedCell& reference = comparison.cells[*cell.reference];
      const std::optional<Interval>& ci95 = cell.speed->ci95;
      row.insert(row.end(),
                 {comparison.runs[reference.run].path, reference.id, shortest(cell.speed->estimate),
                  ci95 ? shortest(ci95->low) : "", ci95 ? shortest(ci95->high) : ""});
    }
    row.resize(table.columns.size());
    table.rows.push_back(std::move(row));
  }
  return csv(table);
}

Json to_json(const Ratio& ratio) {
  return {{"estimate", finite(ratio.estimate)},
          {"ci95_low", ratio.ci95 ? finite(ratio.ci95->low) : Json(nullptr)},
          {"ci95_high", ratio.ci95 ? finite(ratio.ci95->high) : Json(nullptr)},
          {"paired", ratio.paired}};
}

Json to_json(const Finding& finding) {
  return {{"faster", finding.faster},
          {"slower", finding.slower},
          {"decided", finding.ratio.is_decided()},
          {"ratio", to_json(finding.ratio)}};
}

// Cells, runs and devices are named by their place in their lists.
std::string json_of(const DocumentComparison& comparison) {
  static constexpr const char* kKinds[] = {"variant", "device", "file"};
  Json json{{"schema", kSchema},
            {"reference",
             {{"kind", kKinds[static_cast<std::size_t>(comparison.reference.kind)]},
              {"name", comparison.reference.name}}},
            {"comparable", comparison.is_comparable},
            {"runs", Json::array()},
            {"devices", Json::array()},
            {"cells", Json::array()},
            {"findings", Json::array()},
            {"ranking_flips", Json::array()},
            {"notes", comparison.notes}};
  if (comparison.reference.kind == SpeedReference::Kind::kDevice) {
    json["reference"]["threads"] = comparison.reference.place.threads;
  }
  for (const ComparedRun& run : comparison.runs) {
    json["runs"].push_back({{"file", run.path},
                            {"started_at", run.started_at},
                            {"version", run.version},
                            {"commit", run.commit},
                            {"dirty", run.dirty}});
  }
  for (const ComparedDevice& device : comparison.devices) {
    json["devices"].push_back({{"backend", name_of(device.place.backend)},
                               {"uuid", device.place.device},
                               {"threads", device.place.threads},
                               {"label", device.label}});
  }
  for (const ComparedCell& cell : comparison.cells) {
    Json entry{{"run", cell.run},
               {"device", cell.device},
               {"id", cell.id},
               {"variant", cell.key.variant},
               {"precision", name_of(cell.key.work.precision)},
               {"l2", name_of(cell.key.work.l2)},
               {"problem", to_json(cell.key.work.problem)},
               {"inputs", to_json(cell.key.work.inputs)},
               {"gpus_at_once", cell.key.work.gpus_at_once},
               {"status", name_of(cell.status)},
               {"reason", cell.reason}};
    if (cell.summary) {
      entry["median_ns"] = cell.summary->median_ns;
      entry["ci95_low_ns"] = finite(cell.summary->ci95_low_ns);
      entry["ci95_high_ns"] = finite(cell.summary->ci95_high_ns);
      entry["round_medians_ns"] = cell.round_medians_ns;
    }
    if (cell.reference && cell.speed) {
      entry["reference"] = *cell.reference;
      entry["speed"] = to_json(*cell.speed);
    }
    json["cells"].push_back(std::move(entry));
  }
  for (const Finding& finding : comparison.findings) {
    json["findings"].push_back(to_json(finding));
  }
  for (const RankingFlip& flip : comparison.flips) {
    json["ranking_flips"].push_back({{"here", to_json(flip.here)}, {"there", to_json(flip.there)}});
  }
  // A path may hold bytes that are not UTF-8; they are replaced, not fatal.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string_view name_of(Axis axis) {
  static constexpr std::array<std::string_view, kAxes.size()> kNames{
      "problem", "precision", "l2", "inputs", "concurrent", "variant", "device", "run"};
  return kNames[static_cast<std::size_t>(axis)];
}

std::string_view name_of(CompareFormat format) {
  static constexpr std::array<std::string_view, kCompareFormats.size()> kNames{"text", "md", "csv",
                                                                               "json"};
  return kNames[static_cast<std::size_t>(format)];
}

std::string words_of(const Finding& finding, const DocumentComparison& comparison) {
  const std::string faster = name_in(comparison, comparison.cells[finding.faster]);
  const std::string slower = name_in(comparison, comparison.cells[finding.slower]);
  const std::string ratio = ratio_words(finding.ratio);
  if (!finding.ratio.ci95) {
    return faster + " is " + ratio + " faster than " + slower +
           " by a single round, without an interval";
  }
  if (!finding.ratio.is_decided()) {
    return faster + " and " + slower + " cannot be told apart: " + ratio;
  }
  return faster + " is " + ratio + " faster than " + slower;
}

std::string render(const DocumentComparison& comparison, const Layout& layout,
                   CompareFormat format) {
  switch (format) {
    case CompareFormat::kText:
      return text_of(comparison, layout);
    case CompareFormat::kMarkdown:
      return markdown_of(comparison, layout);
    case CompareFormat::kCsv:
      return csv_of(comparison);
    case CompareFormat::kJson:
      return json_of(comparison);
  }
  return "";
}

}  // namespace mla_bench
