// Values to JSON and back, and other people's JSON refused with a line that says where it is wrong.
#include "json.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "errors.hpp"
#include "example_result.hpp"

namespace mla_bench {
namespace {

using Words = std::vector<std::string>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Words keys_of(const Json& json) {
  Words keys;
  for (const auto& [key, value] : json.items()) {
    keys.push_back(key);
  }
  return keys;
}

template <typename Function>
std::string refusal(const Function& function) {
  try {
    function();
  } catch (const UsageError& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }
  ADD_FAILURE() << "taken";
  return "";
}

#define EXPECT_SAYS(message, part) \
  EXPECT_NE((message).find(part), std::string::npos) << "it says: " << (message)

// As values come back after a journey through text.
Json through_text(const Json& json) {
  return parse_json(json.dump(), "the text");
}

// ---- there and back -----------------------------------------------------------------------------

TEST(Json, AResultComesBackWhole) {
  const Result result = example_result();
  const Json json = to_json(result);
  const Result back = result_from_json(through_text(json));
  EXPECT_EQ(to_json(back).dump(1), json.dump(1));
  EXPECT_EQ(back.cell.id(), result.cell.id());
  EXPECT_EQ(back.cell.device, result.cell.device);
  EXPECT_EQ(back.status, result.status);
  EXPECT_EQ(back.rounds.size(), 2u);
  EXPECT_EQ(back.rounds[1].samples_ns, result.rounds[1].samples_ns);
  EXPECT_EQ(back.rounds[0].retaken_samples, result.rounds[0].retaken_samples);
  EXPECT_EQ(back.rounds[0].slow_clock_samples, result.rounds[0].slow_clock_samples);
  ASSERT_TRUE(back.rounds[0].before);
  EXPECT_EQ(back.rounds[0].before->throttle, result.rounds[0].before->throttle);
  EXPECT_EQ(back.rounds[0].before->temperature_c, std::nullopt);
  EXPECT_TRUE(back.roofline->by_memory);
  EXPECT_EQ(back.kernels.at(0).cluster.x, 2);
  EXPECT_EQ(back.summary->median_ns, result.summary->median_ns);
  ASSERT_TRUE(back.recheck && back.recheck->worst);
  EXPECT_TRUE(back.recheck->worst->is_v);
  EXPECT_EQ(back.recheck->worst->bound, result.recheck->worst->bound);
}

TEST(Json, EveryStatusMethodAndNameComesBack) {
  for (const Status status : {Status::kPassed, Status::kIncorrect, Status::kFailed,
                              Status::kSkipped, Status::kUntrusted}) {
    Result result = example_result();
    result.status = status;
    EXPECT_EQ(result_from_json(through_text(to_json(result))).status, status);
  }
  for (const CheckMethod method :
       {CheckMethod::kFull, CheckMethod::kDevice, CheckMethod::kProjection}) {
    Result result = example_result();
    result.check->method = method;
    EXPECT_EQ(result_from_json(through_text(to_json(result))).check->method, method);
  }
  for (const Precision precision : kPrecisions) {
    Cell cell = example_result().cell;
    cell.precision = precision;
    EXPECT_EQ(cell_from_json(through_text(to_json(cell))).precision, precision);
  }
  for (const Distribution distribution :
       {Distribution::kNormal, Distribution::kPositive, Distribution::kExact}) {
    Cell cell = example_result().cell;
    cell.inputs.distribution = distribution;
    EXPECT_EQ(cell_from_json(through_text(to_json(cell))).inputs, cell.inputs);
  }
}

TEST(Json, WhatMayBeAbsentMayBeAbsent) {
  Result skipped;
  skipped.cell = example_result().cell;
  skipped.reason = "needs sm_80";
  const Result back = result_from_json(through_text(to_json(skipped)));
  EXPECT_FALSE(back.check || back.recheck || back.summary);
  EXPECT_TRUE(back.rounds.empty() && back.kernels.empty());
  EXPECT_EQ(back.reason, "needs sm_80");
}

TEST(Json, ExtremeNumbersComeBackExactly) {
  Cell cell = example_result().cell;
  cell.inputs.seed = std::numeric_limits<std::uint64_t>::max();
  cell.problem.seq = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(cell_from_json(through_text(to_json(cell))).inputs.seed, cell.inputs.seed);
  EXPECT_EQ(cell_from_json(through_text(to_json(cell))).problem.seq, cell.problem.seq);
  Round round = example_result().rounds[0];
  round.samples_ns = {0.1, 1.0 / 3, 5e-324, std::numeric_limits<double>::max(), -0.0};
  EXPECT_EQ(round_from_json(through_text(to_json(round))).samples_ns, round.samples_ns);
}

TEST(Json, OnlyACellThatHadCompanySaysSo) {
  Cell cell = example_result().cell;
  EXPECT_FALSE(to_json(cell).contains("concurrent_with"));
  EXPECT_TRUE(cell_from_json(through_text(to_json(cell))).concurrent_with.empty());
  cell.concurrent_with = {"GPU-2", "GPU-3"};
  EXPECT_EQ(cell_from_json(through_text(to_json(cell))).concurrent_with, cell.concurrent_with);
}

TEST(Json, AFileAsInputHasNoSeed) {
  Cell cell = example_result().cell;
  cell.inputs = {.distribution = Distribution::kNormal, .seed = 0, .file = "x.safetensors"};
  EXPECT_EQ(keys_of(to_json(cell.inputs)), Words{"file"});
  EXPECT_EQ(cell_from_json(through_text(to_json(cell))).inputs, cell.inputs);
  cell.inputs.content = "0123456789abcdef";
  EXPECT_EQ(keys_of(to_json(cell.inputs)), (Words{"file", "content"}));
  EXPECT_EQ(cell_from_json(through_text(to_json(cell))).inputs, cell.inputs);
}

TEST(Json, ADeviceComesBackWhole) {
  const Device device{.backend = Backend::kCuda,
                      .ordinal = 1,
                      .name = "NVIDIA H200",
                      .uuid = "GPU-1",
                      .sm = 90,
                      .multiprocessors = 132,
                      .clock_mhz = 1980,
                      .threads = 1,
                      .shared_memory_per_block = 232448,
                      .shared_memory_per_sm = 233472,
                      .last_level_cache = 62914560,
                      .memory = 150'000'000'000,
                      .free_memory = 149'000'000'000};
  const Json json = to_json(device);
  EXPECT_EQ(to_json(device_from_json(through_text(json))).dump(), json.dump());
  EXPECT_EQ(device_from_json(through_text(json)).free_memory, device.free_memory);
}

TEST(Json, NothingNonFiniteIsWritten) {
  Result result = example_result();
  result.check->max_error_over_bound = kInfinity;
  result.check->frobenius_error = kNan;
  result.check->worst = WorstElement{.actual = kNan, .expected = -kInfinity, .bound = kNan};
  result.rounds.resize(1);
  result.summary = summarize(result.rounds);  // of one round: an interval without bounds
  const std::string text = to_json(result).dump();
  for (const std::string word : {"nan", "NaN", "inf", "Inf"}) {
    EXPECT_EQ(text.find(word), std::string::npos) << text;
  }
  const Json json = to_json(result);
  EXPECT_TRUE(json["check"]["worst"]["actual"].is_null());
  EXPECT_TRUE(json["summary"]["ci95_low_ns"].is_null());
  const Result back = result_from_json(through_text(json));
  EXPECT_TRUE(std::isnan(back.check->worst->actual));
  EXPECT_TRUE(std::isinf(back.summary->ci95_high_ns));
}

TEST(Json, ASummaryIsDerivedAndNotTrusted) {
  Json json = to_json(example_result());
  json["summary"]["median_ns"] = 0.001;
  EXPECT_EQ(result_from_json(json).summary->median_ns, example_result().summary->median_ns);
}

// ---- the keys and their order are what users rely on --------------------------------------------

TEST(Json, KeysAndTheirOrderAreFixed) {
  const Json json = to_json(example_result());
  EXPECT_EQ(keys_of(json),
            (Words{"id",        "variant",    "backend", "ordinal", "device",  "threads",
                   "precision", "l2",         "problem", "inputs",  "status",  "reason",
                   "check",     "recheck",    "kernels", "choice",  "floors",  "api_latency_ns",
                   "roofline",  "cold_proof", "referee", "rounds",  "summary", "command"}));
  Result planted = example_result();
  planted.cell.copy = 2;
  planted.cell.planted = {.kind = PlantKind::kWork, .slow_down = 0.05};
  planted.planted_work = PlantedWork{.spin_ns = 8000, .launches = 32, .slow_down = 0.0501};
  const Json copy = to_json(planted);
  EXPECT_EQ(copy["copy"], 2);
  EXPECT_EQ(copy["planted"], "work:0.05");
  EXPECT_EQ(keys_of(copy["planted_work"]), (Words{"spin_ns", "launches", "slow_down"}));
  EXPECT_EQ(to_json(result_from_json(copy)), copy);
  EXPECT_EQ(keys_of(json["problem"]),
            (Words{"batch", "seq", "model_dim", "rank", "kv_heads", "head_dim"}));
  EXPECT_EQ(keys_of(json["inputs"]), (Words{"distribution", "seed"}));
  EXPECT_EQ(keys_of(json["recheck"]),
            (Words{"method", "passed", "reason", "elements", "wrong_elements", "projected_rows",
                   "max_error_over_bound", "frobenius_error", "bit_exact", "frobenius_error_limit",
                   "worst"}));
  EXPECT_EQ(keys_of(json["recheck"]["worst"]),
            (Words{"tensor", "batch", "seq", "head", "dim", "actual", "expected", "bound"}));
  EXPECT_EQ(keys_of(json["kernels"][0]), (Words{"name", "grid", "block", "cluster", "shared_bytes",
                                                "registers", "local_bytes", "blocks_per_sm"}));
  EXPECT_EQ(keys_of(json["rounds"][0]),
            (Words{"short_launches", "long_launches", "short_ns", "long_ns", "samples_ns",
                   "retaken_samples", "clock_mhz", "slow_clock_samples", "before", "after"}));
  EXPECT_EQ(keys_of(json["rounds"][1]["anchors"]), (Words{"copy_ns", "fma_ns", "source"}));
  EXPECT_EQ(keys_of(json["roofline"]), (Words{"ns", "bound"}));
  EXPECT_EQ(keys_of(json["referee"]),
            (Words{"duration_ns", "gap_ns", "empty_gap_ns", "band_ns", "kernels"}));
  EXPECT_EQ(keys_of(json["referee"]["kernels"]), (Words{"captured", "called", "escaped"}));
  EXPECT_EQ(keys_of(json["summary"]), (Words{"median_ns", "min_ns", "mad_ns", "ci95_low_ns",
                                             "ci95_high_ns", "samples", "resolution_ns"}));
}

// ---- values that are not what they should be ----------------------------------------------------

TEST(Json, AMissingKeyIsNamed) {
  for (const std::string key :
       {"variant", "backend", "ordinal", "device", "threads", "precision", "l2", "problem",
        "inputs", "status", "reason", "kernels", "choice", "rounds"}) {
    Json json = to_json(example_result());
    json.erase(key);
    EXPECT_SAYS(refusal([&] { result_from_json(json); }), "'" + key + "'");
  }
  for (const Json& json : {Json(), Json(3), Json("text"), Json::array()}) {
    EXPECT_SAYS(refusal([&] { result_from_json(json); }), "missing");
  }
}

TEST(Json, AWrongTypeIsNamed) {
  for (const Json& wrong :
       {Json(), Json("x"), Json(true), Json(1.5), Json::array({1}), Json::object({{"a", 1}})}) {
    Json json = to_json(example_result());
    json["threads"] = wrong;
    EXPECT_SAYS(refusal([&] { result_from_json(json); }), "'threads'");
    json = to_json(example_result());
    json["problem"]["seq"] = wrong;
    EXPECT_SAYS(refusal([&] { result_from_json(json); }), "'seq'");
  }
  for (const char* key : {"variant", "device", "status", "precision"}) {
    Json json = to_json(example_result());
    json[key] = 7;
    EXPECT_SAYS(refusal([&] { result_from_json(json); }), "'" + std::string(key) + "'");
  }
}

TEST(Json, AnIntegerOutOfRangeIsNotWrapped) {
  Json json = to_json(example_result());
  json["ordinal"] = std::int64_t{1} << 32;  // 0 in an int
  EXPECT_SAYS(refusal([&] { result_from_json(json); }), "'ordinal'");
  json = to_json(example_result());
  json["inputs"]["seed"] = -1;
  EXPECT_SAYS(refusal([&] { result_from_json(json); }), "'seed'");
  json = to_json(example_result());
  json["problem"]["batch"] = std::numeric_limits<std::uint64_t>::max();
  EXPECT_SAYS(refusal([&] { result_from_json(json); }), "'batch'");
}

TEST(Json, AnUnknownNameIsShownHarmless) {
  Json json = to_json(example_result());
  json["status"] = "fine\x1b[2J";
  const std::string message = refusal([&] { result_from_json(json); });
  EXPECT_SAYS(message, "'status' has the unknown value 'fine\\x1b[2J'");
}

TEST(Json, NullIsNoSample) {
  Json json = to_json(example_result());
  json["rounds"][0]["samples_ns"][1] = nullptr;
  EXPECT_SAYS(refusal([&] { result_from_json(json); }), "'samples_ns'");
}

TEST(Json, AnExtentHasThreeSizes) {
  Json json = to_json(example_result());
  json["kernels"][0]["grid"] = {1, 2};
  EXPECT_SAYS(refusal([&] { result_from_json(json); }), "'grid'");
}

// ---- text ---------------------------------------------------------------------------------------

std::string nested(int depth) {
  return std::string(static_cast<std::size_t>(depth), '[') +
         std::string(static_cast<std::size_t>(depth), ']');
}

TEST(ParseJson, LimitsDepth) {
  EXPECT_NO_THROW(parse_json(nested(64), "x"));
  EXPECT_SAYS(refusal([] { parse_json(nested(66), "x"); }), "x is nested deeper");
  EXPECT_SAYS(refusal([] { parse_json(nested(1'000'000), "x.json"); }), "x.json is nested deeper");
  std::string objects;
  for (int i = 0; i < 200'000; ++i) {
    objects += "{\"a\":";
  }
  EXPECT_SAYS(refusal([&] { parse_json(objects + "1" + std::string(200'000, '}'), "x"); }),
              "x is nested deeper");
  EXPECT_NE(refusal([&] { parse_json(objects, "x"); }), "") << "deep and cut short";
}

TEST(ParseJson, NamesOriginAndPlace) {
  EXPECT_EQ(refusal([] { parse_json("{\"a\": 1,}", "a.json"); }),
            "a.json is not JSON: error at byte 9");
  EXPECT_SAYS(refusal([] { parse_json("", "a.json"); }), "a.json is not JSON");
  EXPECT_SAYS(refusal([] { parse_json("{} {}", "a.json"); }), "byte 4");
  EXPECT_SAYS(refusal([] { parse_json("[1, NaN]", "a.json"); }), "byte 5");
  EXPECT_SAYS(refusal([] { parse_json("\"\xff\"", "a.json"); }), "a.json is not JSON");
}

TEST(ParseJson, ANumberBeyondDoubleIsRefusedToo) {
  EXPECT_SAYS(refusal([] { parse_json("[1e400]", "a.json"); }), "a.json");
}

TEST(ParseJson, KeepsEverythingWithinTheLimit) {
  const std::string text = R"({"a":[1,2.5,{"b":null}],"c":"é","d":true})";
  EXPECT_EQ(parse_json(text, "x").dump(), text);
}

}  // namespace
}  // namespace mla_bench
