// What a build says that it can run on.
#include "build_facts.hpp"

#include <gtest/gtest.h>

namespace mla_bench {
namespace {

TEST(BuildFacts, CodeRunsOnItsOwnMajorVersionFromItsMinorOneUp) {
  EXPECT_TRUE(has_code_for("80,89,90a", 80));
  EXPECT_TRUE(has_code_for("80,89,90a", 86)) << "by that of 80";
  EXPECT_TRUE(has_code_for("80,89,90a", 90));
  EXPECT_FALSE(has_code_for("80,89", 90)) << "there is no PTX";
  EXPECT_FALSE(has_code_for("89", 86));
  EXPECT_FALSE(has_code_for("90a", 91)) << "its own instructions are of 9.0 alone";
  EXPECT_TRUE(has_code_for("120", 121));
  EXPECT_FALSE(has_code_for("100", 120));
  EXPECT_TRUE(has_code_for("100f", 103)) << "of one family";
  EXPECT_FALSE(has_code_for("", 90));
}

}  // namespace
}  // namespace mla_bench
