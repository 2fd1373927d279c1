#include "engine/tensor/layout.hpp"

#include <gtest/gtest.h>

#include "engine/tensor/tensor.hpp"

namespace keelson {
namespace {

/// A blocked layout of somebody's, for what the engine may do with one: compare, measure, name.
class Blocked : public OpaqueLayout {
 public:
  Blocked(std::string owner, int block, std::size_t bytes) : owner_(std::move(owner)), block_(block), bytes_(bytes) {}
  std::string_view backend() const override { return owner_; }
  std::size_t bytes() const override { return bytes_; }
  bool equals(const OpaqueLayout& other) const override {
    return block_ == dynamic_cast<const Blocked&>(other).block_ && bytes_ == other.bytes();
  }
  std::string to_string() const override { return fmt::format("aB{}b", block_); }

 private:
  std::string owner_;
  int block_;
  std::size_t bytes_;
};

Layout blocked(std::string owner, int block, std::size_t bytes) {
  return Layout::opaque(std::make_shared<Blocked>(std::move(owner), block, bytes));
}

TEST(Layout, PlainIsRowMajor) {
  EXPECT_EQ(Layout::plain({2, 3, 4, 5}).strides(), (Shape{60, 20, 5, 1}));
  EXPECT_EQ(Layout::plain({7}).strides(), (Shape{1}));
  EXPECT_EQ(Layout::plain({}).strides(), Shape{});
}

TEST(Layout, ChannelsLastKeepsLogicalOrder) {
  EXPECT_EQ(Layout::channels_last({2, 3, 4, 5}).strides(), (Shape{60, 1, 15, 3}));
  EXPECT_EQ(Layout::channels_last({2, 3, 4, 5, 6}).strides(), (Shape{360, 1, 90, 18, 3}));
  EXPECT_EQ(Layout::channels_last({2, 3, 4}).strides(), (Shape{12, 1, 3}));
}

TEST(Layout, ChannelsLastOfAMatrixIsPlain) { EXPECT_EQ(Layout::channels_last({2, 3}), Layout::plain({2, 3})); }

TEST(Layout, StridesOfExtentOneCarryNoInformation) {
  const Shape s{1, 3, 1, 5};
  EXPECT_EQ(Layout::strided(s, {999, 5, 77, 1}), Layout::plain(s));
  EXPECT_EQ(Layout::strided(s, {999, 5, 77, 1}).strides(), (Shape{1, 5, 1, 1}));
  EXPECT_NE(Layout::strided(s, {15, 1, 15, 3}), Layout::plain(s));
}

TEST(Layout, OneChannelIsPlainAndChannelsLastAtOnce) {
  const Shape s{2, 1, 4, 5};
  const Layout l = Layout::channels_last(s);
  EXPECT_TRUE(l.is_plain(s));
  EXPECT_TRUE(l.is_channels_last(s));
  EXPECT_EQ(l, Layout::plain(s));
  EXPECT_EQ(l.describe(s), "plain");
}

TEST(Layout, OnePixelIsPlainAndChannelsLastAtOnce) {
  EXPECT_EQ(Layout::channels_last({4, 6, 1, 1, 1}), Layout::plain({4, 6, 1, 1, 1}));
}

TEST(Layout, Equality) {
  const Shape s{2, 3, 4, 5};
  EXPECT_EQ(Layout::any(), Layout());
  EXPECT_NE(Layout::any(), Layout::plain(s));
  EXPECT_NE(Layout::plain(s), Layout::channels_last(s));
  EXPECT_NE(Layout::plain({2, 3}), Layout::plain({2, 3, 1}));
}

TEST(Layout, OpaqueEqualityAsksItsBackend) {
  EXPECT_EQ(blocked("x", 16, 640), blocked("x", 16, 640));
  EXPECT_NE(blocked("x", 16, 640), blocked("x", 8, 640));
  EXPECT_NE(blocked("x", 16, 640), blocked("y", 16, 640));  // equals() must not see another backend's
  EXPECT_NE(blocked("x", 16, 640), Layout::plain({10, 16}));
  EXPECT_NE(Layout::any(), blocked("x", 16, 640));
}

TEST(Layout, Kinds) {
  const Shape s{2, 3};
  EXPECT_TRUE(Layout::any().is_any());
  EXPECT_TRUE(Layout::plain(s).is_strided());
  EXPECT_FALSE(Layout::plain(s).is_any());
  const Layout o = blocked("x", 16, 640);
  EXPECT_TRUE(o.is_opaque());
  EXPECT_FALSE(o.is_strided());
  EXPECT_FALSE(o.is_plain(s));
  EXPECT_EQ(o.opaque().to_string(), "aB16b");
}

TEST(Layout, Bytes) {
  const Shape s{2, 3, 5};
  EXPECT_EQ(Layout::plain(s).bytes(s, DType::f32), 120u);
  EXPECT_EQ(Layout::plain(s).bytes(s, DType::f64), 240u);
  EXPECT_EQ(Layout::plain(s).bytes(s, DType::bf16), 60u);
  EXPECT_EQ(Layout::channels_last(s).bytes(s, DType::f32), 120u);
  EXPECT_EQ(Layout::strided(s, {32, 8, 1}).bytes(s, DType::f32), (32 + 16 + 4 + 1) * 4u);  // up to the last element
  EXPECT_EQ(Layout::plain({2, 0, 5}).bytes({2, 0, 5}, DType::f32), 0u);
  EXPECT_EQ(Layout::plain({}).bytes({}, DType::f64), 8u);
  EXPECT_EQ(blocked("x", 16, 640).bytes(s, DType::f32), 640u);
  EXPECT_THROW(Layout::any().bytes(s, DType::f32), Error);
}

TEST(Layout, WithoutGapsKeepsTheOrder) {
  const Shape part{2, 3, 4, 5}, whole{2, 7, 4, 5};
  EXPECT_EQ(Layout::strided(part, Layout::plain(whole).strides()).without_gaps(part), Layout::plain(part));
  EXPECT_EQ(Layout::strided(part, Layout::channels_last(whole).strides()).without_gaps(part),
            Layout::channels_last(part));
  const Shape one{1, 1, 4, 5}, row{1, 7, 1, 5};
  EXPECT_EQ(Layout::strided(one, Layout::channels_last(whole).strides()).without_gaps(one), Layout::plain(one));
  EXPECT_EQ(Layout::strided(row, {140, 30, 5, 2}).without_gaps(row), Layout::plain(row));
  EXPECT_EQ(Layout::any().without_gaps(part), Layout::any());
}

TEST(Layout, Dense) {
  const Shape s{2, 3, 5};
  EXPECT_TRUE(Layout::plain(s).is_dense(s));
  EXPECT_TRUE(Layout::channels_last(s).is_dense(s));
  EXPECT_FALSE(Layout::strided(s, {32, 8, 1}).is_dense(s));
  EXPECT_TRUE(blocked("x", 16, 640).is_dense(s));
  EXPECT_FALSE(Layout::any().is_dense(s));
}

TEST(Layout, MisuseIsRefused) {
  EXPECT_THROW(Layout::any().strides(), Error);
  EXPECT_THROW(Layout::plain({2, 3}).opaque(), Error);
  EXPECT_THROW(Layout::strided({2, 3}, {1}), Error);
  EXPECT_THROW(Layout::opaque(nullptr), Error);
}

TEST(Layout, Text) {
  const Shape s{2, 3, 4, 5};
  EXPECT_EQ(Layout::any().to_string(), "any");
  EXPECT_EQ(blocked("x", 16, 640).to_string(), "x:aB16b");
  EXPECT_EQ(Layout::plain(s).describe(s), "plain");
  EXPECT_EQ(Layout::channels_last(s).describe(s), "channels-last");
  EXPECT_EQ(Layout::strided({2, 3}, {8, 1}).describe({2, 3}), "strided 8,1");
}

TEST(TensorDesc, DescribesAndCompares) {
  const TensorDesc d = TensorDesc::plain({2, 4, 8, 8});
  EXPECT_EQ(d.bytes(), 2 * 4 * 8 * 8 * 4u);
  EXPECT_EQ(d.elements(), 512);
  EXPECT_EQ(to_string(d), "2x4x8x8 f32 plain");
  EXPECT_EQ(to_string(d.with(Layout::channels_last(d.shape))), "2x4x8x8 f32 channels-last");
  EXPECT_EQ(d, TensorDesc::plain({2, 4, 8, 8}));
  EXPECT_NE(d, TensorDesc::plain({2, 4, 8, 8}, DType::f64));
  EXPECT_NE(d, d.with(Layout::any()));
}

TEST(Tensor, ViewsSharedDataAndChecksItsType) {
  auto owner = std::make_shared<std::vector<float>>(6);
  Tensor t(TensorDesc::plain({2, 3}), owner->data(), owner);
  const Tensor copy = t;
  copy.data<float>()[4] = 5;
  EXPECT_EQ(t.data<float>()[4], 5);
  EXPECT_EQ(owner.use_count(), 3);
  EXPECT_THROW(t.data<double>(), Error);
  EXPECT_FALSE(Tensor());
  EXPECT_TRUE(t);
  EXPECT_EQ(t.stored_elements(), 6);
}

TEST(Tensor, StoredElementsCountPadding) {
  const Shape s{1, 3};
  float memory[16] = {};
  const Tensor t({s, DType::f32, blocked("x", 16, sizeof memory)}, memory);
  EXPECT_EQ(t.elements(), 3);
  EXPECT_EQ(t.stored_elements(), 16);
}

TEST(DType, SizesAndNames) {
  EXPECT_EQ(size_of(DType::f64), 8u);
  EXPECT_EQ(size_of(DType::f16), 2u);
  EXPECT_EQ(size_of(DType::u8), 1u);
  EXPECT_EQ(to_string(DType::bf16), "bf16");
  EXPECT_EQ(to_string(DType::s32), "s32");
}

}  // namespace
}  // namespace keelson
