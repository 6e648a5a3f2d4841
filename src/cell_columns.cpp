#include "cell_columns.hpp"

namespace mla_bench {

std::vector<TextTable::Column> identity_columns() {
  return {{"file"},
          {"started_at"},
          {"version"},
          {"commit"},
          {"variant"},
          {"backend"},
          {"device"},
          {"device_name"},
          {"threads", false},
          {"precision"},
          {"l2"},
          {"batch", false},
          {"seq", false},
          {"model_dim", false},
          {"rank", false},
          {"kv_heads", false},
          {"head_dim", false},
          {"inputs"},
          {"seed", false},
          {"input_file"},
          {"input_content"},
          {"gpus_at_once", false}};
}

std::vector<std::string> identity_entries(const CellOrigin& origin, const CellKey& key) {
  const Problem& problem = key.work.problem;
  const InputSource& inputs = key.work.inputs;
  return {origin.path,
          origin.started_at,
          origin.version,
          origin.commit,
          key.variant,
          std::string(name_of(key.place.backend)),
          key.place.device,
          origin.device_name,
          std::to_string(key.place.threads),
          std::string(name_of(key.work.precision)),
          std::string(name_of(key.work.l2)),
          std::to_string(problem.batch),
          std::to_string(problem.seq),
          std::to_string(problem.model_dim),
          std::to_string(problem.rank),
          std::to_string(problem.kv_heads),
          std::to_string(problem.head_dim),
          inputs.file ? "file" : std::string(name_of(inputs.distribution)),
          inputs.file ? "" : std::to_string(inputs.seed),
          inputs.file.value_or(""),
          inputs.content,
          std::to_string(key.work.gpus_at_once)};
}

}  // namespace mla_bench
