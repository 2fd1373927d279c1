#include "engine/optim/shampoo.hpp"

#include "engine/data/hdf5/hdf5.hpp"
#include "engine/graph/channel_maps.hpp"
#include "tests/train/resumed.hpp"

/// Trainings with an optimizer whose states have shapes of their own, and whose roots are computed in some steps alone.
namespace keelson::testing {
namespace {

bool computes_roots(Context& where) {
  return where.try_make(ops::InverseRootsDesc{{TensorDesc::plain({1, 2, 2})}, {{0, 0, 2, 2}}, 1e-6f}) != nullptr;
}
#define KEELSON_NEED_ROOTS \
  if (!computes_roots(context(network_contexts().back()))) GTEST_SKIP() << "this build has no LAPACK"

/// Roots of the steps 2, 6, 10 and 14 of 15.
TrainerOptions shampoo_options() {
  auto shampoo = std::make_shared<Shampoo>();
  shampoo->precondition_frequency = 4;
  shampoo->start_preconditioning_step = 2;
  shampoo->step_momentum = 0.5f;
  shampoo->max_preconditioner_dim = 64;
  auto o = small_options();
  o.epochs = 3;
  o.optimizer = shampoo;
  o.schedule.base = 1e-3;
  o.transform = std::make_shared<Flip>();
  return o;
}

Graph shampoo_network() { return small_network(); }

TEST(ShampooTraining, ResumesBitForBitBetweenRoots) {
  KEELSON_NEED_ROOTS;
  Context& where = context(network_contexts().back());
  const auto o = shampoo_options();
  Training whole(shampoo_network(), o, where);
  whole.go();
  EXPECT_LT(whole.recorder.train_losses.back(), whole.recorder.train_losses.front());
  expect_same_when_resumed(shampoo_network, o, where, whole, {1, 2, 3, 6, 7, 9});
}

/// Roots of the factors of the steps 2, 6 and 10, used from the steps 5, 9 and 13 on.
TEST(ShampooTraining, ResumesBitForBitWhileRootsAreComputed) {
  KEELSON_NEED_ROOTS;
  Context& where = context(network_contexts().back());
  auto o = shampoo_options();
  auto delayed = std::make_shared<Shampoo>(dynamic_cast<const Shampoo&>(*o.optimizer));
  delayed->precondition_delay = 3;
  o.optimizer = delayed;
  Training whole(shampoo_network(), o, where);
  whole.go();
  EXPECT_LT(whole.recorder.train_losses.back(), whole.recorder.train_losses.front());
  expect_same_when_resumed(shampoo_network, o, where, whole, {2, 3, 4, 5, 6, 8, 9, 12});
}

TEST(ShampooTraining, ResumesWithLaggedGradients) {
  KEELSON_NEED_ROOTS;
  Context& where = context(network_contexts().back());
  auto o = shampoo_options();
  o.sync.kind = SyncMode::Kind::lag;
  Training whole(shampoo_network(), o, where);
  whole.go();
  expect_same_when_resumed(shampoo_network, o, where, whole, {4});
}

TEST(ShampooTraining, CheckpointsHoldMatrices) {
  KEELSON_NEED_ROOTS;
  const Folder folder;
  auto o = shampoo_options();
  o.checkpoints.folder = folder.path();
  o.max_steps = 5;
  Training t(o);
  t.go();
  const auto file = hdf5::File::open(find_checkpoint(folder.path(), false).string());
  const auto shape = [&](const std::string& array) { return file.info("/optimizer/" + array).shape; };
  // (8, 6 * 27) in one block of rows and three of columns; the weights of two outputs, of three dimensions at first.
  EXPECT_EQ(shape("factor_matrices_0/dense1/weights"), (hdf5::Dims{3, 8, 8}));
  EXPECT_EQ(shape("inv_factor_matrices_1/dense1/weights"), (hdf5::Dims{3, 54, 54}));
  EXPECT_EQ(shape("factor_matrices_0/dense1/bias"), (hdf5::Dims{1, 8, 8}));
  EXPECT_EQ(shape("m/dense1/weights"), (hdf5::Dims{8, 162}));
  EXPECT_FALSE(file.has("/optimizer/factor_matrices_1/dense1/bias"));
  EXPECT_FALSE(file.has("/optimizer/factor_matrices_4"));
  const auto root = file.read<float>("/optimizer/inv_factor_matrices_0/dense1/weights");
  EXPECT_GT(root[0], 0);
  EXPECT_EQ(root[1], root[8]) << "symmetric";
}

/// Matrices of other sizes are not taken.
TEST(ShampooTraining, RefusesMatricesOfOtherBlocks) {
  KEELSON_NEED_ROOTS;
  const Folder folder;
  auto o = shampoo_options();
  o.checkpoints.folder = folder.path();
  o.max_steps = 5;
  Training(o).go();
  auto other = std::make_shared<Shampoo>(dynamic_cast<const Shampoo&>(*o.optimizer));
  other->max_preconditioner_dim = 32;
  Parameters parameters(small_network(), context(network_contexts().back()), 1);
  set_own_shapes(parameters, *other);
  const CheckpointReader reader(folder.path(), false, nullptr);
  try {
    reader.check("small", parameters, moment_names(*other));
    ADD_FAILURE() << "was not refused";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("factor_matrices_"), std::string::npos) << e.what();
  }
}

/// A network that changes goes on with factors of zeros, and moves as the grafted method says until there are roots.
TEST(ShampooTraining, BeginsAnewWhenTheNetworkChanges) {
  KEELSON_NEED_ROOTS;
  Context& where = context(network_contexts().back());
  auto o = shampoo_options();
  const auto network = [] { return small_network(0); };
  o.change_network = [](const RunState& s, const Parameters&) -> std::optional<NetworkChange> {
    if (s.epoch > 1) return std::nullopt;
    auto change = change_channels(small_network(0), {{"dense1", {0, 2, 3, 5, 6, -1}}});
    change.may_be_undone = true;
    return change;
  };
  Training whole(network(), o, where);
  whole.go();
  EXPECT_EQ(whole.parameters.at("dense1/weights").shape[0], 6);
  EXPECT_EQ(whole.parameters.at("dense1/bias").shape_of(3), (Shape{1, 6, 6}));
  for (const float v : everything(whole.parameters)) ASSERT_TRUE(std::isfinite(v));
  expect_same_when_resumed(network, o, where, whole, {4, 5, 6, 8});
}

}  // namespace
}  // namespace keelson::testing
