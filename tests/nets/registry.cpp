#include "nets/registry.hpp"

#include <gtest/gtest.h>

#include <set>

#include "engine/base/error.hpp"

namespace keelson::testing {
namespace {

TEST(Registry, NamesAreDifferentAndFound) {
  std::set<std::string> names, stored_names;
  for (const auto& n : nets::registered_networks()) {
    EXPECT_TRUE(names.insert(n.name).second) << n.name;
    EXPECT_TRUE(stored_names.insert(n.stored_name).second) << n.stored_name;
    EXPECT_EQ(nets::find_stored_network(n.stored_name).name, n.name);
    EXPECT_FALSE(n.title.empty());
  }
  EXPECT_THROW(nets::find_stored_network("climate-"), InputError);
  for (const auto& n : nets::networks_of_family("climate-")) EXPECT_EQ("climate-" + n.program_name(), n.stored_name);
}

TEST(Registry, NetworksTakeTheirSamples) {
  for (const auto& n : nets::registered_networks()) {
    const Graph tiny = n.make(n.tiny_settings, n.tiny_sample), small = n.make({}, n.small_sample);
    EXPECT_LE(tiny.parameter_count(), small.parameter_count()) << n.name;
    EXPECT_GE(tiny.loss(), 0) << n.name;
    ASSERT_EQ(tiny.outputs().size(), 1u);
    EXPECT_EQ(tiny.outputs()[0].first, "prediction");
    for (const Shape* sample : {&n.published_sample, &n.small_sample}) {
      EXPECT_EQ((*sample)[1] % n.multiple({}), 0) << n.name;
      EXPECT_EQ((*sample)[2] % n.multiple({}), 0) << n.name;
    }
    EXPECT_EQ(n.tiny_sample[1] % n.multiple(n.tiny_settings), 0) << n.name;
    EXPECT_THROW(n.make({}, Shape{3}), InputError) << n.name;
  }
}

/// Each setting that a tiny network has changes the network, and a text that is no number is refused by name.
TEST(Registry, NetworksReadTheirSettings) {
  for (const auto& n : nets::registered_networks()) {
    n.make(n.tiny_settings, n.tiny_sample);
    EXPECT_EQ(n.tiny_settings.used(), n.tiny_settings.values()) << n.name << " does not know its own settings";
    for (const auto& [name, value] : n.tiny_settings.values()) {
      const nets::Settings wrong({{name, "many"}}, "settings.txt");
      try {
        n.make(wrong, n.tiny_sample);
        ADD_FAILURE() << n.name << " takes 'many' as " << name;
      } catch (const InputError& e) {
        EXPECT_NE(std::string(e.what()).find("settings.txt: the setting '" + name + "' is 'many'"), std::string::npos)
            << e.what();
      }
    }
  }
}

TEST(Registry, LossesHaveNames) {
  for (const auto& n : nets::networks_of_family("climate-")) {
    EXPECT_NO_THROW(n.make({}, n.small_sample));
    EXPECT_THROW(n.make(nets::Settings({{"loss", "least"}}, "x"), n.small_sample), InputError);
  }
}

}  // namespace
}  // namespace keelson::testing
