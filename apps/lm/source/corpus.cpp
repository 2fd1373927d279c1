#include "apps/lm/source/corpus.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "engine/base/atomic_file.hpp"
#include "engine/base/error.hpp"
#include "engine/base/philox.hpp"

namespace keelson::lm {

std::vector<std::string> made_up_words(std::int64_t count, std::uint64_t seed) {
  std::vector<std::string> syllables;
  for (const char consonant : std::string_view("bdfghjklmnprstvz"))
    for (const char vowel : std::string_view("aeiou")) syllables.push_back({consonant, vowel});
  const philox::Key key{seed, philox::stream_of("syllables")};
  for (std::size_t i = syllables.size(); i > 1; --i)
    std::swap(syllables[i - 1], syllables[std::uint64_t{philox::bits(key, i)} * i >> 32]);

  std::vector<std::string> words;
  for (std::int64_t n = 0; n < count; ++n) {
    std::string word;
    const auto base = static_cast<std::int64_t>(syllables.size());
    for (auto rest = n; rest >= 0; rest = rest / base - 1) word += syllables[static_cast<std::size_t>(rest % base)];
    words.push_back(word);
  }
  return words;
}

std::int64_t write_corpus(const TopicChain& chain, const std::vector<std::string>& words, std::uint64_t seed,
                          std::uint64_t split, std::int64_t tokens, const std::filesystem::path& path,
                          const CorpusProgress& progress) {
  constexpr std::size_t buffer_bytes = 1 << 20;
  AtomicFile file(path);
  std::ofstream out(file.temporary(), std::ios::binary);
  std::string buffer;
  const auto flush = [&] {
    out.write(buffer.data(), static_cast<std::streamsize>(buffer.size())).flush();
    if (!out) fail("cannot write {}{}", path.string(), reason_of_writing(errno, path.parent_path()));
    buffer.clear();
  };
  const philox::Key key{seed, philox::stream_of("corpus"), split};
  std::int64_t written = 0;
  for (auto state = chain.start(); written < tokens || state % chain.tokens() != chain.eos();) {
    const auto token = draw(chain.row(state), philox::bits(key, static_cast<std::uint64_t>(written)));
    if (token == chain.eos()) {
      buffer += '\n';
    } else {
      if (chain.token_of(state) != chain.eos()) buffer += ' ';
      buffer += words[static_cast<std::size_t>(token)];
    }
    state = chain.next(state, token);
    ++written;
    if (buffer.size() < buffer_bytes) continue;
    flush();
    if (progress) progress(written);
  }
  flush();
  out.close();
  file.commit();
  return written;
}

}  // namespace keelson::lm
