#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>

#include "tests/train/support.hpp"

namespace keelson::testing {

/// Ends a training of `network()` with the options `o` after each of these steps, goes on from its checkpoint, and
/// expects what the training `whole`, which was not interrupted, ended with, to the bit.
inline void expect_same_when_resumed(const std::function<Graph()>& network, const TrainerOptions& o, Context& where,
                                     const Training& whole, const std::vector<std::int64_t>& steps) {
  const auto observed = [](const Training& t) {
    auto entries = t.trainer.state().observed;
    entries.erase(step_ms_entry);  // a time
    return entries;
  };
  for (const std::int64_t step : steps) {
    SCOPED_TRACE(step);
    const Folder folder;
    auto cut = o;
    cut.checkpoints.folder = folder.path();
    cut.max_steps = step;
    Training a(network(), cut, where);
    a.go();
    Training b(network(), o, where);
    b.trainer.resume(find_checkpoint(folder.path(), false));
    EXPECT_EQ(b.trainer.state().before == nullptr, a.trainer.state().before == nullptr);
    b.go();
    EXPECT_EQ(b.trainer.state().topology, whole.trainer.state().topology);
    EXPECT_EQ(observed(b), observed(whole));
    EXPECT_EQ(everything(b.parameters), everything(whole.parameters));
  }
}

}  // namespace keelson::testing
