// What tells cells apart, and their names in other tools' files.
#include "cell_key.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "example_result.hpp"

namespace mla_bench {
namespace {

TEST(CellKey, TheIndexOfAGpuIsNoPartOfIt) {
  Cell cell = example_result().cell;
  const CellKey key = key_of(cell);
  cell.ordinal = 7;
  EXPECT_EQ(key_of(cell), key);
  EXPECT_EQ(export_name(key_of(cell)), export_name(key));
}

TEST(CellKey, EveryFieldTellsCellsApart) {
  Cell cpu = example_result().cell;
  cpu.backend = Backend::kCpu;
  cpu.device = "Some CPU";
  cpu.threads = 2;
  const std::vector<std::function<void(Cell&)>> changes{
      [](Cell&) {},
      [](Cell& cell) { cell.variant = "tiled"; },
      [](Cell& cell) { cell.backend = Backend::kCuda; },
      [](Cell& cell) { cell.device = "Other CPU"; },
      [](Cell& cell) { cell.threads = 4; },
      [](Cell& cell) { cell.precision = Precision::kBf16; },
      [](Cell& cell) { cell.l2 = L2State::kCold; },
      [](Cell& cell) { cell.problem.batch = 5; },
      [](Cell& cell) { cell.problem.seq = 5; },
      [](Cell& cell) { cell.problem.model_dim = 5; },
      [](Cell& cell) { cell.problem.rank = 5; },
      [](Cell& cell) { cell.problem.kv_heads = 5; },
      [](Cell& cell) { cell.problem.head_dim = 5; },
      [](Cell& cell) { cell.inputs.distribution = Distribution::kExact; },
      [](Cell& cell) { cell.inputs.seed = 8; },
      [](Cell& cell) { cell.concurrent_with = {"GPU-2"}; },
      [](Cell& cell) { cell.inputs.file = "a/x.safetensors"; },
      [](Cell& cell) { cell.inputs.file = "b/x.safetensors"; },
      [](Cell& cell) { cell.inputs = {.file = "b/x.safetensors", .content = "0123456789abcdef"}; },
      [](Cell& cell) { cell.inputs = {.file = "b/x.safetensors", .content = "1123456789abcdef"}; },
      [](Cell& cell) { cell.inputs = {.file = "a/x.safetensors", .content = "1123456789abcdef"}; },
  };
  std::set<std::string> ids;
  std::set<std::string> names;
  for (const auto& change : changes) {
    Cell cell = cpu;
    change(cell);
    ids.insert(id_of(key_of(cell)));
    names.insert(export_name(key_of(cell)));
  }
  EXPECT_EQ(ids.size(), changes.size());
  EXPECT_EQ(names.size(), changes.size());
}

// Two GPUs of one model under shared load can be compared with each other.
TEST(CellKey, WorkHoldsHowManyGpusWereAtItButNotWhich) {
  Cell here = example_result().cell;
  Cell there = here;
  here.concurrent_with = {"GPU-2"};
  there.device = "GPU-2";
  there.concurrent_with = {here.device};
  EXPECT_EQ(key_of(here).work, key_of(there).work);
  EXPECT_EQ(export_name(key_of(here)),
            "kv_up/cooperative/cuda/GPU-1/B:4/S:96/Dm:256/R:48/H:4/D:32/fp32/hot/positive:7/"
            "concurrent:2");
}

TEST(CellKey, NamesArePlainAndTheVariantStandsAlone) {
  Cell cell = example_result().cell;
  EXPECT_EQ(export_name(key_of(cell)),
            "kv_up/cooperative/cuda/GPU-1/B:4/S:96/Dm:256/R:48/H:4/D:32/fp32/hot/positive:7");
  cell.backend = Backend::kCpu;
  cell.device = "Some (R) CPU\xc3\xa9 @ 3 GHz";
  cell.inputs.file = "/data/my inputs.safetensors";
  const std::string name = export_name(key_of(cell));
  EXPECT_NE(name.find("/Some-R-CPU-3-GHz/threads:0/"), std::string::npos) << name;
  for (const char c : name) {
    EXPECT_TRUE(c > ' ' && c <= '~') << name;
  }
}

TEST(CellKey, CopiesAreOtherCells) {
  Cell cell = example_result().cell;
  const CellKey itself = key_of(cell);
  cell.copy = 2;
  const CellKey copy = key_of(cell);
  EXPECT_NE(id_of(copy), id_of(itself));
  EXPECT_EQ(export_name(copy), export_name(itself) + "/copy:2");
  EXPECT_TRUE(cell.id().ends_with("/hot/copy:2")) << cell.id();
  // What is planted in a copy does not make it another.
  cell.planted.kind = PlantKind::kWrongElement;
  EXPECT_EQ(id_of(key_of(cell)), id_of(copy));
  EXPECT_NE(command_of(cell).find("--plant 2=wrong_element"), std::string::npos);
}

}  // namespace
}  // namespace mla_bench
