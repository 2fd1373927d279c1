#include "engine/train/checkpoint/checkpoint.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "engine/data/hdf5/hdf5.hpp"
#include "engine/train/checkpoint/checkpoint_reader.hpp"
#include "engine/train/checkpoint/state_text.hpp"
#include "tests/support/contexts.hpp"
#include "tests/train/support.hpp"

namespace keelson::testing {
namespace {

/// A network whose parameters and moments are distinct numbers.
struct Trained {
  explicit Trained(Graph g = small_network(), const std::string& where = contexts().back())
      : graph(std::move(g)), parameters(graph, context(where), 3) {
    optimizer.momentum = 0.9f;
    PlanOptions o;
    o.optimizer = &optimizer;
    const Executor executor(graph, parameters, o);
    std::uint64_t n = 0;
    for (auto& p : parameters.all()) {
      std::vector<float> v(static_cast<std::size_t>(p.shape.elements()));
      for (int which : {-1, 0}) {
        for (auto& x : v) x = philox::uniform({9, 0, 0}, n++) - 0.5f;
        parameters.set(p, v, which);
      }
    }
  }
  Graph graph;
  Parameters parameters;
  Sgd optimizer;
};

RunState some_state() {
  RunState s;
  s.network = "small";
  s.config = {{"net.size", "6"}, {"odd", "a=b \"c\"\n\xC3\xA9"}};
  s.seed = 18446744073709551615ull;
  s.epoch = 3;
  s.step = 77;
  s.step_in_epoch = 5;
  s.loss_sum = 1.0 / 3;
  s.observed = {{"target_sum", {0.1, -2e-300}}, {"target_samples", {4}}, {"none", {}}};
  s.optimizer = "sgd";
  s.texts = {{"vocabulary", "<eos>\t3\nna\xC3\xAFve\t1\n"}, {"any bytes", std::string("\0\xFF\n", 3)}, {"empty", ""}};
  return s;
}

const std::vector<std::string> momentum{"momentum"};

TEST(Checkpoint, ComesBackBitForBit) {
  const Folder folder;
  const Trained a;
  write_checkpoint(folder / "c.h5", copy_run(some_state(), a.parameters, momentum));
  EXPECT_EQ(folder.files(), std::vector<std::string>{"c.h5"});
  Trained b(small_network(0));
  for (auto& p : b.parameters.all())
    b.parameters.set(p, std::vector<float>(static_cast<std::size_t>(p.shape.elements())));
  const auto s = load_checkpoint(folder / "c.h5", "small", b.parameters, momentum, nullptr);
  EXPECT_EQ(everything(a.parameters), everything(b.parameters));
  auto expected = some_state();
  expected.version = s.version;
  expected.created = s.created;
  EXPECT_EQ(to_text(s), to_text(expected));
  EXPECT_EQ(s.observed, expected.observed);
  EXPECT_EQ(s.texts, expected.texts);
  EXPECT_EQ(read_run_state(folder / "c.h5").texts, expected.texts);
  EXPECT_TRUE(std::isinf(s.best_metric));
  EXPECT_TRUE(std::isnan(s.metric));
  EXPECT_FALSE(s.version.empty());
}

TEST(Checkpoint, ComesBackFromMemory) {
  const Folder folder;
  const Trained a;
  const auto copy = copy_run(some_state(), a.parameters, momentum);
  Trained b(small_network(0));
  const CheckpointReader reader(&copy, folder / "c.h5", nullptr);
  EXPECT_EQ(reader.path(), folder / "c.h5");
  EXPECT_EQ(reader.state().step, 77);
  const auto s = reader.load("small", b.parameters, momentum);
  EXPECT_EQ(everything(a.parameters), everything(b.parameters));
  EXPECT_EQ(s.texts, some_state().texts);
  EXPECT_TRUE(folder.files().empty());
}

TEST(Checkpoint, IsPlainHdf5) {
  const Folder folder;
  const Trained a;
  write_checkpoint(folder / "c.h5", copy_run(some_state(), a.parameters, momentum));
  const auto f = hdf5::File::open((folder / "c.h5").string());
  EXPECT_EQ(f.info("/parameters/conv1/weights").shape, (hdf5::Dims{6, 2, 3, 3, 3}));
  EXPECT_EQ(f.info("/parameters/dense2/weights").shape, (hdf5::Dims{2, 8}));
  EXPECT_EQ(f.info("/optimizer/momentum/dense1/bias").shape, (hdf5::Dims{8}));
  EXPECT_EQ(f.info("/parameters/conv1/weights").type, hdf5::Type::f32);
  EXPECT_EQ(f.attribute<std::int64_t>("/", "step"), 77);
  EXPECT_EQ(f.text_attribute("/", "config.net.size"), "6");
  EXPECT_EQ(f.numbers_attribute<double>("/", "target_sum"), (std::vector<double>{0.1, -2e-300}));
  EXPECT_EQ(f.info("/texts/vocabulary").type, hdf5::Type::u8);
  EXPECT_EQ(f.info("/texts/any bytes").shape, (hdf5::Dims{3}));
  auto& p = const_cast<Parameters&>(a.parameters).at("conv1/weights");
  EXPECT_EQ(f.read<float>("/parameters/conv1/weights"), a.parameters.get(p));
}

/// Files that version 0.1.0 wrote when what observers add up were fields of the state of their own.
TEST(Checkpoint, ReadsOlderFilesOfThisFormat) {
  Graph g;
  const auto x = g.input("x", {3}), y = g.input("y", {2});
  mse(dense(x, 2, "out"), y);
  Sgd o;
  o.momentum = 0.9f;
  const std::filesystem::path data = KEELSON_SOURCE_DIR "/tests/train/checkpoint/data";
  for (const bool targets : {true, false}) {
    Parameters parameters(g, context(contexts().back()), 1);
    const Executor executor(g, parameters, {.batch = 2, .optimizer = &o});
    const auto file = data / (targets ? "format-2.h5" : "format-2-without-targets.h5");
    const auto s = load_checkpoint(file, "tiny", parameters, momentum, nullptr);
    EXPECT_EQ(parameters.get(parameters.at("out/weights")), (std::vector<float>{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(parameters.get(parameters.at("out/weights"), 0), (std::vector<float>{0.5f, 0, 0, 0, 0, -0.5f}));
    EXPECT_EQ(s.step, 9);
    EXPECT_EQ(s.best_metric, 0.25);
    const std::map<std::string, std::vector<double>> sums{{"target_sum", {1.5, -0.7}}, {"target_samples", {10}}};
    const std::map<std::string, std::vector<double>> none{{"target_sum", {}}, {"target_samples", {0}}};
    EXPECT_EQ(s.observed, targets ? sums : none);
    const Folder folder;  // written anew, the state is the same
    write_checkpoint(folder / "c.h5", copy_run(s, parameters, momentum));
    EXPECT_EQ(read_run_state(folder / "c.h5").observed, s.observed);
  }
}

TEST(Checkpoint, ReadsWithoutMoments) {
  const Folder folder;
  const Trained a;
  write_checkpoint(folder / "c.h5", copy_run(some_state(), a.parameters, momentum));
  Parameters b(a.graph, context(contexts().back()), 4);
  PlanOptions evaluation;
  evaluation.training = false;
  const Executor executor(a.graph, b, evaluation);
  load_checkpoint(folder / "c.h5", "small", b, {}, nullptr);
  for (std::size_t i = 0; i < b.all().size(); ++i)
    EXPECT_EQ(b.get(b.all()[i]), a.parameters.get(a.parameters.all()[i]));
}

TEST(Checkpoint, RefusesOtherNetworks) {
  const Folder folder;
  const Trained a;
  write_checkpoint(folder / "c.h5", copy_run(some_state(), a.parameters, momentum));
  Trained wider(small_network(0, 9));
  const auto before = everything(wider.parameters);
  const auto text =
      message_of<InputError>([&] { load_checkpoint(folder / "c.h5", "wide", wider.parameters, momentum, nullptr); });
  EXPECT_NE(text.find("another network (small, expected wide)"), std::string::npos) << text;
  EXPECT_NE(text.find("dense1/weights (8, 162), where dense1/weights (9, 162) was expected"), std::string::npos)
      << text;
  EXPECT_EQ(everything(wider.parameters), before);
}

TEST(Checkpoint, RefusesOtherOptimizers) {
  const Folder folder;
  Trained a;
  write_checkpoint(folder / "c.h5", copy_run(some_state(), a.parameters, momentum));
  const auto text = message_of<InputError>(
      [&] { load_checkpoint(folder / "c.h5", "small", a.parameters, std::vector<std::string>{"m", "v"}, nullptr); });
  EXPECT_NE(text.find("(momentum), but this run needs m, v"), std::string::npos) << text;
}

TEST(Checkpoint, RefusesDamage) {
  const Folder folder;
  Trained a;
  write_checkpoint(folder / "c.h5", copy_run(some_state(), a.parameters, momentum));
  const auto whole = content(folder / "c.h5");
  const auto offset = hdf5::File::open((folder / "c.h5").string()).info("/parameters/dense1/weights").raw_offset;
  ASSERT_GT(offset, 0);
  const auto load = [&](const std::string& bytes) {
    std::ofstream(folder / "d.h5", std::ios::binary) << bytes;
    return message_of<InputError>([&] { load_checkpoint(folder / "d.h5", "small", a.parameters, momentum, nullptr); });
  };
  for (auto& p : a.parameters.all())
    a.parameters.set(p, std::vector<float>(static_cast<std::size_t>(p.shape.elements())));
  const auto before = everything(a.parameters);
  auto flipped = whole;
  flipped[static_cast<std::size_t>(offset) + 10] ^= 1;
  EXPECT_NE(load(flipped).find("/parameters/dense1/weights does not match its checksum"), std::string::npos)
      << load(flipped);
  EXPECT_EQ(everything(a.parameters), before) << "arrays before the damaged one were set";
  EXPECT_NE(load(whole.substr(0, whole.size() / 2)).find("d.h5"), std::string::npos);
  EXPECT_NE(load("no HDF5 at all").find("d.h5"), std::string::npos);
  auto other_text = whole;
  other_text[whole.find("<eos>\t3")] ^= 1;
  EXPECT_NE(load(other_text).find("/texts/vocabulary does not match its checksum"), std::string::npos)
      << load(other_text);
  {
    auto f = hdf5::File::create((folder / "e.h5").string());
    f.set_attribute("/", "x", 1);
    f.close();
  }
  const auto text = message_of<InputError>([&] { read_run_state(folder / "e.h5"); });
  EXPECT_NE(text.find("is no checkpoint of Keelson"), std::string::npos) << text;
}

TEST(Checkpoint, ANumberThatIsNotFiniteIsNotWritten) {
  const Folder folder;
  Trained a;
  auto& p = a.parameters.at("dense2/bias");
  a.parameters.set(p, {1.0f, NAN});
  const auto text =
      message_of<Error>([&] { write_checkpoint(folder / "c.h5", copy_run(some_state(), a.parameters, momentum)); });
  EXPECT_NE(text.find("/parameters/dense2/bias holds a value that is not finite after step 77"), std::string::npos)
      << text;
  EXPECT_TRUE(folder.files().empty());
}

/// A file size limit is the full disk that works without a disk.
TEST(Checkpoint, FullDiskLeavesThePreviousOne) {
  const Folder folder;
  const CheckpointFolder checkpoints(folder.path(), 2);
  Trained a;
  auto s = some_state();
  const auto first = checkpoints.write(copy_run(s, a.parameters, momentum));
  const auto before = content(first);
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  for (const std::size_t limit : {before.size() / 2, before.size() - 100, std::size_t{100}}) {
    const rlimit small{limit, old.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    ++s.step;
    const auto text = message_of<Error>([&] { checkpoints.write(copy_run(s, a.parameters, momentum)); });
    setrlimit(RLIMIT_FSIZE, &old);
    EXPECT_NE(text.find("cannot write the checkpoint"), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_EQ(folder.files(), std::vector<std::string>{"step-0000000077.h5"});
    EXPECT_EQ(content(first), before);
  }
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(checkpoints.write(copy_run(s, a.parameters, momentum)).filename(), "step-0000000080.h5");
}

TEST(Checkpoint, KeepsTheLastAndTheBest) {
  const Folder folder;
  const CheckpointFolder checkpoints(folder / "checkpoints", 2);
  const Trained a;
  auto s = some_state();
  for (s.step = 1; s.step <= 5; ++s.step) {
    auto copy = copy_run(s, a.parameters, {});
    copy.best = s.step == 2 || s.step == 3;
    checkpoints.write(copy);
  }
  ASSERT_EQ(checkpoints.list().size(), 2u);
  EXPECT_EQ(checkpoints.list().back().filename(), "step-0000000005.h5");
  EXPECT_EQ(read_run_state(checkpoints.best()).step, 3);
  EXPECT_EQ(find_checkpoint(folder.path(), false), checkpoints.list().back());
  EXPECT_EQ(find_checkpoint(folder.path(), true), checkpoints.best());
  EXPECT_EQ(find_checkpoint(checkpoints.best(), false), checkpoints.best());
  EXPECT_THROW(find_checkpoint(folder / "nothing", false), InputError);
}

}  // namespace
}  // namespace keelson::testing
