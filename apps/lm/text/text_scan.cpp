#include "apps/lm/text/text_scan.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "apps/lm/text/token_table.hpp"
#include "engine/base/error.hpp"
#include "engine/base/fnv1a.hpp"
#include "engine/base/ranks.hpp"

namespace keelson::lm {
namespace {

namespace fs = std::filesystem;

/// Packs numbers and texts into bytes, one after the other.
class Packer {
 public:
  void put(std::int64_t n) { bytes_.append(reinterpret_cast<const char*>(&n), sizeof n); }
  void put(std::string_view text) {
    put(static_cast<std::int64_t>(text.size()));
    bytes_ += text;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : rest_(bytes) {}
  std::int64_t number() {
    std::int64_t n;
    std::memcpy(&n, next(sizeof n).data(), sizeof n);
    return n;
  }
  std::string text() { return std::string(next(number())); }
  bool done() const { return rest_.empty(); }

 private:
  std::string_view next(std::int64_t bytes) {
    KEELSON_EXPECT(bytes >= 0 && bytes <= static_cast<std::int64_t>(rest_.size()));
    const auto taken = rest_.substr(0, static_cast<std::size_t>(bytes));
    rest_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view rest_;
};

std::vector<TextFile> measured(const std::vector<std::string>& paths) {
  if (paths.empty()) refuse("no text file is given. Expected at least one");
  std::vector<TextFile> files;
  for (const auto& path : paths) {
    if (fs::is_directory(path)) refuse("{}: is a folder. Expected a text file", path);
    const TextBytes file(path);
    if (file.size() == 0) refuse("{}: is empty. Expected UTF-8 text", path);
    files.push_back({path, file.size(), sampled_hash(file)});
  }
  return files;
}

/// Counts the tokens of one text and records where blocks begin.
class Counter {
 public:
  Counter(TextScan& scan, const ScanProgress& progress) : scan_(scan), progress_(progress) {
    for (const auto& file : scan.files) all_bytes_ += file.bytes;
  }

  void add(const TextFile& file) {
    const TextBytes text(file.path);
    TokenReader reader(text, scan_.level);
    const auto before = scan_.tokens;
    for (std::string_view token; reader.next(token); ++scan_.tokens) {
      if (scan_.tokens % TextScan::block == 0) begin_block(reader.offset());
      const auto number = static_cast<std::size_t>(types_.add(token));
      if (number == counts_.size()) counts_.push_back(0);
      ++counts_[number];
    }
    if (scan_.tokens == before) refuse("{}: has no words in its {} bytes. Expected UTF-8 text", file.path, file.bytes);
    start_ += file.bytes + 1;
    done_bytes_ += file.bytes;
    if (progress_) progress_(done_bytes_, all_bytes_);
  }

  std::vector<TokenCount> sorted() const {
    std::vector<TokenCount> types;
    types.reserve(counts_.size());
    for (std::int32_t i = 0; i < types_.size(); ++i)
      types.push_back({std::string(types_.token(i)), counts_[static_cast<std::size_t>(i)]});
    std::sort(types.begin(), types.end(), comes_before);
    return types;
  }

 private:
  void begin_block(std::int64_t offset) {
    constexpr std::size_t blocks_per_report = 1 << 10;
    scan_.blocks.push_back(start_ + offset);
    if (progress_ && scan_.blocks.size() % blocks_per_report == 0) progress_(done_bytes_ + offset, all_bytes_);
  }

  TextScan& scan_;
  const ScanProgress& progress_;
  TokenTable types_;
  std::vector<std::int64_t> counts_;
  std::int64_t start_ = 0;  ///< position of the file's first byte
  std::int64_t done_bytes_ = 0, all_bytes_ = 0;
};

}  // namespace

bool comes_before(const TokenCount& a, const TokenCount& b) {
  return a.count != b.count ? a.count > b.count : a.token < b.token;
}

std::uint64_t sampled_hash(const TextBytes& file) {
  constexpr std::int64_t pieces = 64, length = 1024;
  const auto size = file.size();
  std::string bytes(static_cast<std::size_t>(std::min(length, size)), '\0');
  const auto count = static_cast<std::int64_t>(bytes.size());
  Digest digest;
  for (std::int64_t i = 0; i < pieces; ++i) {
    file.read(bytes.data(), count, (size - count) * i / (pieces - 1));
    digest.add(bytes);
    if (size <= length) break;
  }
  return digest.value();
}

std::uint64_t TextScan::digest() const {
  Digest digest;
  digest.add(level).add(tokens);
  for (const auto& f : files) digest.add(fs::path(f.path).filename().string()).add(f.bytes).add(f.sampled);
  for (const auto& t : types) digest.add(t.token).add(t.count);
  return digest.value();
}

std::int64_t TextScan::bytes() const {
  std::int64_t all = 0;
  for (const TextFile& f : files) all += f.bytes;
  return all;
}

std::string TextScan::name() const {
  auto first = fs::path(files.at(0).path).filename().string();
  if (files.size() == 1) return first;
  return fmt::format("{} and {} more file{}", first, files.size() - 1, files.size() == 2 ? "" : "s");
}

std::string TextScan::to_bytes() const {
  Packer p;
  p.put(static_cast<std::int64_t>(level));
  p.put(tokens);
  p.put(static_cast<std::int64_t>(files.size()));
  for (const auto& f : files) {
    p.put(f.path);
    p.put(f.bytes);
    p.put(static_cast<std::int64_t>(f.sampled));
  }
  p.put(static_cast<std::int64_t>(types.size()));
  for (const auto& t : types) {
    p.put(t.token);
    p.put(t.count);
  }
  p.put(static_cast<std::int64_t>(blocks.size()));
  for (const auto b : blocks) p.put(b);
  return p.take();
}

TextScan TextScan::from_bytes(std::string_view bytes) {
  Unpacker u(bytes);
  TextScan scan;
  scan.level = static_cast<TokenLevel>(u.number());
  scan.tokens = u.number();
  for (auto n = u.number(); n > 0; --n) {
    auto path = u.text();
    const auto size = u.number();
    scan.files.push_back({std::move(path), size, static_cast<std::uint64_t>(u.number())});
  }
  for (auto n = u.number(); n > 0; --n) {
    auto token = u.text();
    scan.types.push_back({std::move(token), u.number()});
  }
  for (auto n = u.number(); n > 0; --n) scan.blocks.push_back(u.number());
  KEELSON_EXPECT(u.done());
  return scan;
}

TextScan scan_text(const std::vector<std::string>& paths, TokenLevel level, const ScanProgress& progress) {
  TextScan scan;
  scan.level = level;
  scan.files = measured(paths);
  Counter counter(scan, progress);
  for (const auto& file : scan.files) counter.add(file);
  scan.types = counter.sorted();
  return scan;
}

TextScan scan_text(const std::vector<std::string>& paths, TokenLevel level, Communicator& communicator,
                   const ScanProgress& progress) {
  TextScan scan;
  on_first_rank(&communicator, [&] { scan = scan_text(paths, level, progress); });
  if (communicator.size() == 1) return scan;
  std::string bytes = communicator.rank() == 0 ? scan.to_bytes() : "";
  auto size = static_cast<std::int64_t>(bytes.size());
  communicator.broadcast(&size, sizeof size, 0);
  bytes.resize(static_cast<std::size_t>(size));
  communicator.broadcast(bytes.data(), bytes.size(), 0);
  return communicator.rank() == 0 ? scan : TextScan::from_bytes(bytes);
}

}  // namespace keelson::lm
