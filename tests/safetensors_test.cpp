// The file format: what is written reads back, and every kind of broken or hostile file is refused
// with one line that names it.
#include "safetensors.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "full_disk.hpp"

namespace mla_bench {
namespace {

class TensorFiles : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() /
                 ("mla_bench_safetensors_" + std::to_string(::getpid()));
    std::filesystem::create_directories(directory_);
    path_ = (directory_ / "a.safetensors").string();
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void write_bytes(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }

  // A file of that header and so many bytes of data.
  void write_file(const std::string& header, std::size_t data_bytes = 8) {
    const std::uint64_t length = header.size();
    std::string bytes(sizeof length, '\0');
    std::memcpy(bytes.data(), &length, sizeof length);
    write_bytes(bytes + header + std::string(data_bytes, 'x'));
  }

  // Why the file is refused; empty if it is not.
  std::string refusal() {
    try {
      open_tensor_file(path_);
    } catch (const UsageError& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find(path_), std::string::npos) << message;
      for (const char c : message) {
        EXPECT_GE(static_cast<unsigned char>(c), 0x20) << message;
      }
      return message;
    }
    return "";
  }

  void expect_refused(const std::string& header, const std::string& because,
                      std::size_t data_bytes = 8) {
    write_file(header, data_bytes);
    const std::string message = refusal();
    EXPECT_NE(message.find(because), std::string::npos)
        << "header " << header.substr(0, 200) << "\nmessage " << message.substr(0, 500);
  }

  std::int64_t files_in_directory() const {
    return std::distance(std::filesystem::directory_iterator(directory_), {});
  }

  std::filesystem::path directory_;
  std::string path_;
};

// One tensor of two floats, whose parts a test replaces.
std::string one_tensor(const std::string& shape = "[2]", const std::string& offsets = "[0,8]",
                       const std::string& dtype = "\"F32\"") {
  return R"({"a":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

std::vector<std::byte> some_bytes(std::size_t count) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < count; ++i) {
    bytes.push_back(static_cast<std::byte>(i * 37));
  }
  return bytes;
}

TEST_F(TensorFiles, ReadBackAsTheyWereWritten) {
  const std::vector<std::byte> a = some_bytes(24);
  const std::vector<std::byte> b = some_bytes(6);
  const TensorView tensors[] = {{"a", StoredType::kF32, {2, 3}, a},
                                {"b \"\\\n", StoredType::kBf16, {3}, b},
                                {"empty", StoredType::kF16, {0, 7}, {}},
                                {"scalar", StoredType::kF16, {}, std::span(b).first(2)}};
  write_tensor_file(path_, tensors, {{"kv_heads", "4"}, {"note", "\xc3\xa9"}});
  const TensorFile file = open_tensor_file(path_);
  ASSERT_EQ(file.tensors.size(), 4u);
  EXPECT_EQ(file.metadata.at("kv_heads"), "4");
  EXPECT_EQ(file.metadata.at("note"), "\xc3\xa9");
  for (const TensorEntry& entry : file.tensors) {
    const auto* written = std::find_if(std::begin(tensors), std::end(tensors),
                                       [&](const TensorView& t) { return t.name == entry.name; });
    ASSERT_NE(written, std::end(tensors)) << entry.name;
    EXPECT_EQ(entry.shape, written->shape);
    EXPECT_EQ(read_tensor(file, entry),
              std::vector<std::byte>(written->data.begin(), written->data.end()));
  }
  EXPECT_EQ(file.tensors[0].dtype, "F32");
  EXPECT_EQ(file.tensors[0].begin % 8, 0);
  EXPECT_EQ(files_in_directory(), 1);
}

TEST_F(TensorFiles, ValidHeadersOfOthersAreRead) {
  write_file(one_tensor());
  EXPECT_EQ(refusal(), "");
  write_file(one_tensor() + "     ");  // padding
  EXPECT_EQ(refusal(), "");
  write_file("{}", 0);
  EXPECT_EQ(refusal(), "");
  write_file(one_tensor("[99]", "[0,8]", "\"F4\""));  // a dtype that we do not know is not judged
  EXPECT_EQ(refusal(), "");
  write_file(R"({"z":{"dtype":"I64","shape":[],"data_offsets":[0,8]},"__metadata__":{"k":"v"},)"
             R"("a":{"dtype":"U8","shape":[4,0],"data_offsets":[8,8]}})");
  EXPECT_EQ(refusal(), "");
}

TEST_F(TensorFiles, FilesThatAreNoneAreRefused) {
  EXPECT_NE(refusal().find("cannot be opened: No such file"), std::string::npos);
  write_bytes("");
  EXPECT_NE(refusal().find("shorter than the 8 bytes"), std::string::npos);
  write_bytes("1234567");
  EXPECT_NE(refusal().find("shorter than the 8 bytes"), std::string::npos);
  write_bytes("this is some text, not tensors");
  EXPECT_NE(refusal().find("over the 100000000"), std::string::npos);
  write_bytes(std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8));
  EXPECT_NE(refusal().find("over the 100000000"), std::string::npos);
  write_bytes(std::string("\x03\0\0\0\0\0\0\0{}", 10));
  EXPECT_NE(refusal().find("would be 3 bytes, but the file has 10"), std::string::npos);
  write_bytes(std::string(8, '\0'));
  EXPECT_NE(refusal().find("does not begin with '{'"), std::string::npos);
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_NE(refusal().find("not a regular file"), std::string::npos);
}

TEST_F(TensorFiles, HeadersThatAreNoJsonAreRefused) {
  expect_refused("[]", "does not begin with '{'");
  expect_refused(" {}", "does not begin with '{'");
  expect_refused("\xef\xbb\xbf{}", "does not begin with '{'");
  expect_refused("{", "not valid JSON");
  expect_refused("{} x", "not valid JSON");
  expect_refused("{\"a\xff\":1}", "not valid JSON");
  expect_refused("{\"a\xed\xa0\x80\":1}", "not valid JSON");  // a lone surrogate
  expect_refused(std::string("{}\0hidden", 9), "NUL byte");
}

TEST_F(TensorFiles, HeadersOfAnotherShapeAreRefused) {
  expect_refused(R"({"a":1})", "tensor 'a' is a number, not an object");
  expect_refused(R"({"a":null})", "tensor 'a' is null");
  expect_refused(R"({"a":[]})", "tensor 'a' is an array");
  expect_refused(R"({"a":"x"})", "tensor 'a' is a string");
  expect_refused(R"({"a":{}})", "tensor 'a' needs all of dtype, shape and data_offsets");
  expect_refused(R"({"a":{"dtype":"F32","shape":[2]}})", "needs all of");
  expect_refused(R"({"a":{"strides":[1]}})", "tensor 'a' has the unknown key 'strides'");
  expect_refused(one_tensor("[2]", "[0,8]", "1"), "dtype of tensor 'a' is or holds a number");
  expect_refused(one_tensor("[2]", "[0,8]", "[]"), "dtype of tensor 'a' is or holds an array");
  expect_refused(one_tensor("2"), "shape of tensor 'a' is or holds a number");
  expect_refused(one_tensor("[\"2\"]"), "shape of tensor 'a' is or holds a string");
  expect_refused(one_tensor("[true]"), "shape of tensor 'a' is or holds a boolean");
  expect_refused(one_tensor("[[2]]"), "shape of tensor 'a' is or holds an array");
  expect_refused(one_tensor("[{}]"), "shape of tensor 'a' is or holds an object");
  expect_refused(one_tensor("[2.0]"), "not an integer");
  expect_refused(one_tensor("[2e0]"), "not an integer");
  expect_refused(one_tensor("[-2]"), "a negative number");
  expect_refused(one_tensor("[99999999999999999999999]"), "not an integer below 2^63");
  expect_refused(one_tensor("[9223372036854775808]"), "not an integer below 2^63");
  expect_refused(R"({"__metadata__":1})", "__metadata__ is a number");
  expect_refused(R"({"__metadata__":{"k":1}})", "the value of 'k' in __metadata__ is a number");
  expect_refused(R"({"__metadata__":{"k":{}}})", "the value of 'k' in __metadata__ is an object");
}

TEST_F(TensorFiles, DuplicateKeysAreRefused) {
  const std::string tensor = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  expect_refused("{\"a\":" + tensor + ",\"a\":" + tensor + "}", "two entries 'a'");
  expect_refused(R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
                 "tensor 'a' has two keys 'dtype'");
  expect_refused(R"({"__metadata__":{"k":"1","k":"2"}})", "__metadata__ has two keys 'k'");
  expect_refused(R"({"__metadata__":{},"__metadata__":{}})", "two entries '__metadata__'");
}

TEST_F(TensorFiles, DeepAndLongHeadersAreRefusedQuickly) {
  const std::size_t many = 2'000'000;
  expect_refused("{\"a\":" + std::string(many, '['), "tensor 'a' is an array");
  std::string objects = "{";
  for (std::size_t i = 0; i < many; ++i) {
    objects += "\"a\":{";
  }
  expect_refused(objects, "unknown key 'a'");
  std::string ones = "[1";
  for (std::size_t i = 1; i < many; ++i) {
    ones += ",1";
  }
  expect_refused(one_tensor(ones + "]"), "more than 64 entries");
  expect_refused("{\"" + std::string(many, 'n') + "\":1}", "nnn...' is a number");
}

TEST_F(TensorFiles, OffsetsThatDoNotFitAreRefused) {
  expect_refused(one_tensor("[2]", "[8,0]"), "begin at 8, after their end 0");
  expect_refused(one_tensor("[2]", "[0]"), "must be [begin, end]");
  expect_refused(one_tensor("[2]", "[0,8,9]"), "must be [begin, end]");
  expect_refused(one_tensor("[4]", "[0,16]"), "ends at byte 16 of 8");
  expect_refused(one_tensor("[2]", "[9223372036854775800,9223372036854775807]"), "ends at byte");
  expect_refused(one_tensor("[1]", "[0,8]"),
                 "F32 of shape (1) is 4 bytes, but its data_offsets hold 8");
  expect_refused(one_tensor("[4294967296,4294967296]"), "more than 2^63 bytes");
  expect_refused(one_tensor("[3037000500,3037000500,2]"), "more than 2^63 bytes");
  // Whose product in 64 bits would come round to the 8 bytes that are there.
  expect_refused(one_tensor("[4611686018427387906]"), "more than 2^63 bytes");
}

TEST_F(TensorFiles, BytesMustBelongToOneTensorEach) {
  const auto two = [](const std::string& first, const std::string& second) {
    return R"({"a":{"dtype":"F32","shape":[1],"data_offsets":)" + first +
           R"(},"b":{"dtype":"F32","shape":[1],"data_offsets":)" + second + "}}";
  };
  write_file(two("[4,8]", "[0,4]"));
  EXPECT_EQ(refusal(), "");
  expect_refused(two("[0,4]", "[0,4]"), "tensor 'b' overlaps");
  expect_refused(two("[0,4]", "[2,6]"), "tensor 'b' overlaps");
  expect_refused(two("[0,4]", "[8,12]"), "4 bytes before tensor 'b' belong to no tensor", 12);
  expect_refused(one_tensor("[1]", "[4,8]"), "4 bytes before tensor 'a'");
  expect_refused(one_tensor("[2]", "[0,8]"), "1 bytes after the last tensor", 9);
  expect_refused("{}", "8 bytes after the last tensor");
}

TEST_F(TensorFiles, StrangersNamesCannotDriveATerminal) {
  write_file("{\"\\u001b[31m\\n\":1}");
  EXPECT_NE(refusal().find("tensor '\\x1b[31m\\x0a' is a number"), std::string::npos) << refusal();
}

TEST_F(TensorFiles, AFileCutShortAfterItWasOpenedIsRefused) {
  write_file(one_tensor());
  const TensorFile file = open_tensor_file(path_);
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 1);
  EXPECT_THROW(read_tensor(file, file.tensors[0]), UsageError);
}

TEST_F(TensorFiles, WritingReplacesAFileAtOnceOrLeavesItAlone) {
  const std::vector<std::byte> data = some_bytes(8);
  const TensorView tensor{"a", StoredType::kF32, {2}, data};
  write_bytes("old");
  write_tensor_file(path_, std::span(&tensor, 1), {});
  EXPECT_EQ(read_tensor(open_tensor_file(path_), open_tensor_file(path_).tensors[0]), data);
  EXPECT_EQ(files_in_directory(), 1);

  const std::string nowhere = (directory_ / "none" / "a.safetensors").string();
  EXPECT_THROW(write_tensor_file(nowhere, std::span(&tensor, 1), {}), UsageError);
  EXPECT_THROW(write_tensor_file(directory_.string(), std::span(&tensor, 1), {}), UsageError);
  EXPECT_THROW(write_tensor_file("/dev/null", std::span(&tensor, 1), {}), UsageError);
}

TEST_F(TensorFiles, AFullDiskIsReportedAndLeavesNothing) {
  const std::vector<std::byte> data = some_bytes(1 << 16);
  const TensorView tensor{"a", StoredType::kF32, {1 << 14}, data};
  std::string message;
  try {
    const FullDisk full;
    write_tensor_file(path_, std::span(&tensor, 1), {});
  } catch (const UsageError& error) {
    message = error.what();
  }
  EXPECT_NE(message.find("cannot be written: File too large"), std::string::npos) << message;
  EXPECT_NE(message.find(path_), std::string::npos);
  EXPECT_EQ(files_in_directory(), 0);
}

TEST_F(TensorFiles, DataOfAnotherSizeThanItsShapeIsAnErrorOfTheCaller) {
  const std::vector<std::byte> data = some_bytes(8);
  const TensorView tensor{"a", StoredType::kF32, {3}, data};
  EXPECT_THROW(write_tensor_file(path_, std::span(&tensor, 1), {}), std::invalid_argument);
  EXPECT_EQ(files_in_directory(), 0);
}

}  // namespace
}  // namespace mla_bench
