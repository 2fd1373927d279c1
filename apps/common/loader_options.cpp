#include "apps/common/loader_options.hpp"

#include <algorithm>

#include "apps/common/subcommand.hpp"
#include "engine/base/error.hpp"

namespace keelson::app {

void declare_threads(LoaderThreads& o, Subcommand& v) {
  v.option("--loader-threads", o.count,
           "Decoding threads per rank; 0: 1, or with a GPU the rank's cores but one, at most 8", "N")
      .non_negative()
      .not_stored()
      .differs_between_ranks();
}

void declare_prefetch(LoaderThreads& o, Subcommand& v) {
  v.option("--prefetch", o.prefetch, "Batches decoded ahead; 0: 2, or as many as keep the decoding threads busy", "N")
      .non_negative()
      .not_stored()
      .differs_between_ranks();
}

void declare(CacheOptions& o, Subcommand& v) {
  v.option("--cache-memory", o.memory,
           "Memory in which each rank keeps a part of the training data, e.g. 8G; ranks send each other what they need",
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
  if (o.disk > 0 && o.folder.empty())
    refuse("--cache-disk without --cache-folder: name a folder on a disk of the node, such as $TMPDIR");
  if (o.disk == 0 && !o.folder.empty())
    refuse("--cache-folder {} without --cache-disk: say how many bytes of the folder's disk may be used", o.folder);
}

LoaderThreads decide(const LoaderThreads& wanted, const Launch& launch, std::int64_t batch) {
  LoaderThreads o = wanted;
  if (o.count == 0) o.count = launch.on_gpu ? std::clamp(launch.placement.threads - 1, 1, 8) : 1;
  if (o.prefetch == 0)
    o.prefetch = std::max(2, static_cast<int>((o.count + batch - 1) / std::max<std::int64_t>(batch, 1)));
  o.cpus = launch.placement.cpus;
  return o;
}

}  // namespace keelson::app
