// The columns that tell cells apart in a table of many documents, for every table that has them.
#pragma once

#include <string>
#include <vector>

#include "cell_key.hpp"
#include "text_table.hpp"

namespace mla_bench {

// Where a cell was found.
struct CellOrigin {
  std::string path;
  std::string started_at;
  std::string version;
  std::string commit;
  std::string device_name;
};

std::vector<TextTable::Column> identity_columns();

// The entries of these columns, in their order.
std::vector<std::string> identity_entries(const CellOrigin& origin, const CellKey& key);

}  // namespace mla_bench
