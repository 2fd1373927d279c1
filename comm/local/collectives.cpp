#include "comm/local/collectives.hpp"

#include "engine/base/error.hpp"

namespace keelson::comm::detail {

class LocalMessage final : public Collective {
 public:
  LocalMessage(LocalCollectives& owner, const CollectiveDesc& desc)
      : owner_(owner), desc_(desc), number_(owner.numbers_.take(desc)), pair_(owner.started_[number_]) {}
  ~LocalMessage() override {
    mine() = nullptr;
    owner_.numbers_.give_back(desc_, number_);
  }
  LocalMessage(const LocalMessage&) = delete;

  void start() override {
    KEELSON_EXPECT(mine() == nullptr);
    mine() = &desc_;
    if (pair_.send == nullptr || pair_.receive == nullptr) return;
    const CollectiveDesc &send = *pair_.send, &receive = *pair_.receive;
    pair_ = {};
    if (send.count != receive.count)
      fail("{} sends {} bytes, but {} receives {} bytes", send.label, send.count, receive.label, receive.count);
    if (send.count > 0) owner_.copy_(receive.dst, send.src, send.count);
  }
  bool test() override { return mine() == nullptr; }
  void wait() override {
    if (test()) return;
    mine() = nullptr;
    fail("the only rank waits for {}, but has not started {}: start both before the wait", desc_.label,
         desc_.kind == CollectiveDesc::Kind::send ? "the matching receive" : "the matching send");
  }

 private:
  const CollectiveDesc*& mine() { return desc_.kind == CollectiveDesc::Kind::send ? pair_.send : pair_.receive; }

  LocalCollectives& owner_;
  CollectiveDesc desc_;
  int number_;
  LocalCollectives::Pair& pair_;
};

std::unique_ptr<Collective> LocalCollectives::make(const CollectiveDesc& desc) {
  if (desc.point_to_point()) return std::make_unique<LocalMessage>(*this, desc);
  return make_local_collective(desc, copy_);
}

}  // namespace keelson::comm::detail
