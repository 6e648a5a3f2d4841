// Opening cuBLAS: what a machine without it, or with another, is told. The libraries themselves are
// opened where this machine has them; nothing here needs a GPU.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <new>
#include <optional>
#include <string>

#include "cuda/cublas_library.hpp"

namespace mla_bench::cuda {
namespace {

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The environment variable with that value (or without one) until the end of the scope.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) {
      old_ = old;
    }
    set(value);
  }
  ~ScopedVariable() { set(old_ ? old_->c_str() : nullptr); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  void set(const char* value) const {
    if (value != nullptr) {
      setenv(name_, value, 1);
    } else {
      unsetenv(name_);
    }
  }

  const char* name_;
  std::optional<std::string> old_;
};

TEST(CublasLibrary, SaysThatItIsMissing) {
  const std::string file = "libmla_bench_absent.so.99";
  const OpenedLibrary library = open_library(file);
  EXPECT_EQ(library.handle, nullptr);
  EXPECT_TRUE(says(library.missing, file)) << library.missing;
  EXPECT_TRUE(says(library.missing, "No such file")) << library.missing;
  EXPECT_TRUE(says(library.missing, "LD_LIBRARY_PATH")) << library.missing;
  EXPECT_EQ(load_cublas(file).missing, library.missing);
  EXPECT_EQ(load_cublaslt(file).missing, library.missing);
}

// A file that is there and broken: its own error, not that of the places where it is not.
TEST(CublasLibrary, SaysWhatIsWrongWithTheOneFound) {
  const std::string folder = testing::TempDir() + "mla_bench_toolkit";
  const std::string file = "libmla_bench_broken.so.99";
  std::filesystem::create_directories(folder + "/lib64");
  std::filesystem::copy_file("/proc/self/cmdline", folder + "/lib64/" + file,
                             std::filesystem::copy_options::overwrite_existing);
  const ScopedVariable root("CUDA_HOME", folder.c_str());
  const std::string missing = open_library(file).missing;
  EXPECT_TRUE(says(missing, folder + "/lib64/" + file)) << missing;
  EXPECT_FALSE(says(missing, "No such file")) << missing;
  std::filesystem::remove_all(folder);
}

// Any library that is not cuBLAS stands for one of another version.
TEST(CublasLibrary, NamesTheFunctionThatAnotherVersionLacks) {
  const std::string missing = load_cublas("libm.so.6").missing;
  EXPECT_TRUE(says(missing, "libm.so.6 has no cublasGetStatusName")) << missing;
  EXPECT_TRUE(says(load_cublaslt("libm.so.6").missing, "no cublasLtGetStatusName"));
}

TEST(CublasLibrary, FindsEveryFunctionWhereItIsInstalled) {
  const OpenedLibrary cublas = open_library(cublas_file("libcublas"));
  if (cublas.handle == nullptr) {
    GTEST_SKIP() << cublas.missing;
  }
  const CublasApi api = load_cublas();
  EXPECT_EQ(api.missing, "");
  EXPECT_EQ(load_cublaslt().missing, "");
  try {
    throw_on_status(api, CUBLAS_STATUS_NOT_SUPPORTED, "cublasGemmEx_64");
    FAIL() << "a status that is no success must throw";
  } catch (const CublasError& error) {
    EXPECT_TRUE(says(error.what(), "CUBLAS_STATUS_NOT_SUPPORTED (")) << error.what();
    EXPECT_TRUE(says(error.what(), "from cublasGemmEx_64")) << error.what();
  }
  EXPECT_THROW(throw_on_status(api, CUBLAS_STATUS_ALLOC_FAILED, "cublasCreate"), std::bad_alloc);
  EXPECT_NO_THROW(throw_on_status(api, CUBLAS_STATUS_SUCCESS, "cublasCreate"));
}

TEST(CublasLibrary, NamesAnOverrideOfThePrecision) {
  {
    const ScopedVariable unset("NVIDIA_TF32_OVERRIDE", nullptr);
    for (const Precision precision : kPrecisions) {
      EXPECT_EQ(why_not_overridden(precision), std::nullopt);
    }
  }
  {
    const ScopedVariable forbidden("NVIDIA_TF32_OVERRIDE", "0");
    EXPECT_TRUE(says(why_not_overridden(Precision::kTf32).value_or(""), "NVIDIA_TF32_OVERRIDE=0"));
    EXPECT_EQ(why_not_overridden(Precision::kFp32), std::nullopt);
    EXPECT_EQ(why_not_overridden(Precision::kBf16), std::nullopt);
  }
  {
    const ScopedVariable forced("NVIDIA_TF32_OVERRIDE", "1");
    EXPECT_TRUE(says(why_not_overridden(Precision::kFp32).value_or(""), "NVIDIA_TF32_OVERRIDE=1"));
    EXPECT_EQ(why_not_overridden(Precision::kTf32), std::nullopt);
    EXPECT_EQ(why_not_overridden(Precision::kFp16), std::nullopt);
  }
}

// As a plan asks them, of a described device: every precision, or the missing library's name.
TEST(CublasLibrary, ItsVariantsRunEveryPrecisionOrNameTheLibrary) {
  const ScopedVariable unset("NVIDIA_TF32_OVERRIDE", nullptr);
  const Device hopper{.backend = Backend::kCuda, .sm = 90};
  const Device turing{.backend = Backend::kCuda, .sm = 75};
  const auto missing_of = [](const Variant& variant) {
    return variant.name == "cublas" ? load_cublas().missing : load_cublaslt().missing;
  };
  int found = 0;
  for (const Listed& listed : registry()) {
    if (listed.variant != nullptr && listed.name.starts_with("cublas")) {
      for (const Precision precision : kPrecisions) {
        const Variant& variant = *listed.variant;
        EXPECT_EQ(variant.why_not(Problem{}, precision, hopper).value_or(""), missing_of(variant));
        EXPECT_TRUE(says(variant.why_not(Problem{}, precision, turing).value_or(""), "sm_80"));
      }
      ++found;
    }
  }
  EXPECT_EQ(found, 2);
}

}  // namespace
}  // namespace mla_bench::cuda
