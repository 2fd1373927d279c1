#include "apps/common/loader_options.hpp"

#include <algorithm>

#include "apps/common/subcommand.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"

namespace keelson::app {

void declare_threads(LoaderThreads& o, Subcommand& v) {
  const auto group = v.in(OptionGroup::machine);
  v.option("--loader-threads", o.count,
           "Threads per rank that decode samples; auto: 1, or with a GPU the rank's cores but one, at most 8, and more "
           "while steps wait for decoding",
           "N")
      .non_negative()
      .zero_as("auto")
      .not_stored()
      .differs_between_ranks();
  v.option("--reader-threads", o.readers,
           "Threads per rank that read samples for those to decode, or all that is needed where nothing is decoded; "
           "auto: as many as decode, and up to 16 while steps wait for reading",
           "N")
      .non_negative()
      .zero_as("auto")
      .not_stored()
      .differs_between_ranks();
}

void declare_prefetch(LoaderThreads& o, Subcommand& v) {
  const auto group = v.in(OptionGroup::machine);
  v.option("--prefetch", o.prefetch, "Batches decoded ahead; auto: 2, or as many as keep all threads busy", "N")
      .non_negative()
      .zero_as("auto")
      .not_stored()
      .differs_between_ranks();
  v.option("--loader-memory", o.memory,
           "Memory per rank for batches, and for samples between reading and decoding, e.g. 2G; auto: 256M, but always "
           "as much as 2 batches ahead need",
           "BYTES")
      .byte_size()
      .non_negative()
      .zero_as("auto")
      .not_stored()
      .differs_between_ranks();
}

void declare(CacheOptions& o, Subcommand& v) {
  const auto group = v.in(OptionGroup::machine);
  v.option(
       "--cache-memory", o.memory,
       "Memory in which each rank keeps a part of the training data, e.g. 8G, and of the validation data in what is "
       "left; ranks send each other what they need",
       "BYTES")
      .byte_size()
      .non_negative()
      .not_stored();
  v.option("--cache-disk", o.disk, "The same in files in --cache-folder, for what does not fit into --cache-memory",
           "BYTES")
      .byte_size()
      .non_negative()
      .not_stored();
  v.option("--cache-folder", o.folder, "Folder on a disk of the node, for --cache-disk", "DIR")
      .not_stored()
      .differs_between_ranks();
}

void check(const CacheOptions& o) {
  if (o.copies && o.disk > 0)
    refuse("--cache-disk with --stage-mode: the copies are on the nodes' disks already; leave --cache-disk out");
  if (o.disk > 0 && o.folder.empty())
    refuse("--cache-disk without --cache-folder: name a folder on a disk of the node, such as $TMPDIR");
  if (o.disk == 0 && !o.folder.empty())
    refuse("--cache-folder {} without --cache-disk: say how many bytes of the folder's disk may be used", o.folder);
}

void check_memory(const CacheOptions& o, std::int64_t needed, Communicator& world) {
  if (o.memory == 0) return;
  constexpr double gibi = 1 << 30;
  on_each_rank(&world, [&] {
    const std::int64_t ranks = world.local_size(), wanted = std::min(o.memory, needed);
    const comm::FreeMemory free = comm::free_memory();
    if (wanted <= free.bytes / ranks) return;
    refuse(
        "--cache-memory {}: {} of this node would keep {:.3g} GiB of samples, and {:.3g} GiB of memory are free there "
        "({}). Expected less than that, since the network needs memory, too; try --cache-memory {}M, or --cache-disk",
        o.memory, counted(ranks, "rank"), static_cast<double>(ranks * wanted) / gibi,
        static_cast<double>(free.bytes) / gibi, free.source, free.bytes / ranks / 2 / (1 << 20));
  });
}

LoaderThreads decide(const LoaderThreads& wanted, const Launch& launch) {
  constexpr int most_decoders = 8, most_readers = 16;
  const int free_cores = std::max(launch.placement.threads - 1, 1);
  LoaderThreads o = wanted;
  if (o.count == 0) {
    o.count = launch.on_gpu ? std::min(free_cores, most_decoders) : 1;
    o.most_count = std::min(launch.on_gpu ? free_cores : launch.placement.threads, most_decoders);
  }
  if (o.readers == 0) o.most_readers = most_readers;  // they sleep while the file system works
  o.cpus = launch.placement.cpus;
  return o;
}

}  // namespace keelson::app
